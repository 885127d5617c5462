"""Conformance: what became of actions is remembered, so that it is not decided again."""

from __future__ import annotations

import time

from holdfast.engine.port import Limits
from holdfast.stepping.commit import Fate
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import HandClock, Owner, Workbench


class FateConformance(Workbench):
    @promise("What became of actions, the oldest first, kept as long as actions are")
    def test_what_became_of_actions_is_remembered(self) -> None:
        clock = HandClock(time.time())
        engine = self.engine(limits=Limits(retain_seconds=1_000.0), clock=clock)
        owner = Owner.of(engine)
        made = [Fate(f"fleet/Drone/d-1/{n}/0", "d-1", clock.wall + n, "no") for n in (9, 2, 4)]
        owner.commit(fates=made[:1])
        owner.commit(fates=made[1:])
        clock.pass_time(900.0)
        engine.maintain()
        assert self.again(engine).view(0).fates() == made

    @promise("The same of these actions, in their order, without looking at the others")
    def test_what_became_of_one_action_is_found_by_its_id(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        made = [
            Fate(f"fleet/Drone/d-1/{n}/0", "d-1", float(n), "why", kind, "gateway", "Land")
            for n in range(9)
            for kind in ("delivered", "acknowledged")
        ]
        owner.commit(fates=made[:7])
        owner.commit(fates=made[7:])
        view = self.again(engine).view(0)
        for n in range(9):
            assert view.fates_of([f"fleet/Drone/d-1/{n}/0"]) == made[2 * n : 2 * n + 2]
        assert view.fates_of([made[8].id, "fleet/Drone/d-1/99/0", made[2].id, made[8].id]) == [
            *made[8:10],
            *made[2:4],
        ]
        assert view.fates_of([]) == []

    def test_new_partitions_know_what_became_of_actions(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        owners = [Owner.of(engine, number) for number in (0, 1)]
        layout = engine.catalog.layout
        keys = [f"d-{n}" for n in range(20)]
        made = [Fate(f"fleet/Drone/{k}/1/0", k, float(n), "no") for n, k in enumerate(keys)]
        for number, owner in enumerate(owners):
            owner.commit(fates=[u for u in made if layout.partition_of(u.key) == number])
            engine.close_intake(owner.claim)
        engine.rescale([owner.claim for owner in owners], 3)
        after = engine.catalog.layout
        for number in after.numbers:
            own = [one for one in made if after.partition_of(one.key) == number]
            assert engine.view(number).fates() == own

    def test_new_partitions_stay_under_a_ground_stop(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        owners = [Owner.of(engine, number) for number in (0, 1)]
        for owner in owners:
            owner.commit(head={"ground_stop": "[true]"})
            engine.close_intake(owner.claim)
        assert engine.view(1).head().ground_stop == "[true]"
        engine.rescale([owner.claim for owner in owners], 3)
        for number in engine.catalog.layout.numbers:
            assert engine.view(number).head().ground_stop == "[true]"
