"""One agent's recorded history, folded again alone: what `holdfast debug` stands on.

Inputs are taken in the order they were folded in: the agent's rows of the inbox, and its timers and
expiries as the journal has them. Other agents are not needed, since they meet only in messages. The
code is that of today, so the states are what today's code makes of the old events. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from holdfast.engine.port import Engine
from holdfast.errors import DamagedData, UsageError
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import Handler
from holdfast.runtime.partition import CONDEMNED
from holdfast.stepping.commit import Commit, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.testing.bench import Bench, codebook_of

FRAMES_AT_ONCE = 4_096


class Rang(NamedTuple):
    """A timer (or, without an event, an expiry) as it was journalled before an inbox position."""

    position: int
    name: str
    due: float
    now: float
    event: Event | None


Entry = Inputs | Rang


class Rerun:
    """Entries are numbered from 1, as `holdfast history` numbers them."""

    def __init__(self, fleet: FleetModel, engine: Engine, agent: str, key: str) -> None:
        if agent not in fleet.agents:
            raise UsageError(
                f"fleet {fleet.name} has no agent {agent}: it has {', '.join(fleet.agents)}"
            )
        catalog = engine.catalog
        self.agent, self.key = agent, key
        self._view = engine.view(catalog.layout.partition_of(key))
        self._end = self._view.head().position
        self._codebook = codebook_of(fleet, catalog.schemas())
        letters = [letter for letter, _ in self._view.letters()]
        self._buried = {each.position: each for each in letters if self._is_ours(each)}
        self.bench = Bench(fleet, self._codebook, catalog.layout, 0, letters)
        self.cut = self._view.inbox_first() > 0
        self.entries = list(self._entries())

    def _is_ours(self, letter: Letter) -> bool:
        return (letter.agent, letter.key) == (self.agent, self.key)

    # Reading.

    def _entries(self) -> Iterator[Entry]:
        timers = list(self._journal())
        position = self._view.inbox_first()
        while position < self._end:
            batch = self._view.frames(position, FRAMES_AT_ONCE)
            if not batch:
                raise DamagedData(f"the inbox ends at {position} of {self._end} folded events")
            for stored in batch:
                position = stored.first + stored.count
                if self.key.encode() not in stored.frame:
                    continue
                inputs = read_inputs(stored, self._codebook)
                for i, key in enumerate(inputs.keys):
                    at = stored.first + i
                    if key == self.key and inputs.agents[i] == self.agent and at < self._end:
                        while timers and timers[0].position <= at:
                            yield timers.pop(0)
                        yield inputs.part(i, i + 1)
        yield from timers

    def _journal(self) -> Iterator[Rang]:
        first = 0
        while batch := self._view.journal(first, FRAMES_AT_ONCE):
            for journalled in batch:
                first = journalled.first + journalled.count
                frame = Frame.decode(journalled.frame)
                names = ("agent", "key", "position", "name", "due", "now", "event")
                columns = [cast(list[object], frame.values(name)) for name in names]
                for agent, key, position, name, due, now, pair in zip(*columns, strict=True):
                    if (agent, key) == (self.agent, self.key):
                        yield Rang(
                            cast(int, position),
                            cast(str, name),
                            cast(float, due),
                            cast(float, now),
                            self._event(cast("tuple[int, bytes] | None", pair)),
                        )

    def _event(self, pair: tuple[int, bytes] | None) -> Event | None:
        return None if pair is None else cast(Event, self._codebook.reader_of(pair[0]).row(pair[1]))

    # Folding.

    @property
    def record(self) -> Record | None:
        return self.bench.records.get((self.agent, self.key))

    @property
    def committed(self) -> Record | None:
        return self._view.record(self.agent, self.key)

    def fold(self, number: int, *, in_any_case: bool = False) -> Commit | None:
        """One entry. None for a timer that today's code has not set. An event that ended its
        worker was never folded, so it is not folded here either, unless `in_any_case`."""
        entry = self.entries[number - 1]
        if isinstance(entry, Rang):
            return self._fire(entry, self.entries[number:])
        letter = self._buried.get(entry.first)
        killed = letter is not None and letter.error == CONDEMNED
        condemned = CONDEMNED if killed and not in_any_case else None
        while True:
            row = replace(entry, first=self.bench.position)
            commit = self.bench.step([row], alone=True, condemned=condemned)
            if commit.journalled is None:
                return commit

    def _fire(self, rang: Rang, later: list[Entry]) -> Commit | None:
        timer = self.bench.timers(self.agent, self.key).get(rang.name)
        if timer is not None and timer.period and self._in_front(rang, later):
            # Before a waiting input it fires when it was due, and skips what passed until then.
            stamp = self._stamp_at(rang.position)
            empty = Inputs(self.bench.position, stamp, "external", [], None, [], [])
            commit = self.bench.step([empty], alone=True)
        else:
            commit = self.bench.step([], rang.now, alone=True)
        return commit if commit.journalled is not None else None

    def _in_front(self, rang: Rang, later: list[Entry]) -> bool:
        again = any(
            isinstance(each, Rang) and (each.name, each.position) == (rang.name, rang.position)
            for each in later
        )
        return rang.now == rang.due and not again

    def _stamp_at(self, position: int) -> float:
        frames = self._view.frames(position, 1) if position < self._end else []
        return frames[0].stamp if frames else 0.0

    # The entry to look at.

    def event_of(self, number: int) -> Event | None:
        entry = self.entries[number - 1]
        if isinstance(entry, Rang):
            return entry.event
        return None if entry.commands is not None else entry.events[0]

    def handler_of(self, number: int) -> Handler | None:
        """The one that takes the entry in the state that the agent has now."""
        event = self.event_of(number)
        return None if event is None else self.bench.choose(self.agent, self.record, event)
