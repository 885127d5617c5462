"""The reference fold: what docs/agents.md promises, one input at a time, as plainly as possible.

No batches, no fast path, no agenda, no rewinding: an event runs on a copy of its agent, which takes
the agent's place if all went well. It calls the user's handlers and shares with the product only
the model (classes, schemas, random numbers, keys); nothing of the stepper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import UsageError
from holdfast.model.effects import LogLine
from holdfast.model.event import Event
from holdfast.model.fates import ActionExpired, GroundStop, GroundStopLifted
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.decoding import Input, Release, Unreadable
from holdfast.testing.simulation.plainagent import PlainAgent, Waiting, as_read_by, handler_for
from holdfast.testing.simulation.plaincontext import (
    Emitted,
    Message,
    PlainCall,
    PlainContext,
    copied,
    untouched,
)
from holdfast.testing.simulation.plainfates import (
    KINDS,
    STOPS,
    PlainFate,
    PlainFates,
    PlainGround,
    awaits,
    handles,
)

HELD_MAX = 10_000
ERROR_LENGTH_MAX = 2_000
PAUSE_LENGTH_MAX = 500

Name = tuple[str, str]  # class and key of an agent


class Reason(NamedTuple):
    """Why an event failed. Our own words for the product's refusals need not be its words."""

    text: str
    exact: bool = True

    def is_told_by(self, text: str) -> bool:
        return text == self.text if self.exact else text.startswith(self.text)


class PlainLetter(NamedTuple):
    id: int
    now: float
    agent: str
    key: str
    input: Waiting
    release: Release
    reason: Reason


class PlainAnswer(NamedTuple):
    position: int
    now: float
    status: str
    reply: Event | None


@dataclass
class Outputs:
    """What came out since the last commit."""

    actions: list[Emitted] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    letters: list[PlainLetter] = field(default_factory=list)
    answers: list[PlainAnswer] = field(default_factory=list)
    redriven: list[int] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    calls: list[PlainCall] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    fates: list[PlainFate] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what no fold may do
    touched: dict[Name, None] = field(default_factory=dict)


