"""The states that changed, page by page, for whoever follows a fleet.

A page has the newest state of every agent that changed since its cursor: what happened in between
is in the history. Following from the beginning gives every agent once, then what changes.

A cursor is a place per partition. Where more agents have changed than a page holds, it also has the
place that was aimed for and the last agent that was given; the rest comes first with the next page,
and whoever changes meanwhile is given again after it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

import msgspec

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.runtime.exporting.reading import Gaps
from holdfast.runtime.exporting.states import Name, changes
from holdfast.runtime.exporting.target import Place
from holdfast.stepping.commit import Record


@dataclass(frozen=True, slots=True)
class Change:
    """`record` is None for an agent that is gone."""

    agent: str
    key: str
    record: Record | None


class ChangePage(NamedTuple):
    changes: list[Change]
    cursor: str


class _Standing(msgspec.Struct, array_like=True):
    """How far one partition was given."""

    place: Place
    fresh: bool = False  # nothing of it was given yet
    aim: Place | None = None  # where the listing that is under way began
    last: Name | None = None  # up to which agent it was given


class Following:
    """Makes pages. Any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def now(self) -> str:
        """The cursor behind everything that is committed."""
        return _pack([_Standing(self._end(n)) for n in self._engine.catalog.layout.numbers])

    def page(self, cursor: str | None, most: int) -> ChangePage:
        standings = self._standings(cursor)
        found: list[Change] = []
        for index, standing in enumerate(standings):
            if len(found) >= most:
                break
            given, after = self._more(standing, most - len(found))
            found += given
            standings[index] = after
        return ChangePage(found, _pack(standings))

    def _more(self, standing: _Standing, most: int) -> tuple[list[Change], _Standing]:
        gaps = Gaps(skip=True, note=lambda text: None)  # only who expired is missed by them
        changed = changes(self._engine, standing.place, standing.fresh, gaps)
        if changed is None:
            return [], standing
        aim = standing.aim or changed.after
        listed: dict[Name, Record | None] = dict.fromkeys(changed.gone)
        listed |= {(record.agent, record.key): record for record in changed.records}
        names = [n for n in listed if standing.last is None or n > standing.last]
        chosen = nsmallest(most, names)
        given = [Change(*name, listed[name]) for name in chosen]
        if len(names) <= most:
            return given, _Standing(aim)
        return given, _Standing(standing.place, standing.fresh, aim, chosen[-1])

    def _end(self, number: int) -> Place:
        view = self._engine.view(number)
        head = view.head()
        return Place(number, view.incarnation(), head.position, head.journal_next, head.now)

    def _standings(self, cursor: str | None) -> list[_Standing]:
        """Partitions that are new since the cursor, after a rescaling, are given from the start."""
        known = {} if not cursor else {s.place.partition: s for s in _unpack(cursor)}
        standings = []
        for number in self._engine.catalog.layout.numbers:
            incarnation = self._engine.view(number).incarnation()
            standing = known.get(number)
            if standing is None or standing.place.incarnation != incarnation:
                standing = _Standing(Place(number, incarnation), fresh=True)
            standings.append(standing)
        return standings


def _pack(standings: list[_Standing]) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(standings)).decode()


_decode: Callable[[bytes], list[_Standing]] = msgspec.msgpack.Decoder(list[_Standing]).decode


def _unpack(cursor: str) -> list[_Standing]:
    try:
        return _decode(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, msgspec.MsgspecError):
        text = f"cursor {cursor[:80]!r} is none of ours: use the one a page gave you"
        raise UsageError(text) from None
