"""Goal: the conformance kit notices an engine that breaks a promise; or it would be worth nothing.

Each engine here is the memory engine with one thing wrong, beside the tests that have to see it.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from unittest.mock import patch

import pytest

from holdfast.engine import inheritance
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.memory import MemoryEngine, MemoryPartition
from holdfast.engine.port import (
    APPEND_SECONDS,
    Claim,
    Engine,
    Granted,
    Limits,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.stamping import NEVER, Clock, Instant
from holdfast.errors import HoldfastError
from holdfast.stepping.commit import Commit, Head
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance import FLEET, EngineConformance
from tests.engine.test_conformance import twin_of

Results = list[Taken | Exception]


class Doubling(MemoryEngine):
    """Knows no repeats."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        bare = [dataclasses.replace(p, source=None, seqs=range(0), mark=None) for p in parcels]
        return super().append(partition, bare, wait_seconds)


class Reordering(MemoryEngine):
    """Appends what came last first."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        return super().append(partition, list(parcels)[::-1], wait_seconds)[::-1]


class Touchy(MemoryEngine):
    """One refused parcel spoils the whole append."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        results = super().append(partition, parcels, wait_seconds)
        refused = [r for r in results if isinstance(r, Exception)]
        return [refused[0] if refused else result for result in results]


class Forgetful(MemoryEngine):
    """Acknowledges without keeping."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        results = super().append(partition, parcels, wait_seconds)
        part = self._partitions[partition]
        if len(part.inbox) > 5:
            del part.inbox[-1]
        return results


class Late(MemoryEngine):
    """Starts reading behind the frame that holds the position."""

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        found = super().read(partition, position, events_max)
        return [stored for stored in found if stored.first >= position]


class Unfenced(MemoryEngine):
    """Lets everybody commit."""

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            part = self._partitions[claim.partition]
            claim = dataclasses.replace(claim, epoch=part.epoch)
            commit.before = part.committed
            super().commit([(claim, commit)])


class Torn(MemoryEngine):
    """Writes states before it looks whether the commit is allowed."""

    def _commit_one(self, part: MemoryPartition, claim: Claim, commit: Commit) -> None:
        part.states.update({(r.agent, r.key): r for r in commit.records if not r.gone})
        super()._commit_one(part, claim, commit)


class Backward(MemoryEngine):
    """Stamps with the bare clock."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        self._partitions[partition].stamp = Instant(0.0, 0.0, "another boot")
        return super().append(partition, parcels, wait_seconds)


class Restless(MemoryEngine):
    """Never waits."""

    def wait(self, seconds: float) -> None:
        pass


