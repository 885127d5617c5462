"""The context: all an agent's handler may know and do beside its own state.

It records effects; it performs none. The stepper points it at one agent and one input at a time
and collects what was recorded when the event is done, or forgets it when the event failed.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.model.calls import (
    CALLS_PER_AGENT_MAX,
    CallFunction,
    check_call,
    check_patience,
    digest_of,
    pack_arguments,
)
from holdfast.model.effects import (
    Armed,
    Called,
    Effects,
    Emitted,
    LogLine,
    OpenCall,
    Sender,
    Sent,
    Subject,
    Timer,
)
from holdfast.model.event import Action, Event
from holdfast.model.fates import ActionExpired, expiry_name
from holdfast.model.keys import check_key, plain_text, shortened
from holdfast.model.rng import Random, seed_of
from holdfast.model.snapshot import as_stored, snapshot
from holdfast.model.tracing import onward

if TYPE_CHECKING:
    from holdfast.model.agent import Agent

TIMERS_PER_AGENT_MAX = 256
TIMER_NAME_LENGTH_MAX = 128
TIMER_SECONDS_MIN = 0.001  # a timer that sets itself again must not stop the clock
HOPS_MAX = 64
_INFINITE = float("inf")
_PLAIN_NUMBERS = (int, float)  # others, as numpy's, are made one of these first
_new = tuple.__new__  # makes a Timer in half of the time


class AgentLog:
    """`ctx.log`: lines appear once the event is committed, so a retried event logs once."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def debug(self, text: str) -> None:
        self._context._log("debug", text)

    def info(self, text: str) -> None:
        self._context._log("info", text)

    def warning(self, text: str) -> None:
        self._context._log("warning", text)

    def error(self, text: str) -> None:
        self._context._log("error", text)


