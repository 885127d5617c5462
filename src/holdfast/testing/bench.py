"""A partition without an engine: the real stepper, with lists and dictionaries around it.

The harness, the check and the debugger stand on it. Frames are encoded and decoded on the way in,
as they would be through an inbox. Nothing is stored, and time is what the caller says it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from holdfast.model.agent import Agent
from holdfast.model.calls import digest_of
from holdfast.model.effects import Timer
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import Handler
from holdfast.model.keys import Layout
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Commit, Head, Letter, Record
from holdfast.stepping.fates import Fates
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import Inputs, StoredFrame, event_frame, read_inputs, reply_frame
from holdfast.stepping.script import Firing
from holdfast.stepping.stepper import Stepper

Row = tuple[type[Agent], str, Event]


class Taken(NamedTuple):
    """One input that a step took. `event` is None for an expiry or an operator's command."""

    origin: str
    agent: str
    key: str
    event: Event | None
    handler: Handler | None  # the one its state chose

    def __str__(self) -> str:
        what = self.origin if self.event is None else repr(self.event)
        return f"{self.agent}/{self.key}, {what}"


class Bench:
    """One stepper, stepped by hand, and the records it has committed."""

    def __init__(
        self,
        fleet: FleetModel,
        codebook: Codebook | None = None,
        layout: Layout | None = None,
        first: int = 0,
        letters: Iterable[Letter] = (),
    ) -> None:
        self.fleet = fleet
        self.codebook = codebook or codebook_of(fleet)
        self.records: dict[tuple[str, str], Record] = {}
        self._before: dict[tuple[str, str], Record | None] = {}  # of what the last step changed
        self._letters = {letter.id: letter for letter in letters}
        self._redriven: set[int] = set()
        self._fates = Fates()
        self.stepper = Stepper(
            fleet, layout or Layout.even(1), self.codebook, self._letter, self._fates.of
        )
        following = max(self._letters, default=0) + 1
        self.stepper.load(Head(position=first, letters_next=following), {}, [])

    def _letter(self, number: int) -> Letter | None:
        return None if number in self._redriven else self._letters.get(number)

    @property
    def position(self) -> int:
        return self.stepper.head.position

    @property
    def taken(self) -> int:
        """How many inputs were taken, timers and expiries among them."""
        return self.stepper.head.position + self.stepper.head.journal_next

    # Inputs.

    def frame(
        self, rows: Sequence[Row], *, event_time: float | None = None, asks: bool = False
    ) -> Frame:
        """Events from outside."""
        agents, keys, events = zip(*rows, strict=True)
        return event_frame(
            [agent.__name__ for agent in agents],
            keys,
            events,
            self.codebook,
            source="bench",
            seqs=range(self.position + 1, self.position + 1 + len(rows)),
            event_times=None if event_time is None else [event_time] * len(rows),
            asks=asks,
        )

    def reply(self, call: Call, event: Event) -> Frame:
        """The answer to a call, as whoever runs calls appends it."""
        digest = digest_of(call.function, call.arguments)
        place = (call.agent, call.key, call.id, call.function)
        return reply_frame(*place, digest, event, self.codebook)

    def read(self, frame: bytes, stamp: float) -> Inputs:
        """A frame as the next input, decoded as it would be from an inbox."""
        count = Frame.decode(frame).count
        return read_inputs(StoredFrame(self.position, count, stamp, frame), self.codebook)

    def place(self, record: Record) -> None:
        """An agent that is there from the beginning."""
        self.stepper.load(self.stepper.head, self.stepper.sent_next, [record])
        self.records[record.agent, record.key] = record

    # Stepping.

    def step(
        self,
        batch: Sequence[Inputs],
        clock: float | None = None,
        *,
        urgent: Sequence[Inputs] = (),
        alone: bool = False,
        condemned: str | None = None,
    ) -> Commit:
        step = self.stepper.step
        return self._keep(step(batch, clock, urgent=urgent, alone=alone, condemned=condemned))

    def repeat(self, firing: Firing) -> Commit:
        """Something that came from no inbox, as it was journalled."""
        return self._keep(self.stepper.repeat([], [firing]))

    def _keep(self, commit: Commit) -> Commit:
        self._before = {}
        for record in commit.changed:
            at = (record.agent, record.key)
            self._before[at] = self.records.pop(at, None)
            if not record.gone:
                self.records[at] = record
        self._letters.update({letter.id: letter for letter in commit.letters})
        self._redriven.update(commit.redriven)
        self._fates.add(commit.fates)
        return commit

    def step_to_end(self, batch: Sequence[Inputs]) -> Iterator[Commit]:
        """All of a batch; in more than one commit if very many timers are due."""
        end = batch[-1].first + len(batch[-1])
        while self.position < end:
            rest = [each for each in batch if each.first + len(each) > self.position]
            done = self.position - rest[0].first
            yield self.step([rest[0].part(done, len(rest[0])), *rest[1:]])

    def one_by_one(self, inputs: Inputs) -> Iterator[tuple[Commit, Taken]]:
        """One input per commit, each folded carefully; timers that are due come before."""
        end = inputs.first + len(inputs)
        while self.position < end:
            row = self.position - inputs.first
            commit = self.step([inputs.part(row, len(inputs))], alone=True)
            if commit.journalled is not None:
                yield commit, self.fired(commit)[0]
            else:
                event = None if inputs.commands is not None else inputs.events[row]
                agent, key = inputs.agents[row], inputs.keys[row]
                yield commit, self._taken(inputs.origin, agent, key, event)

    # What a step took and left.

    def fired(self, commit: Commit) -> list[Taken]:
        """The timers and expiries of a commit."""
        if commit.journalled is None:
            return []
        frame = Frame.decode(commit.journalled.frame)
        columns = [cast(list[object], frame.values(name)) for name in ("agent", "key", "event")]
        found = []
        for agent, key, pair in zip(*columns, strict=True):
            event = None
            if pair is not None:
                schema, row = cast(tuple[int, bytes], pair)
                event = cast(Event, self.codebook.reader_of(schema).row(row))
            origin = "expiry" if event is None else "timer"
            found.append(self._taken(origin, str(agent), str(key), event))
        return found

    def _taken(self, origin: str, agent: str, key: str, event: Event | None) -> Taken:
        before = self._before.get((agent, key), self.records.get((agent, key)))
        handler = None if event is None else self.choose(agent, before, event)
        return Taken(origin, agent, key, event, handler)

    def choose(self, agent: str, record: Record | None, event: Event) -> Handler | None:
        """The handler that an agent in this state has for the event."""
        route = self.stepper.kinds[agent].routes.get(type(event))
        if route is None:
            return None
        try:
            function = route.choose(self.agent_of(agent, record), event)
        except Exception:
            return None  # a guard that raises: the event fails, no handler has it
        return next((each for each in route.handlers if each.function is function), None)

    def agent_of(self, agent: str, record: Record | None) -> Agent:
        """A copy of the agent as it was committed, or a new one."""
        if record is None:
            return self.stepper.kinds[agent].cls()
        return cast(Agent, self.codebook.reader_of(record.schema).row(record.state))

    def timers(self, agent: str, key: str) -> dict[str, Timer]:
        cell = self.stepper.kinds[agent].cells.get(key)
        return dict(cell.extras.timers) if cell is not None and cell.extras is not None else {}
