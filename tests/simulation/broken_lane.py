"""Deliberately broken variants of the urgent lane."""

from __future__ import annotations

from holdfast.runtime.partition import Partition
from holdfast.stepping import overtaking, stepper
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.stepper import Stepper
from holdfast.testing.simulation.findings import Promise as P
from holdfast.testing.simulation.store import Operation, Store
from tests.simulation.variants import Patch, variants

BROKEN, found_by = variants()


@found_by(P.ONCE)
def urgent_events_of_a_commit_count_as_one(patch: Patch) -> None:
    """However many urgent events a commit folds, the next one goes on behind the first of them."""

    def counts_one(of: Stepper, fold: CarefulFold, inputs: Inputs, *, fast: bool) -> bool:
        done = overtaking.overtake(of, fold, inputs, fast=fast)
        fold.urgent = min(fold.urgent, of.head.urgent + 1)
        return done

    patch.setattr(stepper, "overtake", counts_one)


@found_by(P.SETTLES, P.KEPT, seed=1)
def retention_forgets_what_waits_in_the_lane(patch: Patch) -> None:
    """Where folded events are forgotten, so are urgent ones that wait."""
    retain = Store._retain

    def forgetful(self: Store, operation: Operation, frames: int) -> None:
        retain(self, operation, frames)
        for partition in self.image._partitions:
            partition.lane.clear()

    patch.setattr(Store, "_retain", forgetful)


@found_by(P.ORDER, seed=1)
def urgent_events_wait_for_the_inbox(patch: Patch) -> None:
    """The lane is looked into only where nothing waits in the inbox."""
    read_urgent = Partition._read_urgent

    def last(self: Partition) -> list[Inputs]:
        waits = self._engine.view(self.number).inbox_next() > self.stepper.head.position
        return [] if waits else read_urgent(self)

    patch.setattr(Partition, "_read_urgent", last)
