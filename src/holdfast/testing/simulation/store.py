"""The store: what is durable in a simulated machine, shared by the engines of all its processes.

An operation is written to a journal, synced, and then done on an image, which is the in-memory
engine. Readers see the image, so what is visible is durable. A power loss keeps what was synced,
maybe what was written after it, and never a torn write; the image is built again from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from holdfast.engine.deaths import Deaths
from holdfast.engine.memory import MemoryEngine, MemoryPartition
from holdfast.engine.port import Claim, Granted, Limits, Parcel, Taken
from holdfast.engine.stamping import NEVER, Instant
from holdfast.errors import HoldfastError
from holdfast.model.schema import Schema
from holdfast.runtime.partition import CONDEMNED_ATTEMPTS
from holdfast.stepping.commit import Commit
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.evidence import Accepted, PartitionLog
from holdfast.testing.simulation.faults import Fault, Faults
from holdfast.testing.simulation.universe import Universe

EVERYTHING = 1_000_000_000


class Author(NamedTuple):
    """Who asks for an operation: a process, and the release of the classes it runs."""

    process: str
    program: int


class Operation(NamedTuple):
    author: Author
    at: float
    instant: Instant  # what the author's clock showed
    name: str
    arguments: tuple[object, ...]


class Store:
    def __init__(
        self, universe: Universe, faults: Faults, fleet: str, partitions: int, limits: Limits
    ) -> None:
        self._universe = universe
        self._faults = faults
        self._made = (fleet, partitions, limits)
        self._instant = NEVER
        self._journal: list[Operation] = []
        self._synced = 0
        self.on_power_loss: Callable[[], None] = lambda: None
        self.on_append: Callable[[int], None] = lambda partition: None
        self.disk_is_full = False
        self._poison: dict[tuple[int, int], int] = {}
        self.condemned: set[tuple[int, int]] = set()  # (partition, position): not run any more
        self._begin()

    def _begin(self) -> None:
        fleet, partitions, limits = self._made
        self.image = MemoryEngine(fleet, partitions, limits, clock=lambda: self._instant)
        self.logs: dict[int, PartitionLog] = {}  # also with what retention has forgotten
        self.folding: dict[int, int | None] = {}  # where user code runs: outlives processes only
        self._deaths: dict[int, Deaths] = {}
        self.generations: list[list[PartitionLog]] = []
        self.premature: list[tuple[float, int]] = []
        self._note_generation()

    def _note_generation(self) -> None:
        """New partitions, and what they were born with. Incarnations go by number, where real
        engines draw them: they are the same in every process."""
        logs = []
        for number, slots in self.image.catalog.layout.slots_by_number.items():
            part = self.image._partitions[number]
            part.born = f"incarnation {number}"
            log = self.logs[number] = PartitionLog(
                number,
                slots,
                part.born,
                inherited=list(part.settled().values()),
                born=part.committed,
                calls=list(part.opened.values()),
            )
            logs.append(log)
        self.generations.append(logs)

    # Writing.

    def perform(self, operation: Operation, *, crash: Callable[[], None] | None = None) -> object:
        """1 write, 2 sync, 3 do. With `crash`, whoever asked ends between 1 and 2."""
        self._journal.append(operation)
        if self._faults.strikes(Fault.POWER_LOSS):
            self.lose_power()
            raise Lost
        if crash is not None and self._faults.coin(Fault.CRASH_MIDDLE):
            self._journal.pop()  # nobody was left to sync it, and it was never seen
            crash()
        try:
            result = self._do(operation)
        except HoldfastError:
            self._journal.pop()  # refused: nothing of it was written
            raise
        self._synced = len(self._journal)
        if crash is not None:
            crash()
        return result

    def _do(self, operation: Operation) -> object:
        self._instant = operation.instant
        method = cast("Callable[..., object]", getattr(self, f"_{operation.name}"))
        return method(operation, *operation.arguments)

    def _append(
        self, operation: Operation, partition: int, parcels: Sequence[Parcel]
    ) -> list[Taken | Exception]:
        self._check_sent(operation, partition, parcels)
        view, log = self.image.view(partition), self.logs[partition]
        before, urgent = view.inbox_next(), LANE + view.urgent_next()
        results = self.image.append(partition, parcels)
        log.frames += view.frames(before, EVERYTHING)
        overtaking = view.frames(urgent, EVERYTHING)
        log.lane += overtaking
        log.came += [operation.at] * len(overtaking)
        if any(isinstance(result, Taken) and result.new for result in results):
            self.on_append(partition)
        return results

    def _check_sent(self, operation: Operation, partition: int, parcels: Sequence[Parcel]) -> None:
        """Messages are carried once the commit that sent them is durable."""
        for parcel in parcels:
            if parcel.mark is not None:
                source = self.image.view(int(parcel.mark.source.split()[-1]))
                following = source.sent_next().get(partition, 1)
                if parcel.mark.first + parcel.frame.count > following:
                    self.premature.append((operation.at, partition))

    def _claim(self, operation: Operation, partition: int, generation: int) -> Claim:
        self.image._granted.clear()
        (change,) = self.image.assignments([partition], generation)
        assert isinstance(change, Granted)
        deaths = self._count_death(partition)
        alone, urgent = deaths.alone, deaths.urgent
        return replace(change.claim, attempts=deaths.attempts, alone=alone, urgent=urgent)

    def _count_death(self, partition: int) -> Deaths:
        """How often user code ended its process at the position the partition stands at."""
        head, noted = self.image.view(partition).head(), self.folding.get(partition)
        before = self._deaths.get(partition, Deaths())
        deaths = self._deaths[partition] = before.found(noted, head.position, head.urgent)
        self.folding[partition] = None
        if deaths.alone and deaths.attempts >= CONDEMNED_ATTEMPTS:
            self.condemned.add((partition, deaths.position))
        return deaths

    def kills(self, claim: Claim, position: int) -> bool:
        """Whether user code ends its worker here: at one event, again and again, or for good."""
        at = (claim.partition, position)
        if at in self.condemned:
            self._poison.pop(at, None)
            return False
        if at not in self._poison:
            if not self._faults.strikes(Fault.CRASH_IN_HANDLER):
                return False
            self._poison[at] = 1 + int(self._faults.draw(Fault.CRASH_IN_HANDLER, 0.0, 7.0))
        self._poison[at] -= 1
        if self._poison[at] == 0:
            del self._poison[at]
        return True

    def _commit(self, operation: Operation, claim: Claim, commit: Commit) -> None:
        head = self.image.view(claim.partition).head()
        self.image.commit([(claim, commit)])
        if head == commit.before:  # or it stood already, and was repeated
            self.logs[claim.partition].commits.append(
                Accepted(operation.at, *operation.author, claim.epoch, commit)
            )

    def _close_intake(self, operation: Operation, claim: Claim) -> None:
        self.image.close_intake(claim)

    def _open_intake(self, operation: Operation, claim: Claim) -> None:
        self.image.open_intake(claim)

    def _rescale(self, operation: Operation, claims: Sequence[Claim], partitions: int) -> None:
        self.image.rescale(claims, partitions)
        self._note_generation()

    def _retain(self, operation: Operation, frames: int) -> None:
        """Forget what is folded, but for the newest frames."""
        for partition in self.image._partitions:
            folded = partition.committed.position
            inbox = partition.inbox
            past = [i for i, frame in enumerate(inbox) if frame.first + frame.count <= folded]
            del inbox[: max(0, len(past) - frames)]
            del partition.lane[: max(0, self._folded_in_lane(partition) - frames)]

    def _folded_in_lane(self, partition: MemoryPartition) -> int:
        done = LANE + partition.committed.urgent
        return sum(frame.first < done for frame in partition.lane)

    def _register(
        self, operation: Operation, schemas: Sequence[Schema], renew: bool
    ) -> dict[str, int]:
        return self.image.catalog.register(schemas, renew=renew)

    def heal(self) -> None:
        self.disk_is_full = False
        self._poison.clear()

    # Losing.

    def lose_power(self) -> None:
        """All processes end. What was written and not synced may be there, whole, or not."""
        unsynced = len(self._journal) - self._synced
        kept = unsynced if self._faults.coin(Fault.POWER_LOSS) else 0
        fate = "" if not unsynced else ", the last write survived" if kept else ", a write is lost"
        self._universe.note("machine", f"loses power{fate}", fault=True)
        self.on_power_loss()
        self.recover(self._journal[: self._synced + kept])

    def recover(self, journal: list[Operation]) -> None:
        self._journal, self._synced = [], 0
        self._begin()
        waking, self.on_append = self.on_append, lambda partition: None
        for operation in journal:
            try:
                self._do(operation)
            except HoldfastError:
                continue  # the last one, written and never decided: it would have been refused
            self._journal.append(operation)
        self._synced = len(self._journal)
        self.on_append = waking


class Lost(BaseException):
    """The process that asked is no more. No code of ours may catch it and go on."""
