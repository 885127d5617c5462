"""Goal: the Kafka engine does what the engine port says, on a real broker."""

import uuid
from pathlib import Path

import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Engine, Limits
from holdfast.engine.stamping import Clock
from holdfast.testing.conformance import FLEET, EngineConformance

# What the kit shows on a directory as well as here, since the code is the same: copies on this
# machine are SQLite files, so how they are read and compacted; how deaths are counted once they
# are noted; what is refused before it comes to an engine.
LEFT_TO_SOAK = frozenset(
    (
        "test_a_closed_call_is_gone_and_its_number_is_not_used_again",
        "test_a_death_between_folds_is_nobodys_fault",
        "test_a_death_elsewhere_is_counted_from_one",
        "test_actions_and_journal_continue_behind_a_number",
        "test_agents_in_a_block_are_read_like_others",
        "test_alone_ends_behind_the_events_that_were_near",
        "test_an_append_of_nothing_changes_nothing",
        "test_blocks_of_a_class_that_is_not_kept_in_columns_any_more",
        "test_changes_are_those_of_one_commit",
        "test_clearing_what_was_relayed_leaves_no_note",
        "test_images_of_an_older_claim_are_not_taken",
        "test_many_notes_are_read_in_pages",
        "test_of_all_forms_the_latest_is_loaded",
        "test_one_commit_closes_older_calls_and_its_own",
        "test_records_can_be_had_by_class",
        "test_ten_thousand_calls_are_read_in_pages",
        "test_what_became_of_one_action_is_found_by_its_id",
        # Grids: another of their rows has the same topics and transactions.
        "test_agents_move_to_the_partition_of_their_slot[1]",
        "test_agents_move_to_the_partition_of_their_slot[2]",
        "test_every_child_knows_the_numbers_of_all_parents[1]",
        *(f"test_a_crash_inside_a_call[{number}-append.before]" for number in (0, 1, 3)),
        *(f"test_a_crash_inside_a_call[{number}-append.inside]" for number in (0, 1, 6)),
        *(f"test_a_crash_inside_a_call[{number}-append.after]" for number in (0, 1)),
        *(f"test_a_crash_inside_a_call[{number}-commit.before]" for number in (4, 5, 7)),
        *(
            f"test_a_crash_inside_a_call[{number}-commit.{place}]"
            for number in (4, 7)
            for place in ("inside", "after")
        ),
        *(f"test_a_crash_after_a_call[{number}]" for number in (0, 1, 4, 6, 7)),
    )
)


class TestKafka(EngineConformance):
    capabilities = KafkaEngine.capabilities
    fault_points = frozenset(
        f"{call}.{place}"
        for call in ("append", "commit")
        for place in ("before", "inside", "after")
    ) | {"plant.inside", "plant.after"}

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, kafka: str) -> None:
        self.cache = tmp_path
        self.bootstrap = kafka

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        prefix = f"kit-{uuid.uuid4().hex[:8]}"
        self.settings = KafkaSettings(self.bootstrap, prefix, limits, cache=self.cache)
        # Stamps are the broker's: a clock that stands still would be taken for a broken one.
        return KafkaEngine(self.settings, FLEET, partitions, faults=self.faults)

    def plant(self, contents: Contents) -> Engine:
        there = self.settings.named(f"{self.settings.prefix}-planted")
        KafkaEngine.plant(there, contents, self.faults)
        return KafkaEngine(there, FLEET, faults=self.faults)

    def reopen(self, engine: Engine) -> Engine:
        return KafkaEngine(self.settings, FLEET, faults=self.faults)


def test_what_is_left_to_soak_is_in_the_kit() -> None:
    for name in LEFT_TO_SOAK:
        assert callable(getattr(EngineConformance, name.partition("[")[0], None)), name
