"""Decisions of two runs of a fleet, compared agent by agent as time goes on.

Actions of one class of one agent are two sequences. Those of one moment are partners, and what lies
between partners is paired in order: so one more or one less does not shift the rest. A pair is the
same, `changed` (other content) or `moved` (same content at another time); what has no partner is
`missing` (only recorded) or `new` (only in the fork).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from operator import attrgetter
from typing import Literal, NamedTuple, cast

from holdfast.runtime.forking.values import Values
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import read_raw_payload

Kind = Literal["missing", "new", "changed", "moved"]
KINDS: tuple[Kind, ...] = ("missing", "new", "changed", "moved")
EXAMPLES_KEPT = 200  # the first of each kind and class of action
GAP_ACTIONS = 1_000  # so many wait for a partner; the oldest of more have none


class Decision(NamedTuple):
    """One action. `schema` and `row` are its content."""

    agent: str
    key: str
    name: str
    now: float
    version: int
    place: int  # among those of one event
    schema: int
    row: bytes


class Difference(NamedTuple):
    kind: Kind
    agent: str
    key: str
    name: str
    now: float  # in the fork, or where it should have been
    recorded: dict[str, object] | None
    fork: dict[str, object] | None
    moved_by: float = 0.0


def decisions(frame: bytes, values: Values, first: int = 0) -> list[Decision]:
    """Those of one frame from its row `first` on."""
    read = Frame.decode(frame)
    names = ("agent", "key", "version", "index", "now")
    columns = [cast(list[object], read.values(name)) for name in names]
    rows = zip(*columns, read_raw_payload(read), strict=True)
    return [
        Decision(agent, key, values.name_of(schema), now, version, index, schema, row)
        for agent, key, version, index, now, (schema, row) in cast(
            "Iterable[tuple[str, str, int, int, float, tuple[int, bytes]]]", rows
        )
    ][first:]


class _Gap:
    """What waits for a partner, of one class of actions of one agent."""

    __slots__ = ("fork", "recorded")

    def __init__(self) -> None:
        self.recorded: list[Decision] = []
        self.fork: list[Decision] = []


class Decisions:
    """Compares as both runs go on. Both sides have to be fed up to the same time."""

    def __init__(self, recorded: Values, fork: Values) -> None:
        self._values = (recorded, fork)
        self._gaps: dict[tuple[str, str, str], _Gap] = {}
        self.totals: dict[str, list[int]] = {}  # class -> recorded, fork
        self.counts: dict[str, dict[Kind, int]] = {}  # class -> kind -> how many
        self.agents: dict[tuple[str, str], dict[Kind, int]] = {}
        self.times: dict[str, array[float]] = {}  # class -> when
        self._examples: dict[tuple[str, Kind], list[Difference]] = {}

    def feed(self, recorded: Iterable[Decision], fork: Iterable[Decision]) -> None:
        sides: dict[tuple[str, str, str], tuple[list[Decision], list[Decision]]] = {}
        for side, found in enumerate((recorded, fork)):
            for each in found:
                sides.setdefault(each[:3], ([], []))[side].append(each)
        for who, (ours, theirs) in sides.items():
            total = self.totals.setdefault(who[2], [0, 0])
            total[0] += len(ours)
            total[1] += len(theirs)
            gap = self._gaps.get(who)
            if gap is None and len(ours) == len(theirs) and all(map(_same, ours, theirs)):
                continue
            self._merge(gap or self._gaps.setdefault(who, _Gap()), ours, theirs)
            gap = self._gaps[who]
            if not gap.recorded and not gap.fork:
                del self._gaps[who]

    def _merge(self, gap: _Gap, ours: list[Decision], theirs: list[Decision]) -> None:
        i = j = 0
        while i < len(ours) and j < len(theirs):
            if ours[i].now == theirs[j].now:
                self._close(gap)
                self._pair(ours[i], theirs[j])
                i, j = i + 1, j + 1
            elif ours[i].now < theirs[j].now:
                gap.recorded.append(ours[i])
                i += 1
            else:
                gap.fork.append(theirs[j])
                j += 1
        gap.recorded += ours[i:]
        gap.fork += theirs[j:]
        if max(len(gap.recorded), len(gap.fork)) > GAP_ACTIONS:
            self._close(gap)

    def finish(self) -> None:
        for gap in self._gaps.values():
            self._close(gap)
        self._gaps.clear()

    def _close(self, gap: _Gap) -> None:
        if not gap.recorded and not gap.fork:
            return
        for ours, theirs in zip(gap.recorded, gap.fork, strict=False):
            self._pair(ours, theirs)
        both = min(len(gap.recorded), len(gap.fork))
        for ours in gap.recorded[both:]:
            self._note("missing", ours, ours, None)
        for theirs in gap.fork[both:]:
            self._note("new", theirs, None, theirs)
        gap.recorded, gap.fork = [], []

    def _pair(self, ours: Decision, theirs: Decision) -> None:
        if not self._same_content(ours, theirs):
            self._note("changed", theirs, ours, theirs)
        elif ours.now != theirs.now:
            self._note("moved", theirs, ours, theirs)

    def _same_content(self, ours: Decision, theirs: Decision) -> bool:
        if (ours.schema, ours.row) == (theirs.schema, theirs.row):
            return True
        if ours.schema == theirs.schema:
            return False
        recorded, fork = self._content(0, ours), self._content(1, theirs)
        return all(fork[name] == value for name, value in recorded.items() if name in fork)

    def _content(self, side: int, each: Decision) -> dict[str, object]:
        return self._values[side].row(each.schema, each.row)

    def _note(
        self, kind: Kind, at: Decision, ours: Decision | None, theirs: Decision | None
    ) -> None:
        counts = self.counts.setdefault(at.name, {})
        counts[kind] = counts.get(kind, 0) + 1
        counts = self.agents.setdefault((at.agent, at.key), {})
        counts[kind] = counts.get(kind, 0) + 1
        self.times.setdefault(at.name, array("d")).append(at.now)
        examples = self._examples.setdefault((at.name, kind), [])
        examples.append(
            Difference(
                kind,
                at.agent,
                at.key,
                at.name,
                at.now,
                None if ours is None else self._content(0, ours),
                None if theirs is None else self._content(1, theirs),
                theirs.now - ours.now if ours is not None and theirs is not None else 0.0,
            )
        )
        if len(examples) >= 2 * EXAMPLES_KEPT:
            examples.sort(key=attrgetter("now", "agent", "key"))
            del examples[EXAMPLES_KEPT:]

    def examples(self) -> list[Difference]:
        """The first ones of each class and kind, by time."""
        found = []
        for each in self._examples.values():
            found += sorted(each, key=attrgetter("now", "agent", "key"))[:EXAMPLES_KEPT]
        return sorted(found, key=attrgetter("now", "agent", "key", "name", "kind"))


def _same(ours: Decision, theirs: Decision) -> bool:
    return ours.now == theirs.now and ours.row == theirs.row and ours.schema == theirs.schema