class Context:
    """Handed to every handler. `now` is the partition's clock, `event_time` a producer's claim."""

    __slots__ = (
        "_agents",
        "_ask",
        "_effects",
        "_fleet",
        "_given",
        "_ground",
        "_held_back",
        "_hops",
        "_random",
        "_random_for",
        "_sender",
        "_serial",
        "_serial_for",
        "_subject",
        "_watched",
        "event_time",
        "log",
        "now",
    )

    now: float
    event_time: float

    def __init__(self, fleet: str, agents: frozenset[str]) -> None:
        self._fleet = fleet
        self._agents = agents
        self._effects = Effects()
        self._ground: tuple[str, str] | None = None  # why and by whom actions are withheld
        self._held_back = False  # some action, since the last commit
        self._watched: frozenset[str] = frozenset()  # agents that are told what expires
        self._sender: Sender | None = None
        self._given = ""  # the context that this event came with
        self._ask = -1
        self._hops = 0
        self._random: Random | None = None
        self._random_for: tuple[Subject, int] | None = None
        self._serial = 0
        self._serial_for: tuple[Subject, int] | None = None
        self._subject: Subject
        self.now = 0.0
        self.event_time = 0.0
        self.log = AgentLog(self)

    @property
    def key(self) -> str:
        return self._subject.key

    @property
    def sender(self) -> Sender | None:
        """The agent that sent this message; None for events from outside and timers."""
        return self._sender

    @property
    def random(self) -> Random:
        """Random numbers that are the same at every re-execution of this event."""
        subject = self._subject
        wanted = (subject, subject.version)
        if self._random is None or self._random_for != wanted:
            seed = seed_of(self._fleet, subject.agent_name, subject.key, subject.version)
            self._random, self._random_for = Random(seed), wanted
        return self._random

    def new_id(self) -> str:
        """A fresh id, the same one at every re-execution of this event."""
        subject = self._subject
        serial = self._next_serial()
        return f"{self._fleet}/{subject.agent_name}/{subject.key}/{subject.version}/id{serial}"

    def emit(self, action: Action) -> None:
        """An action to the outside. It is issued when the event's commit is durable.

        During a ground stop it is withheld, unless its class is declared for that.
        """
        if not isinstance(action, Action):
            raise UsageError(
                f"ctx.emit takes an Action, not {type(action).__name__}: "
                "ctx.send(Agent, key, event) sends an event to an agent"
            )
        subject = self._subject
        trace = self._given and self._onward()
        emitted = Emitted(subject, subject.version, snapshot(action), self.now, trace=trace)
        if self._ground is not None and not type(action).__holdfast__.during_ground_stop:
            why, by = self._ground
            emitted = emitted._replace(why=why, by=by, withheld=True)
            self._held_back = True
        self._effects.actions.append(emitted)
        if subject.agent_name in self._watched and not emitted.withheld:
            self._watch(emitted)

    def send(self, agent: type[Agent], key: str, event: Event) -> None:
        """A message to another agent (or this one): delivered once, in order per pair."""
        self._need_event("send", event)
        name = getattr(agent, "__name__", str(agent))
        if name not in self._agents:
            raise UsageError(
                f"ctx.send to {name}, which is no agent of fleet {self._fleet!r}: "
                f"add it to Fleet(agents=[…]); known are {', '.join(sorted(self._agents))}"
            )
        check_key(key)
        key = plain_text(key)
        if self._hops >= HOPS_MAX:
            raise UsageError(
                f"a message has made {HOPS_MAX} hops, the bound that ends message loops: "
                "let the agent stop answering, or continue with ctx.after"
            )
        trace = self._given and self._onward()
        self._effects.messages.append(
            Sent(self._subject, name, key, snapshot(event), self._hops + 1, self.now, trace)
        )

    def reply(self, event: Event) -> None:
        """Answer whoever asked: the agent that sent this message, or `live.ask` outside."""
        self._need_event("reply", event)
        if self._ask >= 0:
            self._effects.replies.append((self._ask, snapshot(event)))
            return
        sender = self._sender
        if sender is None:
            return  # a plain send asks for no answer
        if self._hops >= HOPS_MAX:
            raise UsageError(f"a reply after {HOPS_MAX} hops, the bound that ends message loops")
        trace = self._given and self._onward()
        sent = (sender.agent, sender.key, snapshot(event), self._hops + 1, self.now, trace)
        self._effects.messages.append(Sent(self._subject, *sent))

    def after(self, seconds: float, event: Event, name: str | None = None) -> None:
        """Send `event` to this agent in `seconds`. The same name again replaces the timer."""
        if type(name) is str and self._put_off(seconds, event, name):
            return
        self._arm(self.now + self._positive(seconds, 0.0), event, self._named(name), 0.0)

    def at(self, time: float, event: Event, name: str | None = None) -> None:
        """Send `event` to this agent when the partition's clock reaches `time`."""
        self._arm(self._positive(time, 0.0), event, self._named(name), 0.0)

    def every(self, seconds: float, event: Event, name: str | None = None) -> None:
        """Send `event` every `seconds`. Firings missed while nothing ran are one firing."""
        period = self._positive(seconds, 0.001)
        self._arm(self.now + period, event, self._named(name), period)

    def cancel(self, name: str) -> bool:
        """Forget the timer of that name. False if there was none."""
        return self._subject.timers().pop(name, None) is not None

    def call(
        self,
        function: CallFunction,
        *arguments: object,
        reply: type[Event],
        timeout: float = 30.0,
        retries: int = 2,
        backoff: float = 1.0,
    ) -> str:
        """Let `function` run outside, and get what it returns as an event: `reply`, or CallFailed.

        It may run twice. The id that is returned is the same at every re-execution of this event,
        and the function gets it as `call_id` if it has a parameter of that name. `timeout` seconds
        are for each attempt; the pause of `backoff` seconds before the next one doubles.
        """
        name = check_call(function, arguments, reply)
        check_patience(name, timeout, retries, backoff)
        packed = pack_arguments(name, arguments)
        subject = self._subject
        calls = subject.calls()
        if len(calls) >= CALLS_PER_AGENT_MAX:
            raise UsageError(
                f"{subject.agent_name}/{subject.key} has {CALLS_PER_AGENT_MAX:,} open calls, the "
                "bound: wait for replies before it calls again"
            )
        serial = self._next_serial()
        id = f"{self._fleet}/{subject.agent_name}/{subject.key}/{subject.version}/call{serial}"
        calls[id] = OpenCall(name, digest_of(name, packed), reply.__name__)
        patience = (float(timeout), int(retries), float(backoff))
        trace = self._given and self._onward()
        self._effects.calls.append(
            Called(subject, id, function, packed, reply, *patience, self.now, trace)
        )
        return id

    def _onward(self) -> str:
        """The context of what this event makes."""
        subject = self._subject
        return onward(self._given, subject.agent_name, subject.key, subject.version)

    def _watch(self, emitted: Emitted) -> None:
        """Whoever waits for what expires gets a timer, which an acknowledgement takes away."""
        expires = type(emitted.action).__holdfast__.expires
        if expires is None:
            return
        subject, version, action, *_ = emitted
        same = takewhile(lambda one: one[:2] == (subject, version), reversed(self._effects.actions))
        index = sum(1 for _ in same) - 1
        id = f"{self._fleet}/{subject.agent_name}/{subject.key}/{version}/{index}"
        event = ActionExpired(id, type(action).__name__)
        self._arm(self.now + expires, event, expiry_name(version, index), 0.0)

    def _put_off(self, seconds: float, event: Event, name: str) -> bool:
        """Whether this was a watchdog and is set anew, as telemetry does at every event: then the
        timer that is there vouches for the name and for the event, and the agenda finds it."""
        timers = self._subject.timers()
        before = timers.get(name)
        if before is None or type(event) is not type(before.event) or event.__struct_fields__:
            return False
        if type(seconds) not in _PLAIN_NUMBERS or not TIMER_SECONDS_MIN <= seconds < _INFINITE:
            return False
        due = self.now + seconds
        if due < before.due:
            return False
        timers[name] = _new(Timer, (before.name, due, before.event, 0.0))
        return True

    def _named(self, name: str | None) -> str:
        """Names that begin with ~ are ours: by them the journal tells what no user has set."""
        if name is None:
            return f"~{self._subject.version}.{self._next_serial()}"
        if not isinstance(name, str) or len(name) > TIMER_NAME_LENGTH_MAX or name[:1] == "~":
            raise UsageError(
                f"a timer named {shortened(name)}: give a string of at most "
                f"{TIMER_NAME_LENGTH_MAX} characters that does not begin with ~"
            )
        return plain_text(name)

    def _arm(self, due: float, event: Event, name: str, period: float) -> None:
        self._need_event("after", event)
        timers = self._subject.timers()
        if name not in timers and len(timers) >= TIMERS_PER_AGENT_MAX:
            raise UsageError(
                f"{self._subject.agent_name}/{self.key} has {TIMERS_PER_AGENT_MAX} timers, the "
                "bound: name them so that they replace each other, or cancel some"
            )
        earliest = self.now + TIMER_SECONDS_MIN
        due = due if due > earliest else earliest
        bare = not event.__struct_fields__
        before = timers.get(name)
        timer = timers[name] = Timer(name, due, event if bare else as_stored(event), period)
        if bare and before is not None and type(before.event) is type(event) and before.due <= due:
            return  # a watchdog that is put off: the agenda finds it, and there is nothing to check
        self._effects.armed.append(Armed(self._subject, timer))

    def _next_serial(self) -> int:
        """1, 2, 3, … within one event, whatever batch the event is folded in."""
        wanted = (self._subject, self._subject.version)
        if self._serial_for != wanted:
            self._serial, self._serial_for = 0, wanted
        self._serial += 1
        return self._serial

    def _forget_draws(self) -> None:
        """The event is undone: whoever gets its version next draws afresh."""
        self._random_for = self._serial_for = None

    def _log(self, level: str, text: str) -> None:
        subject = self._subject
        trace = self._given and self._onward()
        line = LogLine(level, subject.agent_name, subject.key, str(text), trace)
        self._effects.logs.append(line)

    @staticmethod
    def _need_event(verb: str, event: object) -> None:
        if isinstance(event, type):
            raise UsageError(f"ctx.{verb} takes an event, not its class: write {event.__name__}(…)")
        if not isinstance(event, Event):
            raise UsageError(f"ctx.{verb} takes an Event, not {type(event).__name__}")

    @staticmethod
    def _positive(seconds: float, least: float) -> float:
        # `not >=` also refuses NaN.
        if not seconds >= least or seconds == float("inf"):
            raise UsageError(f"a timer of {seconds!r} seconds: give a number from {least:g} up")
        return float(seconds)
