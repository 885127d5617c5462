"""A recorded run: every step with where it began and ended in the record, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from holdfast.engine.port import Parcel
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.schema import Schema
from holdfast.stepping.blocks import Block, records_in
from holdfast.stepping.commit import Record
from holdfast.testing.conformance.blocks import Keeper
from holdfast.testing.conformance.workbench import FLEET, Owner, taken
from tests.crashes.disk import Disk, Operation
from tests.crashes.expected import Part, World, appended, committed
from tests.crashes.recorder import Recorder

PARTITIONS = 2
Sent = list[tuple[int, Parcel]]  # partition and parcel


@dataclass
class Step:
    """A call to the engine. `end` is where it returned, and so was acknowledged."""

    name: str
    begin: int
    end: int
    before: World | None  # None: there is no directory yet
    after: World
    sent: Sent = field(default_factory=list)
    whole: bool = True  # all of it or nothing; otherwise each thing in it


@dataclass
class Moment:
    """What is promised of the disk at one place in the record."""

    acknowledged: Sent
    before: World | None
    after: World | None
    step: Step | None  # in flight

    @property
    def identity(self) -> tuple[int, ...]:
        """Equal where the same is promised."""
        return id(self.before), id(self.after), len(self.acknowledged), id(self.step)


@dataclass
class Run:
    start: Disk  # what the disk was when recording began
    operations: list[Operation]
    steps: list[Step]
    acknowledged: Sent  # before recording began

    def at(self, position: int) -> Moment:
        """With the first `position` operations done."""
        sent = list(self.acknowledged)
        world: World | None = self.steps[0].before
        for step in self.steps:
            if step.end > position:
                if step.begin < position:
                    return Moment(sent, world, step.after, step)
                break
            world = step.after
            sent += step.sent
        return Moment(sent, world, world, None)

    def near(self, position: int) -> str:
        """The step in flight, or the one that ended last."""
        begun = [step.name for step in self.steps if step.begin < position]
        return begun[-1] if begun else self.steps[0].name


class Script:
    """Runs the steps of a workload on a real engine under the recorder."""

    def __init__(self, recorder: Recorder, world: World | None = None) -> None:
        self.root = Path(recorder.base) / "data"
        self.recorder = recorder
        self.world = world
        self.steps: list[Step] = []
        self.keepers: dict[int, Keeper] = {}  # by partition: what its owner has in columns

    @contextmanager
    def step(
        self, name: str, after: World | None = None, *, sent: Sent | None = None, whole: bool = True
    ) -> Iterator[None]:
        begin = len(self.recorder.operations)
        yield
        end = len(self.recorder.operations)
        after = after or self.world
        assert after is not None
        self.steps.append(Step(name, begin, end, self.world, after, sent or [], whole))
        self.world = after

    def create(self) -> None:
        begin = len(self.recorder.operations)
        SqliteEngine.create(self.root, FLEET, PARTITIONS)
        end = len(self.recorder.operations)
        engine = SqliteEngine(self.root)
        parts = [Part(engine.view(n).incarnation()) for n in range(PARTITIONS)]
        engine.close()
        after = World((), tuple(parts))
        self.steps.append(Step("create", begin, end, None, after))
        self.world = after

    def register(self, engine: SqliteEngine, *schemas: Schema) -> None:
        assert self.world is not None
        prints = (*self.world.schemas, *(schema.fingerprint for schema in schemas))
        with self.step("register", replace(self.world, schemas=prints)):
            engine.catalog.register(schemas)

    def claim(self, engine: SqliteEngine, number: int) -> Owner:
        part = self.part(number)
        claimed = self.changed(number, replace(part, epoch=part.epoch + 1))
        with self.step(f"claim {number}", claimed):
            return Owner.of(engine, number)

    def append(self, engine: SqliteEngine, number: int, *parcels: Parcel) -> None:
        after = appended(self.part(number), parcels)
        sent = [(number, parcel) for parcel in parcels]
        with self.step(f"append to {number}", self.changed(number, after), sent=sent):
            results = engine.append(number, parcels)
        assert taken(results[-1]).next == len(after.tags)

    def commit(
        self, owner: Owner, records: Sequence[Record] = (), events: int = 0, **parts: object
    ) -> None:
        number = owner.claim.partition
        keeper = self.keepers.setdefault(number, Keeper())
        for each in cast("list[Block]", parts.get("blocks", [])):
            keeper.records |= {one.key: one for one in records_in(each)}
        keeper.in_columns = set(keeper.records)
        prepared = owner.prepare(records, events, **parts)
        after = self.changed(number, committed(self.part(number), prepared))
        with self.step(f"commit {prepared.head.commits} to {number}", after):
            owner.engine.commit([(owner.claim, prepared)])
            owner.engine.compact(owner.claim, self.keepers[number].images)
        owner.head = prepared.head

    def part(self, number: int) -> Part:
        assert self.world is not None
        return self.world.parts[number]

    def changed(self, number: int, part: Part) -> World:
        assert self.world is not None
        return self.world.changed(number, part)
