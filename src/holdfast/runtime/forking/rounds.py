"""Rounds: how all partitions of a fork advance together, with one result whoever folds them.

A round covers a stretch of time, from `since` to `limit`. In it every partition folds its recorded
inputs; a place of a message is filled when the message is there, and passed when its sender is past
the time at which it would have been sent. Both are true for good once they are true, so the state
in which nobody can go on is the same whatever the order (partitions are a network of processes that
only ever wait for each other). Where partitions wait for each other in a circle, which takes equal
times or clocks that disagree, the earliest of their places stays empty.

Messages without a twin have to be taken at their time by a partition that may be past it already.
So the round ends at the first arrival of such a message; partitions that went further go back to
the beginning of the round and fold it again. So they do where a state turns out to have a wrong
type, which is noticed at the end of a round and spoils what was sent before. Rounds grow while no
such messages come, and shrink towards MESSAGE_SECONDS, the least time between cause and arrival,
where they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from holdfast.runtime.forking.mailbox import MESSAGE_SECONDS, Parcel
from holdfast.runtime.forking.track import Blocked, Track

ROUND_SECONDS_FIRST = 0.25
ROUND_SECONDS_LONGEST = 600.0
ROUND_EVENTS = 200_000  # past this a round does not grow, past twice it shrinks: memory to go back


class Progress(NamedTuple):
    """Where the partitions of one member stand after a turn."""

    moved: bool
    parcels: list[Parcel]  # for partitions of others
    frontiers: dict[int, float]
    blocked: dict[int, Blocked]
    stray: float  # the first arrival of a message without a twin
    furthest: float  # the latest time anything was folded at
    taken: int  # inputs in this round


class Member(Protocol):
    """A workshop with some of the partitions, here or in a process of its own."""

    partitions: Sequence[int]

    def ask(self, method: str, *arguments: object) -> None: ...
    def answer(self) -> object: ...


def ask_all(members: Sequence[Member], method: str, *arguments: object) -> list[object]:
    """All of them at the same time."""
    for member in members:
        member.ask(method, *arguments)
    return [member.answer() for member in members]


class Tracks:
    """A member's partitions, turned one after the other until none of them can go on."""

    def __init__(self, tracks: Mapping[int, Track]) -> None:
        self.tracks = dict(tracks)
        self._known: dict[int, float] = {}

    def turn(
        self,
        limit: float,
        parcels: Iterable[Parcel],
        frontiers: Mapping[int, float],
        abandon: int | None,
    ) -> Progress:
        self._known.update(frontiers)
        self._known.update({n: track.frontier for n, track in self.tracks.items()})
        foreign: list[Parcel] = []
        moved = False
        for parcel in parcels:
            self.tracks[parcel.destination].mailbox.receive(parcel)
            moved = True
        if abandon is not None and abandon in self.tracks:
            self.tracks[abandon].abandon()
        going = True
        while going:
            going = False
            for number, track in self.tracks.items():
                before = track.frontier
                sent = track.advance(min(limit, self._stray()), self._known)
                self._known[number] = track.frontier
                if sent is not None:
                    going = moved = True
                    for parcel in sent:
                        here = self.tracks.get(parcel.destination)
                        if here is None:
                            foreign.append(parcel)
                        else:
                            here.mailbox.receive(parcel)
                elif track.frontier != before:
                    going = moved = True
        return Progress(
            moved,
            foreign,
            {n: track.frontier for n, track in self.tracks.items()},
            {n: t.blocked for n, t in self.tracks.items() if t.blocked is not None},
            self._stray(),
            max((track.furthest for track in self.tracks.values()), default=-math.inf),
            sum(track.made.inputs for track in self.tracks.values()),
        )

    def roll_back(self, spoiled: bool) -> None:
        self._known.clear()  # what others claimed is undone too
        for track in self.tracks.values():
            track.roll_back(spoiled)

    def _stray(self) -> float:
        fresh = (m.arrival for track in self.tracks.values() for m in track.mailbox.fresh)
        return min(fresh, default=math.inf)


class Rounds:
    def __init__(self, members: Sequence[Member], until: float) -> None:
        self._members = members
        self._until = until
        self._since = -math.inf
        self._seconds = ROUND_SECONDS_FIRST
        self._patience = self._calm = 1
        self.repeated = 0  # rounds that were folded twice

    def run(self) -> None:
        while self._since < self._until:
            following = min(cast(list[float], ask_all(self._members, "next_time")))
            if following == math.inf or following > self._until:
                break
            self._round(max(self._since, following))

    def _round(self, start: float) -> None:
        # A message that is taken at `start` may be answered MESSAGE_SECONDS later.
        limit = min(start + self._seconds, self._until)
        ask_all(self._members, "begin", self._since)
        reached = limit
        while True:
            stray, furthest, taken = self._settle(reached)
            beyond = furthest > min(reached, stray)
            sealed = beyond or all(ask_all(self._members, "seal"))
            reached = min(reached, stray)
            if sealed and not beyond:
                break
            self.repeated += 1
            ask_all(self._members, "roll_back", not beyond)
        ask_all(self._members, "keep")
        self._adapt(start, limit, reached, taken)
        self._since = reached

    def _adapt(self, start: float, limit: float, reached: float, taken: int) -> None:
        """Longer rounds make larger batches; each one that is cut short is folded nearly twice."""
        if reached < limit:
            self._seconds = max(MESSAGE_SECONDS, reached - start)
            self._patience = min(64, self._patience * 2)
            self._calm = 0
        elif taken > 2 * ROUND_EVENTS:
            self._seconds = max(MESSAGE_SECONDS, self._seconds / 2)
        elif taken < ROUND_EVENTS:
            self._calm += 1
            if self._calm >= self._patience:
                self._seconds = min(ROUND_SECONDS_LONGEST, self._seconds * 2)
                self._calm = 0
                self._patience = max(1, self._patience // 2)

    def _settle(self, limit: float) -> tuple[float, float, int]:
        """Turn until nobody can go on: the first stray arrival, how far anybody went, inputs."""
        frontiers: dict[int, float] = {}
        waiting: dict[int, list[Parcel]] = {}
        abandon: int | None = None
        stray = math.inf
        while True:
            for member in self._members:
                parcels = [p for n in member.partitions for p in waiting.pop(n, ())]
                member.ask("turn", min(limit, stray), parcels, frontiers, abandon)
            reports = [cast(Progress, member.answer()) for member in self._members]
            stray = min(report.stray for report in reports)
            changed = any(report.moved for report in reports)
            for report in reports:
                for parcel in report.parcels:
                    waiting.setdefault(parcel.destination, []).append(parcel)
                frontiers.update(report.frontiers)
            abandon = None
            if not changed and not waiting:
                blocked = {n: b for report in reports for n, b in report.blocked.items()}
                abandon = _circle(blocked)
                if abandon is None:
                    furthest = max(report.furthest for report in reports)
                    return stray, furthest, sum(report.taken for report in reports)


def _circle(blocked: Mapping[int, Blocked]) -> int | None:
    """Of partitions that wait for each other in a circle, the one with the earliest place."""
    found: list[tuple[float, float, int]] = []
    for start in blocked:
        path: list[int] = []
        at: int | None = start
        while at is not None and at not in path:
            path.append(at)
            place = blocked.get(at)
            at = place.source if place is not None else None
        if at == start:
            place = blocked[start]
            found.append((place.sent, place.at, start))
    return min(found)[2] if found else None
