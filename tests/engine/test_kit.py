"""Goal: the conformance kit notices an engine that breaks a promise; or it would be worth nothing.

Each engine of broken.py and of the broken_….py has one thing wrong, and stands here
beside the tests that have to see it. The same tests pass on the sound engines those were made from,
so it is that one thing they see.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.port import Engine, Limits
from holdfast.engine.stamping import Clock
from holdfast.errors import HoldfastError
from holdfast.testing.conformance import (
    FLEET,
    EngineConformance,
    concurrency,
    upkeep,
    waits,
    workbench,
)
from holdfast.testing.conformance.crashes import APPEND, CALLS, COMMIT
from holdfast.testing.conformance.promises import promises_of
from tests.engine import broken, broken_blocks, broken_lanes, broken_owners, test_conformance
from tests.engine.broken import Delivering, Lasting, Sound

ROOT = Path(__file__).parents[2]


class Kit(EngineConformance):
    fault_points = test_conformance.ALL_POINTS
    free: int | None = None

    def __init__(self, kind: type[Sound]) -> None:
        self.kind = kind
        self.capabilities = kind.capabilities

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        return self.kind(FLEET, partitions, limits, clock, self.faults)

    def reopen(self, engine: Engine) -> Engine:
        assert isinstance(engine, Sound)
        return engine.twin()

    def plant(self, contents: Contents) -> Engine:
        return self.kind.plant(contents)

    def free_bytes(self) -> int | None:
        return self.free


def run(kit: Kit, test: str, arguments: tuple[object, ...]) -> None:
    try:
        getattr(kit, test)(*arguments)
    except pytest.skip.Exception as skipped:
        raise LookupError(f"{test} was skipped, and has seen nothing: {skipped}") from None


IN_AN_APPEND = (CALLS.index(APPEND), "append.inside")
IN_A_COMMIT = (CALLS.index(COMMIT), "commit.inside")

NOTICED: list[tuple[type[Sound], str, tuple[object, ...]]] = [
    (broken.Doubling, "a_repeat_is_a_no_op", ()),
    (broken.Doubling, "of_a_partial_repeat_only_the_new_ones_are_taken", ()),
    (broken.Doubling, "a_repeated_message_is_a_no_op", ()),
    (broken.Doubling, "a_gap_in_messages_is_refused", ()),
    (broken.Doubling, "the_window_ends_exactly_where_it_says", ()),
    (broken.Doubling, "past_the_bound_a_new_source_is_refused_and_none_is_forgotten", ()),
    (broken.Doubling, "the_same_events_from_many_threads_are_taken_once", ()),
    (broken.Reordering, "parcels_of_one_append_keep_their_order", ()),
    (broken.Touchy, "a_refused_parcel_does_not_hold_up_the_others", ()),
    (broken.Forgetful, "order_of_append_is_order_of_positions", ()),
    (broken.Forgetful, "appends_of_many_threads_are_all_there_once", ()),
    (broken.Forgetful, "producers_an_owner_and_readers_at_once", ()),
    (broken.Forgetful, "a_long_run_of_small_frames_is_read_on_to_its_end", ()),
    (broken.Boasting, "what_was_taken_is_told", ()),
    (broken.Folding, "names_of_any_kind_come_back_as_they_went", ()),
    (broken.Folding, "sources_have_numbers_of_their_own", ()),
    (broken.Editing, "a_large_frame_of_many_columns_comes_back_whole", ()),
    (broken.Mingling, "partitions_do_not_know_each_other", ()),
    (broken_lanes.Laneless, "urgent_rows_stand_in_the_lane_in_order", ()),
    (broken_lanes.Laneless, "the_lane_is_read_from_any_place_on", ()),
    (broken_lanes.HalfPlaced, "a_mixed_parcel_is_divided", ()),
    (broken_lanes.Narrow, "each_of_the_two_has_a_bound_of_its_own", ()),
    (broken_lanes.Sweeping, "upkeep_keeps_what_waits_in_the_lane", ()),
    (broken_lanes.Recounting, "a_commit_says_how_much_of_the_lane_is_folded", ()),
    (broken.Doubling, "numbers_are_known_in_lane_and_inbox_alike", ()),
    (broken.Boundless, "each_of_the_two_has_a_bound_of_its_own", ()),
    (broken.Boundless, "backlog_refuses_the_outside_and_not_messages", ()),
    (broken.Boundless, "a_backlog_belongs_to_its_partition", ()),
    (broken.Strict, "backlog_refuses_the_outside_and_not_messages", ()),
    (broken.OffByOne, "the_backlog_ends_exactly_at_its_bound", ()),
    (broken.Backward, "a_clock_set_back_does_not_set_stamps_back", ()),
    (broken.Backward, "a_leap_ahead_is_refused_and_leaves_no_trace", ("plain",)),
    (broken.Patient, "an_append_that_gets_no_turn_gives_up_in_time", ()),
    (broken.Piecemeal, "who_saw_a_part_of_an_append_sees_all_of_it", ()),
    (broken.Late, "reading_begins_with_the_frame_that_holds_the_position", ()),
    (broken.Gluttonous, "a_read_gives_no_more_than_it_was_asked_for", ()),
    (broken.Exact, "reading_where_nothing_is_gives_nothing", ()),
    (broken.Hasty, "who_saw_a_part_of_a_commit_sees_all_of_it", ()),
    (broken.Previewing, "what_is_under_way_is_not_seen", ()),
    (broken_owners.Unfenced, "an_older_claim_can_not_commit", ()),
    (broken_owners.Unfenced, "a_claim_alone_fences_though_nothing_was_committed_since", ()),
    (broken_owners.Unfenced, "a_commit_from_a_wrong_head_is_refused_and_leaves_nothing", ()),
    (broken_owners.Unfenced, "of_two_who_claim_at_once_one_can_commit", ()),
    (broken_owners.FencedEarly, "a_claim_during_a_commit_fences_it", ()),
    (broken_owners.Torn, "a_commit_from_a_wrong_head_is_refused_and_leaves_nothing", ()),
    (broken_owners.Torn, "an_older_claim_can_not_commit", ()),
    (broken_owners.Unrepeatable, "a_crash_after_a_call", (CALLS.index(COMMIT),)),
    (broken_owners.Noteless, "every_commit_leaves_a_note", ()),
    (broken_owners.Noteless, "a_commit_that_was_repeated_has_one_note", ()),
    (broken_owners.Overzealous, "clearing_what_was_relayed_leaves_no_note", ()),
    (broken_owners.Tidy, "notes_stay_as_long_as_the_journal", ()),
    (broken_owners.Forgiving, "what_became_of_actions_is_remembered", ()),
    (broken_owners.Forgiving, "new_partitions_know_what_became_of_actions", ()),
    (broken_owners.Lifting, "new_partitions_stay_under_a_ground_stop", ()),
    (broken_owners.Laconic, "what_became_of_one_action_is_found_by_its_id", ()),
    (broken_owners.Overlapping, "of_two_who_claim_at_once_one_can_commit", ()),
    (broken_owners.Timeless, "older_code_may_not_fold_where_newer_code_did", ()),
    (broken_owners.Timeless, "a_generation_belongs_to_its_partition", ()),
    (broken_owners.Timeless, "epochs_grow_with_every_claim", ()),
    (broken_owners.Reborn, "partitions_have_incarnations_of_their_own_that_stay", ()),
    (broken_owners.Mute, "who_was_fenced_is_told_and_does_not_claim_back", ()),
    (broken_owners.Usurping, "a_refused_claim_ends_no_other", ()),
    (broken_owners.Heartless, "deaths_at_one_position_are_counted_and_end_in_folding_alone", ()),
    (broken_owners.Heartless, "a_death_elsewhere_is_counted_from_one", ()),
    (broken_owners.Heartless, "alone_ends_behind_the_events_that_were_near", ()),
    (broken_owners.Suspicious, "a_death_between_folds_is_nobodys_fault", ()),
    (broken_owners.Undelivering, "messages_of_a_commit_are_delivered_with_it", ()),
    (broken_owners.Clinging, "a_closed_call_is_gone_and_its_number_is_not_used_again", ()),
    (broken_owners.Striking, "one_commit_closes_older_calls_and_its_own", ()),
    (broken_owners.Unordered, "open_calls_are_read_by_their_numbers", ()),
    (broken_owners.HalfAnAppend, "a_crash_inside_a_call", IN_AN_APPEND),
    (broken_owners.HalfACommit, "a_crash_inside_a_call", IN_A_COMMIT),
    (broken_owners.HalfACommit, "trouble_inside_a_commit_leaves_nothing", ()),
    (broken_owners.Volatile, "what_is_acknowledged_is_durable", ()),
    (broken_owners.Volatile, "a_commit_is_durable", ()),
    (broken_owners.Volatile, "closing_leaves_the_data", ()),
    (broken_owners.Volatile, "a_crash_after_a_call", (0,)),
    (broken_owners.Amnesiac, "dedupe_outlives_the_process", ()),
    (broken_owners.Amnesiac, "a_crash_after_a_call", (0,)),
    (broken_owners.Silent, "every_fault_point_is_passed", ()),
    (broken_owners.Restless, "wait_ends_after_its_time", ()),
    (broken_owners.Restless, "wait_without_grants_ends_after_its_time", ()),
    (broken_owners.Restless, "wake_ends_a_wait", ()),
    (broken_owners.Deaf, "an_append_ends_a_wait", ()),
    (broken_owners.Sleepy, "an_append_before_the_wait_is_not_slept_through", ()),
    (broken_owners.Sleepy, "a_wake_before_the_wait_is_not_lost_and_ends_one_only", ()),
    (broken_owners.Jumpy, "an_append_elsewhere_does_not_end_a_wait", ()),
    (broken_owners.Greedy, "of_events_only_folded_ones_are_ever_forgotten", ()),
    (broken_owners.Greedy, "upkeep_changes_nothing_that_can_be_seen", ()),
    (broken_owners.Greedy, "upkeep_needs_no_claim", ()),
    (broken_owners.Hoarding, "of_events_only_folded_ones_are_ever_forgotten", ()),
    (broken_owners.Rash, "what_is_younger_than_retention_is_kept", ()),
    (broken_owners.Clumsy, "upkeep_at_any_time", ()),
    (broken_owners.Undying, "a_closed_engine_refuses", ()),
    (broken_owners.Fragile, "closing_twice_is_closing", ()),
    (broken_owners.Lossy, "schemas_get_ids_that_stay", ()),
    (broken_owners.Lossy, "schemas_registered_at_once_get_different_ids", ()),
    (broken_owners.Stubborn, "options_are_renewed_on_demand", ()),
    (broken_blocks.Blind, "agents_in_a_block_are_read_like_others", ()),
    (broken_blocks.RowsLast, "of_all_forms_the_latest_is_loaded", ()),
    (broken_blocks.Backwards, "of_all_forms_the_latest_is_loaded", ()),
    (broken_blocks.Dropping, "blocks_are_durable", ()),
    (broken_blocks.Stale, "compaction_changes_nothing_that_can_be_seen", ()),
    (broken_blocks.Trusting, "images_of_an_older_claim_are_not_taken", ()),
    (broken_blocks.Demanding, "blocks_of_a_class_that_is_not_kept_in_columns_any_more", ()),
    (broken_blocks.Partial, "who_follows_changes_knows_every_agent", ()),
    (broken_blocks.Blind, "who_follows_changes_knows_every_agent", ()),
    (broken_blocks.Shrinking, "new_partitions_inherit_blocks", ()),
    (broken_blocks.Shrinking, "what_is_planted_has_the_agents_of_blocks", ()),
]


def be_patient(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    """Tests that fail by waiting in vain shall do so soon."""
    monkeypatch.setattr(workbench, "WAIT_SECONDS", 0.2 * factor)
    monkeypatch.setattr(waits, "LONG_SECONDS", 0.6 * factor)
    monkeypatch.setattr(concurrency, "LONG_SECONDS", 0.6 * factor)
    monkeypatch.setattr(concurrency, "WAIT_SECONDS", 1.0 * factor)
    monkeypatch.setattr(upkeep, "WAIT_SECONDS", 1.0 * factor)


def fails(kind: type[Sound], test: str, arguments: tuple[object, ...]) -> bool:
    try:
        run(Kit(kind), f"test_{test}", arguments)
    except (AssertionError, IndexError, pytest.fail.Exception, HoldfastError):
        return True
    return False


@pytest.mark.planted("conformance kit")
@pytest.mark.parametrize(("kind", "test", "arguments"), NOTICED)
def test_a_broken_promise_is_noticed(
    kind: type[Sound], test: str, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the sound engine passes with the same patience. A busy machine needs more of it, and a
    race is not lost each time: then both once more."""
    sound = Delivering if "delivered" in test else Lasting
    for factor in (1, 2, 4, 16, 64):
        be_patient(monkeypatch, factor)
        # Mute needs two processes, which the sound one does not have: its test passes on SQLite.
        if fails(kind, test, arguments) and (
            kind is broken_owners.Mute or not fails(sound, test, arguments)
        ):
            return
    pytest.fail(f"{kind.__name__} is not told from a sound engine")


