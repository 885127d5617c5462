"""Conformance: what was compensated is remembered, so that it is not compensated again."""

from __future__ import annotations

import time

from holdfast.engine.port import Limits
from holdfast.stepping.commit import Undone
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import HandClock, Owner, Workbench


class CompensationConformance(Workbench):
    @promise("The actions that were compensated, the oldest first, kept as long as actions are")
    def test_compensated_actions_are_remembered(self) -> None:
        clock = HandClock(time.time())
        engine = self.engine(limits=Limits(retain_seconds=1_000.0), clock=clock)
        owner = Owner.of(engine)
        made = [Undone(f"fleet/Drone/d-1/{n}/0", "d-1", clock.wall + n, "no") for n in (9, 2, 4)]
        owner.commit(undone=made[:1])
        owner.commit(undone=made[1:])
        clock.pass_time(900.0)
        engine.maintain()
        assert self.again(engine).view(0).undone() == made

    def test_new_partitions_know_what_was_compensated(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        owners = [Owner.of(engine, number) for number in (0, 1)]
        layout = engine.catalog.layout
        keys = [f"d-{n}" for n in range(20)]
        made = [Undone(f"fleet/Drone/{k}/1/0", k, float(n), "no") for n, k in enumerate(keys)]
        for number, owner in enumerate(owners):
            owner.commit(undone=[u for u in made if layout.partition_of(u.key) == number])
            engine.close_intake(owner.claim)
        engine.rescale([owner.claim for owner in owners], 3)
        after = engine.catalog.layout
        for number in after.numbers:
            own = [one for one in made if after.partition_of(one.key) == number]
            assert engine.view(number).undone() == own
