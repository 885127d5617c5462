"""The engine of one simulated process: the port, with everything that can go wrong on the way.

Between the process and the store lie a network (deliveries are late, or come twice) and a disk
(slow, full). A process can end or stand still at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from holdfast.engine.contents import Contents
from holdfast.engine.local import OneMachine
from holdfast.engine.memory import MemoryPartition
from holdfast.engine.port import (
    APPEND_SECONDS,
    VIEW_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Images,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.registering import to_write
from holdfast.engine.stamping import Clock
from holdfast.errors import Busy, DiskFull, Fenced, NotYet
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.simulation.faults import Fault, Faults
from holdfast.testing.simulation.store import Author, Lost, Operation, Store
from holdfast.testing.simulation.universe import Universe

LATE_SECONDS = (0.05, 3.0)
PAUSE_SECONDS = (0.2, 4.0)
SLOW_SECONDS = (0.01, 0.6)


class Process(Protocol):
    """What an engine has to know of the process it serves."""

    author: Author
    clock: Clock
    patient: bool  # it waits for its calls, as a client does; a worker comes back later instead
    crashes: bool  # as a worker does; a client does so by a fault of its own

    def check(self) -> None:
        """Raises Lost in a process that was ended meanwhile."""

    def end(self, reason: str) -> None: ...
    def pause(self, seconds: float) -> None: ...
    def rest(self, seconds: float) -> None:
        """Time its call has taken."""


class SimulatedCatalog:
    def __init__(self, engine: SimulatedEngine, store: Store) -> None:
        self._engine = engine
        self._store = store

    @property
    def fleet(self) -> str:
        return self._store.image.catalog.fleet

    @property
    def layout(self) -> Layout:
        return self._store.image.catalog.layout

    @property
    def retired(self) -> dict[int, range]:
        return self._store.image.catalog.retired

    def schemas(self) -> dict[int, Schema]:
        return self._store.image.catalog.schemas()

    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        stored = self.schemas()
        if not to_write(schemas, stored, renew):
            return {s.fingerprint: i for i, s in stored.items()}
        return cast("dict[str, int]", self._engine.perform("register", tuple(schemas), renew))


class SimulatedEngine(OneMachine):
    capabilities = Capabilities(
        several_processes=True,
        survives_exit=True,
        refuses_at_append=True,
        delivers_messages=False,
        rescales=True,
    )

    def __init__(self, universe: Universe, faults: Faults, store: Store, process: Process) -> None:
        self._universe = universe
        self._faults = faults
        self._store = store
        self._process = process
        self.limits: Limits = store.image.limits
        self.catalog = SimulatedCatalog(self, store)
        self.claims: dict[int, Claim] = {}
        self._revoked: set[int] = set()
        self.waits = 0.0

    # Faults on the way.

    def _enter(self) -> None:
        process = self._process
        process.check()
        if self._faults.strikes(Fault.CRASH_BEFORE if process.crashes else Fault.CLIENT_CRASH):
            process.end("crashes before an engine call")
            raise Lost
        if self._faults.strikes(Fault.PAUSE):
            process.pause(self._faults.draw(Fault.PAUSE, *PAUSE_SECONDS))
            process.check()

    def perform(self, name: str, *arguments: object) -> object:
        """An operation on the store, from which this process may not come back."""
        result = self._store.perform(self._operation(name, arguments), crash=self._crash())
        crash = Fault.CRASH_AFTER if self._process.crashes else Fault.CLIENT_CRASH
        if self._faults.strikes(crash):
            self._process.end(f"crashes after its {name} was durable")
            raise Lost
        if self._faults.strikes(Fault.SLOW_DISK):
            self._process.rest(self._faults.draw(Fault.SLOW_DISK, *SLOW_SECONDS))
            self._process.check()
        return result

    def _operation(self, name: str, arguments: tuple[object, ...]) -> Operation:
        process = self._process
        return Operation(process.author, self._universe.now, process.clock(), name, arguments)

    def _crash(self) -> Callable[[], None] | None:
        fault = Fault.CRASH_MIDDLE if self._process.crashes else Fault.CLIENT_CRASH
        if not self._faults.strikes(fault):
            return None

        def crash() -> None:
            self._process.end("crashes in the middle of an engine call")
            raise Lost

        return crash

    # The port.

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        self._enter()
        if self._store.disk_is_full:
            return [DiskFull("the disk is full: free some space") for _ in parcels]
        parcels = tuple(parcels)
        numbered = all(p.mark is not None or p.source is not None for p in parcels)
        if numbered and self._faults.strikes(Fault.DELAY):
            self._deliver_later(Fault.DELAY, partition, parcels)
            raise Busy("nobody answered in time: try again")
        if numbered and self._faults.strikes(Fault.DUPLICATE):
            self._deliver_later(Fault.DUPLICATE, partition, parcels)
        if not numbered and all(p.frame.constant("origin") == "reply" for p in parcels):
            if self._faults.strikes(Fault.REPLY_LATE):
                self._deliver_later(Fault.REPLY_LATE, partition, parcels)
                raise Busy("nobody answered in time: try again")
            if self._faults.strikes(Fault.REPLY_TWICE):
                self._deliver_later(Fault.REPLY_TWICE, partition, parcels)
        results = cast("list[Taken | Exception]", self.perform("append", partition, parcels))
        if self._process.patient:
            self._process.rest(0.001)
            self._process.check()
        return results

    def _deliver_later(self, fault: Fault, partition: int, parcels: Sequence[Parcel]) -> None:
        who = self._process.author.process
        late = fault in (Fault.DELAY, Fault.REPLY_LATE)
        word = "is late" if late else "will come twice"
        self._universe.note(who, f"its delivery to partition {partition} {word}", fault=True)

        def deliver() -> None:
            try:
                self._store.perform(self._operation("append", (partition, parcels)))
            except Lost:
                pass  # the power went: a delivery on its way is gone like everything else

        self._universe.after(self._faults.draw(fault, *LATE_SECONDS), deliver)

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        self._enter()
        return self._store.image.read(partition, position, events_max)

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        """As an engine on disk: whoever wants a partition claims it; who was fenced never again."""
        for number in sorted(self._revoked & self.claims.keys()):
            del self.claims[number]
            yield Revoked(number)
        for number in wanted or ():
            if number not in self.claims and number not in self._revoked:
                self._enter()
                claim = cast(Claim, self.perform("claim", number, generation))
                self.claims[number] = claim
                self._note(f"claims partition {number} as epoch {claim.epoch}", number)
                yield Granted(claim)

    def load(self, claim: Claim) -> Loaded:
        self._enter()
        return self._store.image.load(claim)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            self._enter()
            if self._store.disk_is_full:
                raise DiskFull("the disk is full: free some space")
            try:
                self.perform("commit", claim, commit)
            except Fenced:
                self._note(f"is fenced at partition {claim.partition}", claim.partition)
                self._revoked.add(claim.partition)
                raise
            if self._faults.strikes(Fault.ANSWER_LOST):
                self._note("is not told that its commit is durable", claim.partition)
                raise Busy("nobody answered in time: try again")
            before, head = commit.before, commit.head
            self._universe.note(
                self._process.author.process,
                f"commits {before.position} to {head.position} of partition {claim.partition}, "
                f"{len(commit.records) + sum(block.count for block in commit.blocks)} agents, "
                f"{head.actions_next - before.actions_next} actions, "
                f"{sum(out.count for out in commit.outgoing)} messages, "
                f"{len(commit.calls)} calls, "
                f"{head.journal_next - before.journal_next} timers and urgent events",
                claim.partition,
                data=commit.delta,
            )

    def compact(self, claim: Claim, images: Images) -> None:
        """In the image only: what is durable are the commits, and they stay as they are."""
        self._process.check()
        self._store.image.compact(claim, images)

    def close_intake(self, claim: Claim) -> None:
        self._enter()
        self.perform("close_intake", claim)

    def open_intake(self, claim: Claim) -> None:
        self._enter()
        self.perform("open_intake", claim)

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        self._enter()
        self.perform("rescale", tuple(claims), partitions)
        self._note(f"has made {partitions} new partitions: {self.catalog.layout.numbers}")

    def capture(self) -> Contents:
        raise NotYet("simulated machines take no snapshots")

    def folding(self, claim: Claim, position: int | None) -> None:
        self._store.folding[claim.partition] = position
        if position is not None and self._store.kills(claim, position):
            self._process.end(f"is ended by user code at {position} of partition {claim.partition}")
            raise Lost

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> MemoryPartition:
        self._process.check()
        return self._store.image.view(partition)

    def wait(self, seconds: float) -> None:
        """Whoever runs the process lets it come back after that long, or at an append."""
        self.waits = seconds

    def wake(self) -> None:
        self.waits = 0.0

    def maintain(self) -> None:
        """Retention is an operation of the machine, so that a power loss knows of it."""

    def close(self) -> None:
        self.claims.clear()

    def _note(self, what: str, partition: int | None = None) -> None:
        self._universe.note(self._process.author.process, what, partition)