class Boundless(MemoryEngine):
    """Takes any amount."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        inside = [dataclasses.replace(p, external=False) for p in parcels]
        return super().append(partition, inside, wait_seconds)


class Timeless(MemoryEngine):
    """Lets older code fold."""

    def close(self) -> None:
        for part in self._partitions:
            part.generation = 0
            part.epoch = 0
        super().close()


class Leaky(MemoryEngine):
    """Takes events where nobody folds any more."""

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        super().rescale(claims, partitions)
        for claim in claims:
            self._partitions[claim.partition].closed = False


class Undead(MemoryEngine):
    """Lets a retired partition be claimed, and whoever had it go on."""

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        super().rescale(claims, partitions)
        self.catalog.retired = {}
        for claim in claims:
            self._partitions[claim.partition].epoch -= 1


class Deaf(MemoryEngine):
    """Closes no intake."""

    def close_intake(self, claim: Claim) -> None:
        pass


class Shut(MemoryEngine):
    """Opens an intake for nobody."""

    def open_intake(self, claim: Claim) -> None:
        pass

    def assignments(self, wanted: Sequence[int], generation: int) -> Iterator[Granted | Revoked]:
        for number in wanted:
            closed = self._partitions[number].closed
            yield from super().assignments([number], generation)
            self._partitions[number].closed = closed


def inheriting_wrongly(name: str, wrong: Callable[..., object]) -> type[MemoryEngine]:
    """An engine whose new partitions get something else than they should."""

    class Wrong(MemoryEngine):
        def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
            with patch.object(inheritance, name, wrong):
                super().rescale(claims, partitions)

    return Wrong


OneWindow = inheriting_wrongly("union", lambda parents: next(iter(parents)))
NoWindow = inheriting_wrongly("union", lambda parents: Dedupe({}, {}, {}))
Rejuvenated = inheriting_wrongly("latest", lambda stamps: NEVER)
Timewarped = inheriting_wrongly("first_head", lambda heads, letters: Head())
Asking = inheriting_wrongly("moved", lambda record: record)
Unburied = inheriting_wrongly("letters_of", lambda slots, letters: [])
Hasty = inheriting_wrongly("check_drained", lambda views: None)


def kit_for(broken: type[MemoryEngine]) -> EngineConformance:
    class Kit(EngineConformance):
        capabilities = MemoryEngine.capabilities

        def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
            return broken(FLEET, partitions, limits, clock)

        def reopen(self, engine: Engine) -> Engine:
            return twin_of(engine)

    kit = Kit()
    kit._engines = []
    return kit


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Doubling, "test_a_repeat_is_a_no_op"),
        (Doubling, "test_of_a_partial_repeat_only_the_new_ones_are_taken"),
        (Doubling, "test_a_repeated_message_is_a_no_op"),
        (Doubling, "test_a_gap_in_messages_is_refused"),
        (Doubling, "test_the_window_ends_exactly_where_it_says"),
        (Doubling, "test_past_the_bound_a_new_source_is_refused_and_none_is_forgotten"),
        (Reordering, "test_parcels_of_one_append_keep_their_order"),
        (Touchy, "test_a_refused_parcel_does_not_hold_up_the_others"),
        (Forgetful, "test_order_of_append_is_order_of_positions"),
        (Forgetful, "test_appends_of_many_threads_are_all_there_once"),
        (Late, "test_reading_begins_with_the_frame_that_holds_the_position"),
        (Unfenced, "test_an_older_claim_can_not_commit"),
        (Unfenced, "test_a_claim_alone_fences_though_nothing_was_committed_since"),
        (Unfenced, "test_a_commit_from_a_wrong_head_is_refused_and_leaves_nothing"),
        (Torn, "test_a_commit_from_a_wrong_head_is_refused_and_leaves_nothing"),
        (Torn, "test_an_older_claim_can_not_commit"),
        (Backward, "test_a_clock_set_back_does_not_set_stamps_back"),
        (Restless, "test_wait_ends_after_its_time"),
        (Restless, "test_wake_ends_a_wait"),
        (Boundless, "test_backlog_refuses_the_outside_and_not_messages"),
        (Timeless, "test_older_code_may_not_fold_where_newer_code_did"),
        (Timeless, "test_epochs_grow_with_every_claim"),
    ],
)
def test_a_broken_promise_is_noticed(broken: type[MemoryEngine], test: str) -> None:
    with pytest.raises((AssertionError, IndexError, pytest.fail.Exception)):
        getattr(kit_for(broken), test)()


@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (Leaky, "test_a_retired_partition_takes_nothing_any_more", ()),
        (Undead, "test_a_retired_partition_takes_nothing_any_more", ()),
        (Deaf, "test_a_closed_intake_takes_messages_and_nothing_else", ()),
        (Shut, "test_a_closed_intake_stays_closed_until_the_next_claim", ()),
        (Shut, "test_whoever_closed_an_intake_can_open_it", ()),
        (OneWindow, "test_every_child_knows_the_numbers_of_all_parents", (3,)),
        (OneWindow, "test_the_window_of_a_child_ends_where_the_newest_parents_does", ()),
        (NoWindow, "test_ordered_sources_go_on_per_key", ()),
        (Rejuvenated, "test_time_never_goes_back", ()),
        (Timewarped, "test_time_never_goes_back", ()),
        (Asking, "test_who_asked_an_event_that_is_held_looks_at_the_old_partition", ()),
        (Unburied, "test_dead_letters_that_wait_move_and_are_numbered_anew", ()),
        (Hasty, "test_what_is_not_drained_stays_as_it_is", ("event",)),
        (Hasty, "test_what_is_not_drained_stays_as_it_is", ("message",)),
    ],
)
def test_a_broken_rescaling_is_noticed(
    broken: type[MemoryEngine], test: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises((AssertionError, HoldfastError, pytest.fail.Exception)):
        getattr(kit_for(broken), test)(*arguments)


def test_the_whole_kit_runs_on_both_engines() -> None:
    """A test that pytest does not find would promise nothing."""
    from tests.engine import test_conformance

    names = {name for name in dir(EngineConformance) if name.startswith("test_")}
    assert len(names) > 60
    for each in (test_conformance.TestMemory, test_conformance.TestSqlite):
        assert names <= set(dir(each))
