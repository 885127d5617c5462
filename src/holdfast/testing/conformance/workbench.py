"""The workbench of the conformance kit: parcels, commits and a clock, made without user classes.

What an engine stores is opaque to it, so events here are tags: short texts that a test can find
again. The topics beside this file use it; what an adapter has to supply is said in kit.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import msgspec
import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.port import (
    Capabilities,
    Claim,
    Engine,
    Granted,
    Images,
    Limits,
    Loaded,
    Mark,
    Parcel,
    Taken,
    no_images,
)
from holdfast.engine.stamping import Clock, Instant, system_clock
from holdfast.stepping.blocks import Block, newest_of
from holdfast.stepping.commit import Commit, Head, Record
from holdfast.stepping.frame import Column, Frame, const, integers, rows
from holdfast.stepping.inputs import StoredFrame, numbers
from holdfast.stepping.lane import urgent_columns
from holdfast.stepping.records import delta_frame
from holdfast.stepping.rows import raw_payload, read_raw_payload

FLEET = "conformance"
WAIT_SECONDS = 30.0  # also where the machine is busy
HANGS_SECONDS = 200.0  # far beyond what a healthy engine needs for anything here
SCHEMA = 1  # engines store the number and never ask what it means
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[str]).decode


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, wall: float = 1_000_000.0) -> None:
        self.wall = wall
        self.uptime = 500.0
        self.boot = "first boot"

    def __call__(self) -> Instant:
        return Instant(self.wall, self.uptime, self.boot)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.uptime += seconds


class Crash(BaseException):
    """The end of a process, as far as one process can have it: nobody catches it."""


class Faults:
    """The fault points of the engine under test. A test says what happens at one of them, once."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._acts: dict[str, Callable[[], None]] = {}

    def at(self, point: str, act: Callable[[], None]) -> None:
        self._acts[point] = act

    def crash_at(self, point: str) -> None:
        def crash() -> None:
            raise Crash(point)

        self.at(point, crash)

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        act = self._acts.pop(name, None)
        if act is not None:
            act()


class Workbench:
    """What every topic of the kit stands on. An adapter's test supplies what comes first."""

    capabilities: Capabilities
    # Which names of engine/faults.py the engine calls; its adapter hands it `self.faults` then.
    fault_points: ClassVar[frozenset[str]] = frozenset()

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        """A new, empty engine for the fleet `FLEET`. Called once per test."""
        raise NotImplementedError

    def reopen(self, engine: Engine) -> Engine:
        """The data of `engine` through a new handle, as a restarted or another process has it.

        `engine` was not closed before and is used on: it stands for a worker that has not
        noticed yet. An engine that cannot be opened twice gives up its grants and returns itself.
        """
        raise NotImplementedError

    def plant(self, contents: Contents) -> Engine:
        """These contents in a new place, which is empty; called again after a crash.

        Only where the engine `captures`.
        """
        raise NotImplementedError

    def free_bytes(self) -> int | None:
        """How much room there is for the data; None where the engine does not look."""
        return None

    @cached_property
    def faults(self) -> Faults:
        return Faults()

    @cached_property
    def _engines(self) -> list[Engine]:
        return []

    @pytest.fixture(autouse=True)
    def _close_engines(self) -> Iterator[None]:
        yield
        for engine in self._engines:
            engine.close()

    def engine(
        self,
        *,
        partitions: int = 1,
        limits: Limits | None = None,
        clock: Clock = system_clock,
    ) -> Engine:
        made = self.make_engine(partitions=partitions, limits=limits or Limits(), clock=clock)
        self._engines.append(made)
        return made

    def again(self, engine: Engine) -> Engine:
        made = self.reopen(engine)
        if all(made is not known for known in self._engines):
            self._engines.append(made)
        return made

    def planted(self, contents: Contents) -> Engine:
        made = self.plant(contents)
        self._engines.append(made)
        return made

    def planted_from(self, engine: Engine) -> Engine:
        with closing(engine.capture()) as contents:
            return self.planted(contents)

    def needs(self, capability: str) -> None:
        if not getattr(self.capabilities, capability):
            pytest.skip(f"this engine does not have the capability {capability}")

    def needs_point(self, point: str) -> None:
        if point not in self.fault_points:
            pytest.skip(f"this engine does not call the fault point {point}")

    def is_told(self, found: Taken | Exception, following: int, new: int) -> None:
        """What an append says of its parcel, where the append is what decides about it."""
        one = taken(found)
        if self.capabilities.refuses_at_append:
            assert (one.next, one.new) == (following, new)

    def other_handle(self, engine: Engine) -> Engine:
        """A second handle beside the first; skipped where there can be but one."""
        other = self.again(engine)
        if other is engine:
            pytest.skip("this engine cannot be opened twice")
        return other


def parcel(
    tags: Sequence[str],
    *,
    source: str | None = None,
    seqs: range | Sequence[int] = range(0),
    mark: Mark | None = None,
    external: bool = True,
    keys: Sequence[str] | None = None,
    previous: Sequence[int] | None = None,
    urgent: Sequence[bool] = (),
) -> Parcel:
    """Events that carry `tags`, as a producer would hand them to an engine."""
    columns: dict[str, Column] = {
        "origin": const("external" if mark is None else "message"),
        "agent": const("Drone"),
        "key": rows(list(keys or tags)),
        **raw_payload([SCHEMA] * len(tags), [_pack([tag]) for tag in tags]),
        **urgent_columns(urgent),
    }
    if source is not None:
        columns |= {"source": const(source), "seq": numbers(seqs)}
    if previous is not None:
        columns["previous"] = integers(previous)
    frame = Frame(len(tags), columns)
    return Parcel(
        frame=frame,
        encoded=frame.encode(),
        source=source,
        seqs=seqs,
        mark=mark,
        external=external,
    )


