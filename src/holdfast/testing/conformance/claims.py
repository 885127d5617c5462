"""Conformance: assignments, claims, and what a claim says of deaths before it."""

from __future__ import annotations

import pytest

from holdfast.engine.deaths import ALONE_EVENTS, ATTEMPTS_MAX
from holdfast.engine.port import Granted, Revoked
from holdfast.errors import Fenced, OutdatedCode
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import Owner, Workbench, append, parcel, soon


class ClaimConformance(Workbench):
    @promise("Changes in what this process may fold", "cheap when nothing changed")
    def test_what_is_wanted_is_granted_once(self) -> None:
        engine = self.engine(partitions=3)
        changes = list(engine.assignments([0, 2], 1))
        assert [type(change) for change in changes] == [Granted, Granted]
        assert [c.claim.partition for c in changes if isinstance(c, Granted)] == [0, 2]
        assert list(engine.assignments([0, 2], 1)) == []
        more = list(engine.assignments([0, 1, 2], 1))
        assert [c.claim.partition for c in more if isinstance(c, Granted)] == [1]

    @promise("partition and incarnation it comes from")
    def test_partitions_have_incarnations_of_their_own_that_stay(self) -> None:
        """A partition's incarnation names it as the source of its messages: it must not change."""
        engine = self.engine(partitions=3)
        lives = [Owner.of(engine, n).claim.incarnation for n in range(3)]
        assert len(set(lives)) == 3
        assert lives == [engine.view(n).incarnation() for n in range(3)]
        again = self.again(engine)
        assert lives == [Owner.of(again, n).claim.incarnation for n in range(3)]

    @promise("A grant is a new claim with a higher epoch")
    def test_epochs_grow_with_every_claim(self) -> None:
        engine = self.engine()
        epochs = []
        for _ in range(4):
            epochs.append(Owner.of(engine).claim.epoch)
            engine = self.again(engine)
        assert epochs == sorted(set(epochs))

    @promise("Who was fenced is told once and does not claim again")
    def test_who_was_fenced_is_told_and_does_not_claim_back(self) -> None:
        self.needs("several_processes")
        engine = self.engine(partitions=2)
        old = Owner.of(engine, 0)
        again = self.again(engine)
        new = Owner.of(again, 0)
        with pytest.raises(Fenced):
            old.commit()
        assert list(engine.assignments([0], 1)) == [Revoked(0)]
        assert list(engine.assignments([0], 1)) == []
        new.commit()

    @promise("OutdatedCode where newer ones folded")
    def test_older_code_may_not_fold_where_newer_code_did(self) -> None:
        engine = self.engine()
        Owner.of(engine, generation=7)
        again = self.again(engine)
        with pytest.raises(OutdatedCode):
            list(again.assignments([0], 6))
        assert Owner.of(again, generation=7).claim.epoch > 0

    @promise("`generation` is how new the caller's classes are")
    def test_a_generation_belongs_to_its_partition(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine, 0, generation=7)
        again = self.again(engine)
        assert Owner.of(again, 1, generation=3).claim.partition == 1
        with pytest.raises(OutdatedCode):
            list(again.assignments([0], 3))
        assert Owner.of(again, 0, generation=8).claim.partition == 0

    def test_a_refused_claim_ends_no_other(self) -> None:
        """Old code that is started by mistake must not stop the new code that folds."""
        engine = self.engine()
        owner = Owner.of(engine, generation=7)
        with pytest.raises(OutdatedCode):
            list(self.again(engine).assignments([0], 6))
        owner.commit()
        assert engine.view(0).head().commits == 1

    @promise(
        "None wants what the engine assigns to this process",
        "only with the capability `assigns`",
        "the engine says who folds what",
        "otherwise whoever wants it claims it",
    )
    def test_the_engine_assigns_all_partitions_to_the_only_one(self) -> None:
        self.needs("assigns")
        engine = self.engine(partitions=3)
        found: list[int] = []

        def look() -> bool:
            changes = engine.assignments(None, 1)
            found.extend(c.claim.partition for c in changes if isinstance(c, Granted))
            return sorted(found) == [0, 1, 2]

        soon(look)
        assert list(engine.assignments(None, 1)) == []

    @promise("Whether the calls of its agents are for this machine to run")
    def test_who_folds_runs_the_calls(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine, 1)
        soon(lambda: engine.folds_here(1))

    @promise(
        "For how long it stood still when it was handed over last, as far as events waited",
        "None where nobody tells",
    )
    def test_a_handover_without_events_is_no_pause(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        assert engine.paused_seconds(0) in (None, 0.0)

    # Deaths.

    def test_a_first_claim_has_seen_no_deaths(self) -> None:
        claim = Owner.of(self.engine()).claim
        assert (claim.attempts, claim.alone) == (0, False)

    @promise(
        "how often a worker died while folding at this very position",
        "anew once alone",
        "the third such death was here or shortly before",
        "Note that user code runs at `position` now",
        "It outlives the process",
    )
    def test_deaths_at_one_position_are_counted_and_end_in_folding_alone(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel(["fine", "kills"]))
        owner = Owner.of(engine)
        owner.commit(events=1)
        found: list[tuple[int, bool]] = []
        for _ in range(5):
            owner = self._after_death(owner, 1)
            found.append((owner.claim.attempts, owner.claim.alone))
        assert ATTEMPTS_MAX == 3
        assert found == [(1, False), (2, False), (0, True), (1, True), (2, True)]

    def _after_death(self, owner: Owner, position: int) -> Owner:
        """Whoever comes after `owner`, which died at a position."""
        owner.engine.folding(owner.claim, position)
        return Owner.of(self.again(owner.engine))

    def test_a_death_elsewhere_is_counted_from_one(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel(["a", "b", "c"]))
        owner = Owner.of(engine)
        for position in range(3):
            owner = self._after_death(owner, position)
            assert (owner.claim.attempts, owner.claim.alone) == (1, False)
            owner.commit(events=1)

    @promise("fold one event per commit")
    def test_alone_ends_behind_the_events_that_were_near(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel([""] * (ALONE_EVENTS + 1)))
        owner = Owner.of(engine)
        for _ in range(ATTEMPTS_MAX):
            owner = self._after_death(owner, 0)
        assert owner.claim.alone
        owner.commit(events=ALONE_EVENTS - 1)
        owner = Owner.of(self.again(owner.engine))
        assert owner.claim.alone
        owner.commit(events=1)
        assert not Owner.of(self.again(owner.engine)).claim.alone

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
