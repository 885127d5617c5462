"""Ways to spoil the evidence of a good run, each with the promises that are then broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from holdfast.stepping.commit import Commit
from holdfast.stepping.frame import Frame, rows
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.rows import select
from holdfast.testing.simulation.decoding import Input, inputs_of
from holdfast.testing.simulation.evidence import Accepted, Evidence, PartitionLog
from holdfast.testing.simulation.findings import Promise

T = TypeVar("T")


class Tamper(NamedTuple):
    name: str
    broken: set[Promise]
    alone: bool  # these and no others are reported; otherwise agents that went another way show too
    spoil: Callable[[Case], None]


TAMPERS: list[Tamper] = []


def breaks(
    *broken: Promise, alone: bool = True
) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def note(spoil: Callable[[Case], None]) -> Callable[[Case], None]:
        TAMPERS.append(Tamper(spoil.__name__, set(broken), alone, spoil))
        return spoil

    return note


class Found(NamedTuple):
    """A commit and where it is kept."""

    log: PartitionLog
    place: int
    accepted: Accepted

    @property
    def commit(self) -> Commit:
        return self.accepted.commit

    def put(self, **changes: object) -> None:
        commit = replace(self.commit, **changes)  # type: ignore[arg-type]
        self.log.commits[self.place] = self.accepted._replace(commit=commit)


class Case:
    """A copy of the evidence that may be spoiled: what cannot change in itself is shared."""

    def __init__(self, evidence: Evidence) -> None:
        generations = [
            [
                replace(
                    log,
                    frames=list(log.frames),
                    lane=list(log.lane),
                    came=list(log.came),
                    commits=list(log.commits),
                )
                for log in generation
            ]
            for generation in evidence.generations
        ]
        self.evidence = replace(
            evidence,
            generations=generations,
            sends=list(evidence.sends),
            reads=list(evidence.reads),
            looks=list(evidence.looks),
            pages=list(evidence.pages),
            asks=list(evidence.asks),
            commands=list(evidence.commands),
            listings=list(evidence.listings),
            attempts=list(evidence.attempts),
        )

    @property
    def logs(self) -> list[PartitionLog]:
        return [log for generation in self.evidence.generations for log in generation]

    def commits(self, wanted: Callable[[Commit], object] = lambda commit: True) -> Iterator[Found]:
        for log in self.logs:
            for place, accepted in enumerate(log.commits):
                if wanted(accepted.commit):
                    yield Found(log, place, accepted)

    def commit(self, wanted: Callable[[Commit], object] = lambda commit: True) -> Found:
        return first(self.commits(wanted))

    def frames(self, origin: str) -> Iterator[tuple[PartitionLog, int, list[Input]]]:
        for log in self.logs:
            for place, frame in enumerate(log.frames):
                inputs = list(inputs_of(frame))
                if inputs[0].origin == origin:
                    yield log, place, inputs

    def last_generation(self) -> list[PartitionLog]:
        return self.evidence.generations[-1]


class NothingToSpoil(Exception):
    """This run has none of it: take another."""


def first(found: Iterator[T]) -> T:
    one = next(found, None)
    if one is None:
        raise NothingToSpoil
    return one


def edited(frame: bytes, **columns: Callable[[list[object]], Sequence[object]]) -> bytes:
    """A frame with some columns changed, and its checksum right."""
    taken = Frame.decode(frame)
    for name, change in columns.items():
        values = taken.values(name)
        assert values is not None
        taken.columns[name] = rows(list(change(values)))
    return taken.encode()


def chosen(frame: bytes, indexes: Sequence[int]) -> bytes:
    """A frame with some of its rows, in another order, or twice."""
    return select(Frame.decode(frame), indexes).encode()


def appended(log: PartitionLog, frame: StoredFrame) -> None:
    end = log.frames[-1]
    log.frames.append(replace(frame, first=end.first + end.count, stamp=end.stamp))


def removed(log: PartitionLog, place: int) -> None:
    """Without one of its frames, and the rest moved up."""
    gone = log.frames.pop(place)
    for i in range(place, len(log.frames)):
        log.frames[i] = replace(log.frames[i], first=log.frames[i].first - gone.count)