def test_room_is_noticed_where_an_engine_says_that_it_looks() -> None:
    for test in ("test_sends_stop_at_twice_the_reserve", "test_messages_stop_at_the_reserve"):
        kit = Kit(Sound)
        kit.free = 1_000_000
        with pytest.raises(AssertionError, match="taken instead of refused"):
            run(kit, test, ())


def test_broken_engines_are_broken_each_in_its_own_way() -> None:
    kinds = {kind for kind, _, _ in NOTICED}
    modules = (broken, broken_owners, broken_blocks, broken_lanes)
    everything = [each for module in modules for each in vars(module).values()]
    defined = {each for each in everything if isinstance(each, type) and issubclass(each, Sound)}
    sound = {Sound, Lasting, Delivering, broken_owners.Catalogued}
    assert defined - kinds == sound, "broken, and nobody has to notice"
    assert len(kinds) >= 25


def test_every_topic_is_proven_able_to_fail() -> None:
    failed = {f"test_{test}" for _, test, _ in NOTICED}
    for topic in EngineConformance.__mro__:
        tests = {name for name in vars(topic) if name.startswith("test_")}
        assert (
            not tests
            or tests & failed
            or topic.__module__.endswith(("rescales", "intakes", "captures"))
        ), topic


def test_the_whole_kit_runs_on_both_engines() -> None:
    """A test that pytest does not find would promise nothing."""
    names = {name for name in dir(EngineConformance) if name.startswith("test_")}
    assert len(names) > 100
    for each in (test_conformance.TestMemory, test_conformance.TestSqlite):
        assert names <= set(dir(each))
        for name in names:
            kit_test = getattr(EngineConformance, name)
            assert getattr(each, name) is kit_test, f"{name} is not the kit's"
            assert promises_of(getattr(each, name)) == promises_of(kit_test)


@pytest.mark.parametrize("options", [[], ["--assert=plain"]], ids=["rewritten", "plain"])
def test_the_kit_refuses_to_run_without_assertions(options: list[str], tmp_path: Path) -> None:
    """`python -O` leaves out what the kit is made of. Without our settings, as others run it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_mine.py").write_text(
        "from holdfast.testing.conformance import EngineConformance\n"
        "class TestMine(EngineConformance):\n    pass\n"
    )
    program = [sys.executable, "-O", "-m", "pytest", "-q", *options]
    # What else is installed here takes seconds to load.
    bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")}
    environment = {**os.environ, **bare}
    result = subprocess.run(
        program,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode != 0
    assert "passed" not in result.stdout
    assert "python -O leaves them out" in result.stdout