def numbered(source: str, seqs: range | Sequence[int]) -> Parcel:
    """Events of a source, each tagged with its own name and number."""
    return parcel([f"{source}.{seq}" for seq in seqs], source=source, seqs=seqs)


def messages(source: str, first: int, count: int) -> Parcel:
    """Messages of another partition, numbered on from `first`."""
    tags = [f"{source}>{number}" for number in range(first, first + count)]
    return parcel(tags, mark=Mark(source, first), external=False)


def together(*acts: Callable[[], object]) -> None:
    """Run all of them at once, each on a thread of its own; the first failure is raised here."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        try:
            start.wait()
            act()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(act,), daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_SECONDS)
        assert not thread.is_alive(), f"still at work after {HANGS_SECONDS:g} s"
    if failures:
        raise failures[0]


def soon(condition: Callable[[], bool]) -> None:
    """Poll until it holds; fail when it does not within a time that no healthy engine needs."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {WAIT_SECONDS:g} s"
        time.sleep(0.01)


def taken(result: Taken | Exception) -> Taken:
    """The result of an append that is not allowed to be refused."""
    if isinstance(result, Exception):
        raise result
    return result


def append(engine: Engine, one: Parcel, partition: int = 0) -> Taken:
    return taken(engine.append(partition, [one])[0])


def refusal(engine: Engine, one: Parcel, partition: int = 0) -> Exception:
    """The refusal of a parcel that must not be taken."""
    result = engine.append(partition, [one])[0]
    assert isinstance(result, Exception), f"taken instead of refused: {result}"
    return result


def tags_of(stored: StoredFrame) -> list[str]:
    return [_unpack(row)[0] for _, row in read_raw_payload(Frame.decode(stored.frame))]


def inbox(engine: Engine, partition: int = 0, position: int = 0) -> list[str]:
    """Every tag from a position on, by reading on to the end; positions must have no gap."""
    found: list[str] = []
    start = position
    while batch := engine.read(partition, position, 1000):
        for stored in batch:
            assert stored.first <= position < stored.first + stored.count, "a gap or a repeat"
            tags = tags_of(stored)
            assert len(tags) == stored.count
            found += tags[position - stored.first :]
            position = stored.first + stored.count
    assert position == max(start, engine.view(partition).inbox_next())
    return found


def stamps(engine: Engine, partition: int = 0) -> list[float]:
    return [stored.stamp for stored in engine.read(partition, 0, 1_000_000)]


def record(key: str, text: str, version: int = 1, agent: str = "Drone") -> Record:
    return Record(agent, key, version, SCHEMA, _pack([text]), b"", 1_000.0 + version)


def gone(key: str, version: int = 1, agent: str = "Drone") -> Record:
    return Record(agent, key, version, SCHEMA, b"", b"", 1_000.0 + version)


def states_in(loaded: Loaded) -> list[Record]:
    """The agents that were loaded, in order, whichever form they came in."""
    newest = newest_of(loaded.records).values()
    return sorted(record for record in newest if not record.gone)


@dataclass
class Owner:
    """A claim on a partition with the head it has reached: a worker without user code."""

    engine: Engine
    claim: Claim
    head: Head
    images: Images = no_images

    @classmethod
    def of(cls, engine: Engine, partition: int = 0, generation: int = 1) -> Owner:
        grants = [
            change.claim
            for change in engine.assignments([partition], generation)
            if isinstance(change, Granted) and change.claim.partition == partition
        ]
        assert len(grants) == 1, f"expected one grant of partition {partition}, got {grants}"
        return cls(engine, grants[0], engine.load(grants[0]).head)

    def prepare(self, records: Sequence[Record] = (), events: int = 0, **parts: object) -> Commit:
        """A commit that folds `events` more events; `parts` are further fields of Commit."""
        changes = {
            "position": self.head.position + events,
            "now": self.head.now + 1.0,
            "commits": self.head.commits + 1,
            **cast("dict[str, object]", parts.pop("head", {})),
        }
        head = self.head._replace(**changes)  # type: ignore[arg-type]
        blocks = cast("list[Block]", parts.get("blocks", []))
        delta = delta_frame(records, blocks).encode() if records or blocks else b""
        return Commit(
            before=self.head,
            head=head,
            records=list(records),
            delta=delta,
            **parts,  # type: ignore[arg-type]
        )

    def commit(self, records: Sequence[Record] = (), events: int = 0, **parts: object) -> None:
        prepared = self.prepare(records, events, **parts)
        self.engine.commit([(self.claim, prepared)])
        self.head = prepared.head
        self.engine.compact(self.claim, self.images)

    def fold_all(self) -> None:
        """Commit everything that waits in the inbox."""
        waiting = self.engine.view(self.claim.partition).inbox_next() - self.head.position
        self.commit(events=waiting)
