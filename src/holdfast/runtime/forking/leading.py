"""The inputs that led to a difference: the last ones that the agent took before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.engine.port import Engine, View
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.forking.comparing import Difference
from holdfast.runtime.forking.track import Gap
from holdfast.runtime.reading import Plain, Untyped
from holdfast.stepping.commit import Head
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame, rows_of
from holdfast.stepping.rows import read_raw_payload
from holdfast.stepping.script import read_firings

INPUTS_SHOWN = 6
DIFFERENCES_SHOWN = 12
PAGE = 4_096
PAGES_READ = 64  # so far back the inputs of an agent are looked for


class Lead(msgspec.Struct):
    """One input. `seen_by` is "both", "recorded" or "fork"."""

    time: float
    position: int
    origin: str
    event: str
    values: dict[str, object]
    seen_by: str = "both"


class Leads:
    def __init__(self, engine: Engine, ends: dict[int, Head]) -> None:
        self._engine = engine
        self._ends = ends
        self._plain = Untyped(engine.catalog.schemas)

    def of(self, difference: Difference, missed: Iterable[Gap], fresh: Iterable[Gap]) -> list[Lead]:
        agent, key, now = difference.agent, difference.key, difference.now
        gone = {(g.position, g.what) for g in missed if (g.agent, g.key) == (agent, key)}
        found: list[Lead] = []
        for number in reversed(partitions_of(self._engine.catalog, key)):
            if number in self._ends:
                found = self._before(number, agent, key, now) + found
            if len(found) >= INPUTS_SHOWN:
                break
        for lead in found:
            what = f"message {lead.event}" if lead.origin == "message" else lead.event
            if (lead.position, what) in gone or (lead.position, lead.origin) in gone:
                lead.seen_by = "recorded"
        for gap in fresh:
            if (gap.agent, gap.key) == (agent, key) and gap.now <= now:
                origin, _, name = gap.what.partition(" ")
                found.append(Lead(gap.now, -1, origin, name, {}, "fork"))
        found.sort(key=lambda lead: lead.time)
        return found[-INPUTS_SHOWN:]

    def _before(self, number: int, agent: str, key: str, now: float) -> list[Lead]:
        view, end = self._engine.view(number), self._ends[number].position
        found: list[Lead] = []
        stop = min(end, _position_after(view, now, end))
        for _ in range(PAGES_READ):
            if stop <= 0 or len(found) >= INPUTS_SHOWN:
                break
            first = max(0, stop - PAGE)
            found = self._rows(view, first, stop, agent, key) + found
            stop = first
        return found + self._firings(number, view, agent, key, now)

    def _rows(self, view: View, first: int, stop: int, agent: str, key: str) -> list[Lead]:
        found = []
        for stored in view.frames(first, stop - first):
            rows = [i for i in rows_of(stored, agent, key) if first <= stored.first + i < stop]
            if not rows:
                continue
            frame = Frame.decode(stored.frame)
            origin = str(frame.constant("origin"))
            payload = read_raw_payload(frame) if "schema" in frame else None
            for i in rows:
                plain = Plain(origin, {}) if payload is None else self._plain(*payload[i])
                found.append(Lead(stored.stamp, stored.first + i, origin, plain.name, plain.values))
        return found

    def _firings(self, number: int, view: View, agent: str, key: str, now: float) -> list[Lead]:
        end = self._ends[number].journal_next
        low, high = 0, end
        while low < high:  # the first that fired later
            middle = (low + high) // 2
            page = view.journal(middle, 1)
            if page and (  # what is past retention was before
                page[0].first > middle or read_firings(page[0])[middle - page[0].first].now <= now
            ):
                low = middle + 1
            else:
                high = middle
        found: list[Lead] = []
        stop = low
        for _ in range(PAGES_READ):
            if stop <= 0 or len(found) >= INPUTS_SHOWN:
                break
            first = max(0, stop - PAGE)
            page_found = []
            for journalled in view.journal(first, PAGE):
                if journalled.first >= stop:
                    break
                for i, each in enumerate(read_firings(journalled), journalled.first):
                    if first <= i < stop and (each.agent, each.key) == (agent, key):
                        if each.taken is not None:
                            page_found.append(self._urgent(each.position, each.taken))
                            continue
                        plain = Plain("", {}) if each.event is None else self._plain(*each.event)
                        name = f"timer {each.name}" if each.event is not None else "expiry"
                        values = dict(plain.values)
                        page_found.append(Lead(each.now, each.position, each.origin, name, values))
            found = page_found + found
            stop = first
        return found

    def _urgent(self, position: int, taken: StoredFrame) -> Lead:
        frame = Frame.decode(taken.frame)
        origin = str(frame.constant("origin"))
        plain = Plain(origin, {})
        if "schema" in frame:
            plain = self._plain(*read_raw_payload(frame)[0])
        return Lead(taken.stamp, position, origin, plain.name, plain.values)


def _position_after(view: View, now: float, end: int) -> int:
    """The first position whose event came after a time."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        frames = view.frames(middle, 1)
        if frames and frames[0].stamp <= now:
            low = middle + 1
        else:
            high = middle
    return low


def first_of(examples: Sequence[Difference]) -> list[Difference]:
    """The first differences, of as many agents and classes as possible."""
    chosen: list[Difference] = []
    seen: set[tuple[str, str, str]] = set()
    for each in examples:
        at = (each.agent, each.key, each.name)
        if at not in seen:
            seen.add(at)
            chosen.append(each)
        if len(chosen) == DIFFERENCES_SHOWN:
            break
    return chosen