class Reference:
    """One partition, folded plainly."""

    def __init__(self, fleet: str, now: float = 0.0) -> None:
        self.fleet = fleet
        self.now = now
        self.position = 0
        self.urgent = 0  # so many of the lane are folded
        self.release: Release
        self.agents: dict[Name, PlainAgent] = {}
        self.letters: dict[int, PlainLetter] = {}  # those that wait
        self.letters_next = 1
        self.outputs = Outputs()
        self.fates = PlainFates()
        self.ground = PlainGround()
        self.condemned: str | None = None  # why the next event may not run at all
        self._dues: dict[Name, float] = {}
        self._earliest: float | None = None

    def adopt(self, agents: Iterable[PlainAgent], letters: Iterable[PlainLetter]) -> None:
        """What a partition is born with, after a rescale."""
        for agent in agents:
            self._put(agent)
        for letter in letters:
            self.letters[letter.id] = letter
            self.letters_next = letter.id + 1
        self.take_outputs()

    def take_outputs(self) -> Outputs:
        taken, self.outputs = self.outputs, Outputs()
        return taken

    # Agents.

    def _agent(self, name: Name) -> PlainAgent:
        """The agent, or a new one with its defaults, which is not known to anybody yet."""
        found = self.agents.get(name)
        if found is not None:
            return found.read_by(self.release)
        cls = self.release.agents.get(name[0])
        if cls is None:
            raise Unreadable(f"release {self.release.number} has no agent {name[0]}")
        mortal = cls.__holdfast__.expire_after is not None
        # An agent born again must not give out old ids: it counts on from the clock.
        born = int(self.now * 1e6) if mortal else 0
        return PlainAgent(*name, self.release, cls(), born)

    def _put(self, agent: PlainAgent) -> None:
        name = agent.name, agent.key
        self.agents[name] = agent
        self.outputs.touched[name] = None
        due = agent.next_due
        if due is not None:
            self._dues[name] = due
        else:
            self._dues.pop(name, None)
        self._earliest = None

    @property
    def earliest(self) -> float:
        """When the next timer or expiry is due, of all agents."""
        if self._earliest is None:
            self._earliest = min(self._dues.values(), default=float("inf"))
        return self._earliest

    def overdue(self, until: float) -> list[Name]:
        return [name for name, due in self._dues.items() if due <= until]

    # Inputs.

    def take(self, one: Input) -> None:
        self.now = max(self.now, one.stamp)
        self.position = one.position
        name = one.agent, one.key
        if one.command is not None and one.command[0] in STOPS:
            self._stop(one.command)
        elif one.command is not None:
            self._command(name, one.command)
        else:
            event = self.release.read(one.raw)
            ask = one.position if one.asks else -1
            agent = self._agent(name)
            if one.answers is None or self._is_answered(agent, one.answers, event):
                waiting = Waiting(event, one.position, one.event_time, one.sender, one.hops, ask)
                self._deliver(agent, waiting)
        self.position = one.position + 1

    def overtake(self, one: Input) -> None:
        """An event of the lane: it is folded now, and the inbox goes on where it was."""
        position = self.position
        self.take(one)
        self.position, self.urgent = position, one.position - LANE + 1

    def _is_answered(self, agent: PlainAgent, said: tuple[str, str, str], event: Event) -> bool:
        """A reply is taken while its call is open, which it then is no more."""
        call = agent.calls.get(said[0])
        if call is None or said != (call.id, call.function, call.digest):
            return False
        if type(event).__name__ not in (call.reply, "CallFailed"):
            return False
        agent.calls = {each: other for each, other in agent.calls.items() if each != call.id}
        self.outputs.closed.append(call.id)
        self._put(agent)
        return True

    @property
    def open_calls(self) -> list[PlainCall]:
        return [call for agent in self.agents.values() for call in agent.calls.values()]

    def fire(self, name: Name, timer_name: str, now: float, next_due: float) -> None:
        """A timer: it is used up, or put to `next_due` if it is periodic, and its event comes."""
        agent = self._agent(name)
        self.now = now
        timer = agent.timers[timer_name]
        agent.timers = {each: other for each, other in agent.timers.items() if each != timer_name}
        if timer.period:
            agent.timers[timer_name] = timer._replace(due=next_due)
        if isinstance(timer.event, ActionExpired) and timer_name.startswith("~expires/"):
            gone = timer.event
            self._note(PlainFate(gone.action, agent.key, now, "", "expired", "", gone.name))
        self._put(agent)
        self._deliver(agent, Waiting(timer.event, self.position, timer.due, None, 0, -1))

    def expire(self, name: Name, now: float) -> None:
        self.now = now
        del self.agents[name]
        del self._dues[name]
        self._earliest = None
        self.outputs.touched[name] = None

    def _deliver(self, agent: PlainAgent, one: Waiting) -> None:
        if agent.paused:
            self._hold(agent, one)
            return
        mode = agent.mode
        agent = self._run(agent, one)
        if agent.state.__holdfast__.unhandled == "defer" and agent.mode != mode:
            self._offer_again(agent)

    def _run(self, agent: PlainAgent, one: Waiting) -> PlainAgent:
        """One event on a copy. The agent as it is after it, which is the old one if it failed."""
        if self.condemned is not None:
            reason, self.condemned = Reason(self.condemned), None
            self._failed(agent, one, reason)
            return agent
        trial = agent.copy()
        event = untouched(one.event)
        ground = self.ground.reason
        context = PlainContext(self.fleet, self.release.agents, trial, self.now, one, ground)
        try:
            handler = handler_for(trial, event)
            if handler is None:
                self._unhandled(agent, one)
                return agent
            trial.version += 1
            trial.updated = self.now
            handler(trial.state, event, context)  # type: ignore[arg-type]
            trial.state = copied(trial.state)
            if context.misfit is not None:
                raise context.misfit
        except MemoryError:
            raise
        except UsageError:
            self._failed(agent, one, Reason("UsageError: ", exact=False))
            return agent
        except (Exception, SystemExit) as error:
            self._failed(agent, one, Reason(f"{type(error).__name__}: {error}"[:ERROR_LENGTH_MAX]))
            return agent
        self._put(trial)
        self._emit(context.actions)
        self.outputs.messages += context.messages
        self.outputs.calls += context.calls
        self.outputs.logs += context.logs
        if one.ask >= 0:
            reply = context.replies[0] if context.replies else None
            self._answer(one, "silent" if reply is None else "reply", reply)
        return trial

    def _answer(self, one: Waiting, status: str, reply: Event | None = None) -> None:
        if one.ask >= 0:
            self.outputs.answers.append(PlainAnswer(one.ask, self.now, status, reply))

    # What becomes of events that are not taken.

    def _unhandled(self, agent: PlainAgent, one: Waiting) -> None:
        policy = agent.state.__holdfast__.unhandled
        if policy == "defer":
            self._hold(agent, one)
        elif policy == "dead-letter":
            text = f"no handler of {agent.name} takes {type(one.event).__name__} now"
            self._bury(agent, one, Reason(text))
        else:
            self._answer(one, "silent")

    def _hold(self, agent: PlainAgent, one: Waiting) -> None:
        if len(agent.held) >= HELD_MAX:
            self._bury(agent, one, Reason("", exact=False))
        else:
            agent.held = [*agent.held, one]
            self._put(agent)

    def _failed(self, agent: PlainAgent, one: Waiting, reason: Reason) -> None:
        if agent.state.__holdfast__.on_error == "pause":
            agent.paused = reason.text[:PAUSE_LENGTH_MAX]
            agent.held = [one, *agent.held]
            self._put(agent)
        else:
            self._bury(agent, one, reason)

    def _bury(self, agent: PlainAgent, one: Waiting, reason: Reason) -> None:
        letter = PlainLetter(
            self.letters_next, self.now, agent.name, agent.key, one, self.release, reason
        )
        self.letters_next += 1
        self.letters[letter.id] = letter
        self.outputs.letters.append(letter)
        self._answer(one, "failed")

    def _offer_again(self, agent: PlainAgent) -> None:
        """Held events in order; after a change of mode, those deferred before come first again."""
        waiting, agent.held = agent.held, []
        while waiting:
            one, *waiting = waiting
            mode = agent.mode
            agent = self._run(agent, one)
            if agent.paused:
                agent.held, waiting = [*agent.held, *waiting], []
            elif agent.mode != mode:
                waiting, agent.held = [*agent.held, *waiting], []
        self._put(agent)

    # An operator's commands.

    def _command(self, name: Name, command: list[object]) -> None:
        agent = self._agent(name)
        if command[0] == "pause":
            agent.paused = str(command[1]) or "by an operator"
            self._put(agent)
        elif command[0] == "resume" and agent.paused:
            agent.paused, self.condemned = self.condemned or "", None
            self._put(agent)
            if not agent.paused:
                self._offer_again(agent)
        elif command[0] == "redrive":
            self._redrive(agent, int(str(command[1])))
        elif command[0] in KINDS:
            self._settle(agent, command)

    def _settle(self, agent: PlainAgent, command: list[object]) -> None:
        told = self.fates.told(self.fleet, agent, command, self.now, self.release)
        if told is None:
            return
        fate, event = told
        self._note(fate)
        if event is None:
            return
        version, number = fate.id.split("/")[3:5]
        timer = f"~expires/{version}/{number}"
        if timer in agent.timers:
            agent.timers = {each: one for each, one in agent.timers.items() if each != timer}
            self._put(agent)
        if handles(type(agent.state), type(event)):
            self._deliver(agent, Waiting(event, self.position, self.now, None, 0, -1))

    def _note(self, fate: PlainFate) -> None:
        self.fates.add(fate)
        self.outputs.fates.append(fate)

    def _emit(self, actions: list[Emitted]) -> None:
        for one in actions:
            made, name = (one.id, one.key, one.now), type(one.action).__name__
            if one.withheld is not None:
                why, by = one.withheld
                self._note(PlainFate(*made, why, "withheld", by, name))
                continue
            self.outputs.actions.append(one)
            if awaits(self.release.agents[one.agent]):
                self._note(PlainFate(*made, "", "issued", "", name))

    # Ground stops.

    def _stop(self, command: list[object]) -> None:
        event = GroundStop if STOPS[str(command[0])] else GroundStopLifted
        wanted = {n for n in self.agents if handles(self.release.agents[n[0]], event)}
        wrong = self.ground.take(command, wanted)
        self.outputs.wrong += [wrong] if wrong else []

    def tell(self, name: Name, event: Event, now: float) -> None:
        """One agent is told of a ground stop, in front of the command."""
        self.now = now
        wrong = self.ground.hear(event, name)
        self.outputs.wrong += [f"{name}: {wrong}"] if wrong else []
        self._deliver(self._agent(name), Waiting(event, self.position, now, None, 0, -1))

    def _redrive(self, agent: PlainAgent, letter_id: int) -> None:
        letter = self.letters.pop(letter_id, None)
        if letter is None:
            return  # a letter comes back once
        self.outputs.redriven.append(letter_id)
        event = as_read_by(self.release, letter.input.event)
        self._deliver(agent, letter.input._replace(event=event, position=self.position, ask=-1))
