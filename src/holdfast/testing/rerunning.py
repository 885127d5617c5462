"""One agent's recorded history, folded again alone: what `holdfast debug` stands on.

Inputs are those of `holdfast history`, in its order: the agent's rows of the inbox, and its timers,
expiries and urgent events as the journal has them. Other agents are not needed, since they meet
only in messages. The code is that of today, so the states are what it makes of the old events.
Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple, cast

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import Handler
from holdfast.runtime.agentlog import Rang, inputs_of, partitions_of
from holdfast.runtime.partition import CONDEMNED
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.commit import Commit, Letter, Record
from holdfast.stepping.grounding import TOLD_NAME
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.stepping.lane import LANE, in_lane
from holdfast.stepping.script import Firing
from holdfast.testing.bench import Bench


class Row(NamedTuple):
    """One row of an inbox."""

    partition: int
    inputs: Inputs


Entry = Row | Rang


class Rerun:
    """Entries are those of `holdfast history`, numbered from 1."""

    def __init__(self, fleet: FleetModel, engine: Engine, agent: str, key: str) -> None:
        if agent not in fleet.agents:
            raise UsageError(
                f"fleet {fleet.name} has no agent {agent}: it has {', '.join(fleet.agents)}"
            )
        self.agent, self.key = agent, key
        self._engine = engine
        self._codebook = codebook_of(fleet, engine.catalog.schemas())
        partitions = partitions_of(engine.catalog, key)
        self._letters: dict[tuple[int, int], Letter] = {}  # by partition and its number there
        self._condemned: set[tuple[int, int]] = set()  # partition, position
        self._read_letters(partitions)
        self.bench = Bench(fleet, self._codebook, engine.catalog.layout, 0, self._letters.values())
        self.entries = list(self._entries())
        self.cut = any(engine.view(number).inbox_first() > 0 for number in partitions)

    # Reading.

    def _read_letters(self, partitions: list[int]) -> None:
        """The agent's letters, numbered anew, since those of two partitions have equal numbers.

        A partition begins with those that waited in the one before. Their positions are of there.
        """
        inherited = 0
        for number in partitions:
            letters = [
                (letter, redriven)
                for letter, redriven in self._engine.view(number).letters()
                if (letter.agent, letter.key) == (self.agent, self.key)
            ]
            for letter, _ in letters:
                new = letter._replace(id=len(self._letters) + 1)
                self._letters[number, letter.id] = new
            own = [letter for letter, _ in letters[inherited:]]
            self._condemned |= {(number, x.position) for x in own if x.error == CONDEMNED}
            inherited = sum(not redriven for _, redriven in letters)

    def _entries(self) -> Iterator[Entry]:
        for taken in inputs_of(self._engine, self.agent, self.key):
            if isinstance(taken, Rang):
                yield taken
                continue
            inputs = read_inputs(taken.stored, self._codebook)
            if inputs.commands is not None and taken.before is None:
                commands = [self._renumbered(taken.partition, each) for each in inputs.commands]
                inputs = inputs.with_commands(commands)
            for i in taken.rows:
                yield Row(taken.partition, inputs.part(i, i + 1))

    def _renumbered(self, partition: int, command: list[object]) -> list[object]:
        if command[0] != "redrive":
            return command
        letter = self._letters.get((partition, int(str(command[1]))))
        return ["redrive", 0 if letter is None else letter.id]

    # Folding.

    @property
    def record(self) -> Record | None:
        return self.bench.records.get((self.agent, self.key))

    @property
    def committed(self) -> Record | None:
        view = self._engine.view(self._engine.catalog.layout.partition_of(self.key))
        return view.record(self.agent, self.key)

    def fold(self, number: int, *, in_any_case: bool = False) -> Commit | None:
        """One entry. None for a timer that today's code has not set. An event that ended its
        worker was never folded, so it is not folded here either, unless `in_any_case`."""
        entry = self.entries[number - 1]
        if isinstance(entry, Rang):
            return self._fire(entry, self.entries[number:])
        killed = (entry.partition, entry.inputs.first) in self._condemned
        condemned = CONDEMNED if killed and not in_any_case else None
        if in_lane(entry.inputs.first):  # timers that were due did not come before it
            row = entry.inputs.at(LANE + self.bench.stepper.head.urgent)
            return self.bench.step([], urgent=[row], alone=True, condemned=condemned)
        while True:
            row = entry.inputs.at(self.bench.position)
            commit = self.bench.step([row], alone=True, condemned=condemned)
            if commit.journalled is None:
                return commit

    def _fire(self, rang: Rang, later: list[Entry]) -> Commit | None:
        if rang.name == TOLD_NAME:
            place = (self.bench.position, self.agent, self.key, rang.name, rang.due, rang.now)
            commit = self.bench.repeat(Firing(*place, rang.event, None))
            return commit if commit.journalled is not None else None
        timer = self.bench.timers(self.agent, self.key).get(rang.name)
        stamp = self._stamp_at(rang)
        if timer is not None and timer.period and self._in_front(rang, stamp, later):
            # Before a waiting input it fires when it was due, and skips what passed until then.
            empty = Inputs(self.bench.position, stamp, "external", [], None, [], [])
            commit = self.bench.step([empty], alone=True)
        else:
            commit = self.bench.step([], rang.now, alone=True)
        return commit if commit.journalled is not None else None

    def _in_front(self, rang: Rang, stamp: float, later: list[Entry]) -> bool:
        """Of an input of this stamp, by when it fired and by what it skipped. What is urgent and
        came later may have been folded before it, and time does not go back behind that."""
        following = (
            each.due for each in later if isinstance(each, Rang) and each.name == rang.name
        )
        at_once = rang.now == max(rang.due, self.bench.stepper.head.now)
        return at_once and rang.due <= stamp < next(following, inf)

    def _stamp_at(self, rang: Rang) -> float:
        """Of the input that it came before; 0 if that is not there, or is past retention."""
        view = self._engine.view(rang.partition)
        frames = view.frames(rang.position, 1) if rang.position < view.head().position else []
        return frames[0].stamp if frames and frames[0].first <= rang.position else 0.0

    # The entry to look at.

    def event_of(self, number: int) -> Event | None:
        entry = self.entries[number - 1]
        if isinstance(entry, Row):
            return None if entry.inputs.commands is not None else entry.inputs.events[0]
        if entry.event is None:
            return None
        schema, row = entry.event
        return cast(Event, self._codebook.reader_of(schema).row(row))

    def handler_of(self, number: int) -> Handler | None:
        """The one that takes the entry in the state that the agent has now."""
        event = self.event_of(number)
        return None if event is None else self.bench.choose(self.agent, self.record, event)
