"""`Harness`: agents under test, without an engine, threads or a disk, in a time the test sets.

Events go through the real stepper, one after the other; messages between agents are delivered
until all is quiet, and timers fire when the test lets time pass. Calls are not run: the test looks
at them and answers. Everything that happened can be looked at afterwards. How the harness itself
folds is in `bench`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

import msgspec

from holdfast.errors import AskFailed, UsageError
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed, CallFunction, pack_arguments
from holdfast.model.effects import LogLine, Timer
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import check_key
from holdfast.runtime.reading import DeadLetter, IssuedAction
from holdfast.stepping.actionids import action_id, read_action_id
from holdfast.stepping.commit import Call, Commit, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.grounding import command_of
from holdfast.stepping.inputs import FLEET_WIDE, control_frame
from holdfast.stepping.rows import read_payload
from holdfast.testing.bench import Bench
from holdfast.testing.expectations import list_difference, state_difference
from holdfast.testing.pictures import Painter, Picture, difference

_A = TypeVar("_A", bound=Agent)
_unpack = msgspec.msgpack.Decoder(list[object]).decode


class Message(NamedTuple):
    """An event on its way from one agent to another; agents are written as in Drone/d-1."""

    sender: str
    receiver: str
    event: Event


class MadeCall(NamedTuple):
    """A call that an agent made; the agent is written as in Drone/d-1. `arguments` are as stored:
    an event is a list of its values."""

    caller: str
    id: str
    function: CallFunction
    arguments: tuple[object, ...]
    reply: str


class Harness:
    """Agents in a time of their own, which begins at `now`. Made from a fleet or agent classes."""

    def __init__(
        self, fleet: FleetModel | type[Agent], *agents: type[Agent], now: float = 0.0
    ) -> None:
        if not isinstance(fleet, FleetModel):
            fleet = FleetModel("test", agents=[fleet, *agents])
        elif agents:
            raise UsageError("a Harness takes a fleet or agent classes, not both")
        self.fleet = fleet
        self.now = now
        self.logs: list[LogLine] = []
        self.issued: list[IssuedAction] = []
        self.messages: list[Message] = []
        self.calls: list[MadeCall] = []
        self._open: dict[str, Call] = {}
        self._letters: list[DeadLetter] = []
        self._letters_seen = 0
        self._bench = Bench(fleet)
        self._painter = Painter(self._bench.codebook)
        self._picture = Picture()
        self._steps: list[Record | tuple[bytes, float] | float] = []  # all that was done, in order

    # Given.

    def given(self, agent: type[Agent], key: str, **fields: object) -> None:
        """Let an agent begin in this state instead of its defaults."""
        name = self._check(agent, key)
        if (name, key) in self._bench.records:
            raise UsageError(
                f"{name}/{key} is there already: give its state before its first event"
            )
        try:
            state = agent(**fields)
        except TypeError as error:
            raise UsageError(f"{name} cannot be made of these fields: {error}") from None
        codebook = self._bench.codebook
        codebook.pack([state], agent)  # refuses wrong types
        schema, packed = codebook.id_of(agent), codebook.pack_one(state)
        record = Record(name, key, 0, schema, packed, b"", self.now)
        self._bench.place(record)
        self._steps.append(record)

    # When.

    def send(
        self, agent: type[Agent], key: str, *events: Event, event_time: float | None = None
    ) -> None:
        """Deliver events, one after the other, each with the messages that follow from it."""
        self._check(agent, key)
        for event in events:
            self._check_event(event)
            frame = self._bench.frame([(agent, key, event)], event_time=event_time)
            self._deliver(frame.encode())

    def when(self, agent: type[Agent], key: str, *events: Event) -> None:
        """Forget the outputs so far, then `send`: what is expected next follows from these."""
        self.issued, self.messages, self.calls, self.logs = [], [], [], []
        self.send(agent, key, *events)

    def ask(self, agent: type[Agent], key: str, event: Event) -> Event:
        """Send, and give back what the handler gave to `ctx.reply`."""
        self._check(agent, key)
        self._check_event(event)
        frame = self._bench.frame([(agent, key, event)], asks=True)
        answers = self._deliver(frame.encode()).answers
        if not answers:
            raise AskFailed(f"{agent.__name__}/{key} holds {event!r} back: no answer yet")
        if answers[0].status != "reply":
            raise AskFailed(f"{agent.__name__}/{key}: {answers[0].text}")
        return cast(Event, self._bench.codebook.reader_of(answers[0].schema).row(answers[0].row))

    def answer(self, call: MadeCall | str, event: Event) -> None:
        """Let a call, or the one of that id, end in this event: its reply, or `CallFailed`."""
        call_id = call if isinstance(call, str) else call.id
        found = self._open.get(call_id)
        if found is None:
            known = ", ".join(self._open) or "none"
            raise UsageError(f"no open call {call_id!r}: open are {known}")
        self._check_event(event)
        if type(event).__name__ not in (found.reply, CallFailed.__name__):
            raise UsageError(
                f"{found.function} was called with reply={found.reply}: give one, or CallFailed"
            )
        self._deliver(self._bench.reply(found, event).encode())

    def fail(self, call: MadeCall | str, reason: str = "error", error: str = "by a test") -> None:
        """Let a call fail for good, as after its last attempt."""
        call_id = call if isinstance(call, str) else call.id
        found = self._open.get(call_id)
        function, attempts = ("", 0) if found is None else (found.function, found.retries + 1)
        self.answer(call, CallFailed(call_id, function, reason, error, attempts))

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire on the way, each at the moment it is due."""
        self.at(self.now + seconds)

    def at(self, time: float) -> None:
        """Let time pass until then."""
        if not time >= self.now:
            raise UsageError(f"time does not go back: it is {self.now:g}, not yet {time:g}")
        agenda = self._bench.stepper.agenda
        while (due := agenda.next_due) is not None and due <= time:
            self.now = max(self.now, due)
            self._steps.append(self.now)
            self._settle(self._bench.step([], self.now))
        self.now = time

    def pause(self, agent: type[Agent], key: str, reason: str = "by a test") -> None:
        self._command(agent, key, ["pause", reason])

    def resume(self, agent: type[Agent], key: str) -> None:
        """Let a paused agent go on, with what it holds first."""
        self._command(agent, key, ["resume"])

    def acknowledge(self, issued: IssuedAction | str, *, by: str = "a test") -> None:
        """Let an action, or the one of that id, be carried out."""
        self._settled("acknowledge", issued, by, "")

    def fail_action(
        self, issued: IssuedAction | str, why: str = "by a test", *, by: str = "a test"
    ) -> None:
        """Let an action fail. (`fail` is for calls.)"""
        self._settled("fail", issued, by, why)

    def _settled(self, verb: str, issued: IssuedAction | str, by: str, why: str) -> None:
        id = issued if isinstance(issued, str) else issued.id
        name = read_action_id(id)
        if name is None or name.agent not in self.fleet.agents:
            raise UsageError(f"no action {id!r} of this harness: `issued` has them")
        frame = control_frame(name.agent, name.key, [verb, id, by, why])
        self._deliver(frame.encode())

    def ground_stop(self, why: str = "by a test", *, by: str = "a test") -> None:
        """Actions that are not declared for it are withheld from now on; agents are told."""
        self._deliver(control_frame(FLEET_WIDE, "all", command_of(True, why, by)).encode())

    def lift_ground_stop(self, why: str = "by a test", *, by: str = "a test") -> None:
        self._deliver(control_frame(FLEET_WIDE, "all", command_of(False, why, by)).encode())

    def _command(self, agent: type[Agent], key: str, command: Sequence[object]) -> None:
        self._deliver(control_frame(self._check(agent, key), key, command).encode())

    # Then.

    def state(self, agent: type[_A], key: str) -> _A | None:
        """A copy of the state, or None for an agent that no event has made yet."""
        record = self._bench.records.get((self._check(agent, key), key))
        return None if record is None else cast(_A, self._bench.agent_of(agent.__name__, record))

    def timers(self, agent: type[Agent], key: str) -> dict[str, Timer]:
        """What will fire, by name: when it is due, which event, and the period."""
        return self._bench.timers(self._check(agent, key), key)

    @property
    def actions(self) -> list[Action]:
        """The actions alone; `issued` has them with agent, key and id."""
        return [cast(Action, each.action) for each in self.issued]

    def take_actions(self) -> list[Action]:
        """The actions so far, and forget them."""
        found, self.issued = self.actions, []
        return found

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Events that failed. `verify` complains about those that nobody has looked at."""
        self._letters_seen = len(self._letters)
        return list(self._letters)

    def expect(self, agent: type[Agent], key: str, **fields: object) -> None:
        """These fields of the state have these values; other fields may have any."""
        name = self._check(agent, key)
        state = self.state(agent, key)
        wrong = state_difference(state, fields)
        if wrong:
            raise AssertionError(
                f"{name}/{key} at {self.now:g} s is not as expected:\n{wrong}{self._failures()}"
            )

    def expect_actions(self, *actions: Action) -> None:
        """Exactly these, in this order, since the last `when` or `take_actions`."""
        if self.actions != list(actions):
            wrong = list_difference(actions, self.actions)
            raise AssertionError(f"the actions are not as expected:\n{wrong}{self._failures()}")

    def expect_messages(self, *messages: tuple[type[Agent], str, Event]) -> None:
        """Exactly these (receiver, its key, event), in this order, since the last `when`."""
        wanted = [(f"{agent.__name__}/{key}", event) for agent, key, event in messages]
        found = [(each.receiver, each.event) for each in self.messages]
        if found != wanted:
            wrong = list_difference(wanted, found)
            raise AssertionError(f"the messages are not as expected:\n{wrong}{self._failures()}")

    def expect_calls(self, *calls: tuple[CallFunction, *tuple[object, ...]]) -> None:
        """Exactly these (function, its arguments …), in this order, since the last `when`."""
        wanted = [(f.__name__, *_stored(f.__name__, given)) for f, *given in calls]
        found = [(each.function.__name__, *each.arguments) for each in self.calls]
        if found != wanted:
            wrong = list_difference(wanted, found)
            raise AssertionError(f"the calls are not as expected:\n{wrong}{self._failures()}")

    def verify(self) -> None:
        """Fold everything again, with care and one by one: equal results, and no dead letter that
        nobody looked at. The fixture calls it after every test."""
        again = self._again()
        found = difference(self._picture, again)
        if found is not None:
            raise AssertionError(
                f"folded again, {found.agent} differs in {found.what}: {found.values[0]!r}, then "
                f"{found.values[1]!r}; handlers must be deterministic, see `holdfast check`"
            )
        if self._letters_seen < len(self._letters):
            raise AssertionError(
                "an event failed and the test did not look at `dead_letters`:" + self._failures()
            )

    def _again(self) -> Picture:
        bench, picture = Bench(self.fleet, self._bench.codebook), Picture()
        for step in self._steps:
            if isinstance(step, Record):
                bench.place(step)
            elif isinstance(step, tuple):
                for commit, _ in bench.one_by_one(bench.read(*step)):
                    picture.add(self._painter.picture(commit))
            else:
                agenda = bench.stepper.agenda
                while agenda.next_due is not None and agenda.next_due <= step:
                    picture.add(self._painter.picture(bench.step([], step, alone=True)))
        return picture

    # Folding.

    def _deliver(self, frame: bytes) -> Commit:
        self._steps.append((frame, self.now))
        commit = self._bench.step([self._bench.read(frame, self.now)])
        self._settle(commit)
        return commit

    def _settle(self, commit: Commit) -> None:
        """Keep what the commit brought, then deliver its messages, until there are none."""
        self._keep(commit)
        for out in commit.outgoing:
            self._deliver(out.frame)

    def _keep(self, commit: Commit) -> None:
        self._picture.add(self._painter.picture(commit))
        self.logs += commit.logs
        self._letters += [self._dead_letter(letter) for letter in commit.letters]
        for call in commit.calls:
            self._open[call.id] = call
            function = self.fleet.calls[call.function]
            arguments = tuple(_unpack(call.arguments))
            who = f"{call.agent}/{call.key}"
            self.calls.append(MadeCall(who, call.id, function, arguments, call.reply))
        for call_id in commit.closed:
            del self._open[call_id]
        if commit.issued is not None:
            self.issued += self._issued(Frame.decode(commit.issued.frame))
        for out in commit.outgoing:
            self.messages += self._sent(Frame.decode(out.frame))

    def _issued(self, frame: Frame) -> list[IssuedAction]:
        names = ("agent", "key", "version", "index", "now")
        columns = [cast("list[object]", frame.values(name)) for name in names]
        actions = read_payload(frame, self._bench.codebook)
        found = []
        for (agent, key, version, index, now), action in zip(
            zip(*columns, strict=True), actions, strict=True
        ):
            place = (str(agent), str(key))
            identity = action_id(self.fleet.name, *place, cast(int, version), cast(int, index))
            moment, definition = cast(float, now), type(cast(Action, action)).__holdfast__
            expires = None if definition.expires is None else moment + definition.expires
            found.append(
                IssuedAction(*place, action, identity, moment, expires, definition.priority)
            )
        return found

    def _sent(self, frame: Frame) -> list[Message]:
        names = ("from_agent", "from_key", "agent", "key")
        columns = [cast("list[str]", frame.values(name)) for name in names]
        events = cast("list[Event]", read_payload(frame, self._bench.codebook))
        return [
            Message(f"{from_agent}/{from_key}", f"{agent}/{key}", event)
            for from_agent, from_key, agent, key, event in zip(*columns, events, strict=True)
        ]

    def _dead_letter(self, letter: Letter) -> DeadLetter:
        event = self._bench.codebook.reader_of(letter.schema).row(letter.row)
        return DeadLetter(
            id=f"0.{letter.id}",
            agent=letter.agent,
            key=letter.key,
            event=event,
            error=letter.error,
            trace=letter.trace,
            now=letter.now,
            redriven=False,
        )

    def _failures(self) -> str:
        """Dead letters, for the message of an assertion: often they are why."""
        return "".join(
            f"\n  {each.agent}/{each.key} failed on {each.event!r}: {each.error}\n"
            + "".join(f"    {line}\n" for line in each.trace.rstrip().splitlines()[-3:])
            for each in self._letters
        ).rstrip()

    # What a test may get wrong.

    def _check(self, agent: type[Agent], key: str) -> str:
        name = getattr(agent, "__name__", str(agent))
        if agent is None or self.fleet.agents.get(name) is not agent:
            known = ", ".join(self.fleet.agents)
            raise UsageError(f"{name} is no agent of this harness: it has {known}")
        check_key(key)
        return name

    def _check_event(self, event: Event) -> None:
        if isinstance(event, type) or not isinstance(event, Event):
            raise UsageError(f"{event!r} is no event: give an instance of an Event class")
        if self.fleet.events.get(type(event).__name__) is not type(event):
            known = ", ".join(sorted(self.fleet.events))
            raise UsageError(
                f"no agent of this harness knows {type(event).__name__}: it knows {known}"
            )


def _stored(name: str, arguments: Sequence[object]) -> list[object]:
    return _unpack(pack_arguments(name, arguments))
