"""Conformance: assignments, claims, and waiting for work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from holdfast.engine.port import Engine, Granted
from holdfast.errors import OutdatedCode
from holdfast.testing.conformance.workbench import Owner, Workbench, append, inbox, parcel, record

LONG_SECONDS = 5.0
SHORT_SECONDS = 0.05


class ClaimConformance(Workbench):
    def test_what_is_wanted_is_granted_once(self) -> None:
        engine = self.engine(partitions=3)
        changes = list(engine.assignments([0, 2], 1))
        assert [type(change) for change in changes] == [Granted, Granted]
        assert [c.claim.partition for c in changes if isinstance(c, Granted)] == [0, 2]
        assert list(engine.assignments([0, 2], 1)) == []
        more = list(engine.assignments([0, 1, 2], 1))
        assert [c.claim.partition for c in more if isinstance(c, Granted)] == [1]

    def test_partitions_have_incarnations_of_their_own(self) -> None:
        engine = self.engine(partitions=3)
        lives = [Owner.of(engine, n).claim.incarnation for n in range(3)]
        assert len(set(lives)) == 3
        assert lives == [engine.view(n).incarnation() for n in range(3)]

    def test_epochs_grow_with_every_claim(self) -> None:
        engine = self.engine()
        epochs = []
        for _ in range(4):
            epochs.append(Owner.of(engine).claim.epoch)
            engine = self.again(engine)
        assert epochs == sorted(set(epochs))

    def test_older_code_may_not_fold_where_newer_code_did(self) -> None:
        engine = self.engine()
        Owner.of(engine, generation=7)
        again = self.again(engine)
        with pytest.raises(OutdatedCode):
            list(again.assignments([0], 6))
        assert Owner.of(again, generation=7).claim.epoch > 0

    def test_a_first_claim_has_seen_no_deaths(self) -> None:
        claim = Owner.of(self.engine()).claim
        assert (claim.attempts, claim.alone) == (0, False)

    def test_deaths_at_one_position_are_counted_and_end_in_folding_alone(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel(["fine", "kills"]))
        owner = Owner.of(engine)
        owner.commit(events=1)
        claims = []
        for _ in range(5):
            engine.folding(owner.claim, 1)
            engine = self.again(engine)
            owner = Owner.of(engine)
            claims.append(owner.claim)
        assert claims[0].attempts == 1
        assert not claims[0].alone
        assert claims[-1].alone, "five deaths at one position, and still folded together"

    def test_a_death_between_folds_is_nobodys_fault(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        owner = Owner.of(engine)
        for _ in range(5):
            engine.folding(owner.claim, 0)
            engine.folding(owner.claim, None)
            engine = self.again(engine)
            owner = Owner.of(engine)
            assert (owner.claim.attempts, owner.claim.alone) == (0, False)

    # Waiting.

    def test_wait_ends_after_its_time(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        start = time.monotonic()
        engine.wait(SHORT_SECONDS)
        assert time.monotonic() - start >= SHORT_SECONDS * 0.9

    def test_wait_sleeps_though_old_events_wait(self) -> None:
        """A partition that is held up must not turn its worker into a busy loop."""
        engine = self.engine()
        Owner.of(engine)
        append(engine, parcel(["held up"]))
        engine.wait(SHORT_SECONDS)
        start = time.monotonic()
        engine.wait(SHORT_SECONDS)
        assert time.monotonic() - start >= SHORT_SECONDS * 0.9

    def test_an_append_before_the_wait_is_not_slept_through(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        append(engine, parcel(["a"]))
        start = time.monotonic()
        engine.wait(LONG_SECONDS)
        assert time.monotonic() - start < LONG_SECONDS / 2

    def test_an_append_ends_a_wait(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine, 0)
        Owner.of(engine, 1)
        appender = self.again(engine) if self.capabilities.several_processes else engine
        assert self._waited(engine, lambda: append(appender, parcel(["a"]), 1)) < LONG_SECONDS / 2
        assert inbox(engine, 1) == ["a"]

    def test_wake_ends_a_wait(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        assert self._waited(engine, engine.wake) < LONG_SECONDS / 2

    def _waited(self, engine: Engine, act: Callable[[], object]) -> float:
        """How long a wait took during which something happened on another thread."""
        timer = threading.Timer(0.1, act)
        start = time.monotonic()
        timer.start()
        engine.wait(LONG_SECONDS)
        elapsed = time.monotonic() - start
        timer.join()
        assert elapsed > 0.05, "it did not wait at all"
        return elapsed

    # Upkeep.

    def test_upkeep_changes_nothing_that_can_be_seen(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        append(engine, parcel(["a", "b"]))
        for i in range(1, 30):
            owner.commit([record(f"d-{n}", "x", i) for n in range(i % 7 + 1)])
        before = sorted(engine.view(0).records()), engine.view(0).head(), inbox(engine)
        upkeep = threading.Thread(target=engine.maintain)
        upkeep.start()
        upkeep.join()
        engine.maintain()
        assert (sorted(engine.view(0).records()), engine.view(0).head(), inbox(engine)) == before

    def test_closing_twice_is_closing(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine)
        append(engine, parcel(["a"]))
        engine.view(1).head()
        engine.close()
        engine.close()
