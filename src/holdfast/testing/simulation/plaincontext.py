"""The plain context: what a handler may know and do, stated a second time for the reference fold.

One is made for every event and thrown away with it; nothing is shared between events, so nothing
has to be forgotten. The generator of random numbers and the bounds are the product's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from holdfast.errors import UsageError
from holdfast.model.calls import (
    CALLS_PER_AGENT_MAX,
    CallFunction,
    check_call,
    check_patience,
    pack_arguments,
)
from holdfast.model.context import (
    HOPS_MAX,
    TIMER_NAME_LENGTH_MAX,
    TIMER_SECONDS_MIN,
    TIMERS_PER_AGENT_MAX,
)
from holdfast.model.effects import LogLine, Sender
from holdfast.model.event import Action, Event
from holdfast.model.fates import ActionExpired
from holdfast.model.keys import check_key
from holdfast.model.rng import Random, seed_of
from holdfast.stepping.codebook import EVENT_BYTES_MAX
from holdfast.testing.simulation.plainfates import handles

if TYPE_CHECKING:
    from holdfast.model.agent import Agent
    from holdfast.testing.simulation.plainagent import PlainAgent, Waiting

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[type, msgspec.msgpack.Decoder[object]] = {}


def copied(value: T) -> T:
    """The value as it is after it was stored and read; UsageError if that cannot be."""
    kind = type(value)
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        packed = _encode(value)
        read = decoder.decode(packed)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{kind.__name__} has a field of a wrong type: {error}") from error
    if isinstance(value, (Event, Action)) and len(packed) > EVENT_BYTES_MAX:
        raise UsageError(f"{kind.__name__} of {len(packed)} bytes")
    return read  # type: ignore[return-value]


_flat: dict[type, bool] = {}  # classes in which nothing can be changed


def untouched(event: Event) -> Event:
    """For a handler, which may change a list inside; most events have none."""
    kind = type(event)
    flat = _flat.get(kind)
    if flat is None:
        fields = kind.__holdfast__.schema.fields
        flat = _flat[kind] = all(isinstance(each.type, str) for each in fields)
    return event if flat else copied(event)


class Emitted(NamedTuple):
    id: str
    agent: str
    key: str
    version: int
    serial: int
    now: float
    action: Action
    withheld: tuple[str, str] | None = None  # why and by whom


class Message(NamedTuple):
    agent: str
    key: str
    sender: Sender
    event: Event
    hops: int
    now: float


class PlainTimer(NamedTuple):
    name: str
    due: float
    event: Event
    period: float


class PlainCall(NamedTuple):
    """A call, as it was made; the number is its partition's."""

    id: str
    agent: str
    key: str
    function: str
    arguments: bytes
    reply: str
    timeout: float
    retries: int
    backoff: float
    now: float
    trace: str = ""

    @property
    def digest(self) -> str:
        asked = self.function.encode() + b"\0" + self.arguments
        return hashlib.sha256(asked).hexdigest()[:32]


class PlainLog:
    def __init__(self, context: PlainContext) -> None:
        self._context = context

    def debug(self, text: str) -> None:
        self._add("debug", text)

    def info(self, text: str) -> None:
        self._add("info", text)

    def warning(self, text: str) -> None:
        self._add("warning", text)

    def error(self, text: str) -> None:
        self._add("error", text)

    def _add(self, level: str, text: str) -> None:
        agent = self._context.agent
        self._context.logs.append(LogLine(level, agent.name, agent.key, str(text)))


class PlainContext:
    def __init__(
        self,
        fleet: str,
        agents: Mapping[str, type[Agent]],
        agent: PlainAgent,
        now: float,
        event: Waiting,
        ground: tuple[str, str] | None = None,
    ) -> None:
        self.ground = ground
        self.fleet = fleet
        self.agents = agents
        self.agent = agent
        self.now = now
        self.event_time = event.event_time
        self.key = agent.key
        self.sender = event.sender
        self.hops = event.hops
        self.asked = event.ask >= 0
        self.actions: list[Emitted] = []
        self.messages: list[Message] = []
        self.replies: list[Event] = []
        self.calls: list[PlainCall] = []
        self.logs: list[LogLine] = []
        self.misfit: UsageError | None = None  # an output of a wrong type: the event has failed
        self._random: Random | None = None
        self._serial = 0

    @property
    def random(self) -> Random:
        if self._random is None:
            agent = self.agent
            self._random = Random(seed_of(self.fleet, agent.name, agent.key, agent.version))
        return self._random

    @property
    def log(self) -> PlainLog:
        return PlainLog(self)

    def new_id(self) -> str:
        self._serial += 1
        return f"{self._identity()}/id{self._serial}"

    def _identity(self) -> str:
        return f"{self.fleet}/{self.agent.name}/{self.agent.key}/{self.agent.version}"

    def emit(self, action: Action) -> None:
        if not isinstance(action, Action):
            raise UsageError("emit takes an Action")
        serial = len(self.actions)
        agent = self.agent
        definition = type(action).__holdfast__
        withheld = None if definition.during_ground_stop else self.ground
        id = f"{self._identity()}/{serial}"
        made = (id, agent.name, agent.key, agent.version, serial, self.now, self._kept(action))
        self.actions.append(Emitted(*made, withheld))
        told = handles(type(agent.state), ActionExpired) and withheld is None
        if told and definition.expires is not None:
            event = ActionExpired(id, type(action).__name__)
            due = self.now + definition.expires
            self._arm(due, event, f"~expires/{agent.version}/{serial}", 0.0)

    def send(self, agent: type[Agent], key: str, event: Event) -> None:
        name = getattr(agent, "__name__", str(agent))
        if name not in self.agents:
            raise UsageError(f"{name} is no agent of the fleet")
        check_key(key)
        self._send(name, key, event)

    def reply(self, event: Event) -> None:
        if self.asked:
            self.replies.append(self._event(event))
        elif self.sender is not None:
            self._send(self.sender.agent, self.sender.key, event)
        else:
            self._need_event(event)  # a plain send asks for no answer

    def _send(self, agent: str, key: str, event: Event) -> None:
        if self.hops >= HOPS_MAX:
            raise UsageError(f"{HOPS_MAX} hops")
        sender = Sender(self.agent.name, self.agent.key)
        message = Message(agent, key, sender, self._event(event), self.hops + 1, self.now)
        self.messages.append(message)

    def _event(self, event: Event) -> Event:
        self._need_event(event)
        return self._kept(event)

    @staticmethod
    def _need_event(event: object) -> None:
        if not isinstance(event, Event):
            raise UsageError("an Event is needed")

    def _kept(self, value: T) -> T:
        """As it is now, whatever the handler does to its lists later."""
        try:
            return copied(value)
        except UsageError as error:
            self.misfit = self.misfit or error  # noticed when the handler is done
            return value

    def after(self, seconds: float, event: Event, name: str | None = None) -> None:
        self._arm(self.now + self._seconds(seconds, 0.0), event, self._named(name), 0.0)

    def at(self, time: float, event: Event, name: str | None = None) -> None:
        self._arm(self._seconds(time, 0.0), event, self._named(name), 0.0)

    def every(self, seconds: float, event: Event, name: str | None = None) -> None:
        period = self._seconds(seconds, 0.001)
        self._arm(self.now + period, event, self._named(name), period)

    def cancel(self, name: str) -> bool:
        return self.agent.timers.pop(name, None) is not None

    def call(
        self,
        function: CallFunction,
        *arguments: object,
        reply: type[Event],
        timeout: float = 30.0,
        retries: int = 2,
        backoff: float = 1.0,
    ) -> str:
        name = check_call(function, arguments, reply)
        check_patience(name, timeout, retries, backoff)
        packed = pack_arguments(name, arguments)
        if len(self.agent.calls) >= CALLS_PER_AGENT_MAX:
            raise UsageError("too many open calls")
        self._serial += 1
        agent = self.agent
        made = PlainCall(
            f"{self._identity()}/call{self._serial}",
            agent.name,
            agent.key,
            name,
            packed,
            reply.__name__,
            float(timeout),
            retries,
            float(backoff),
            self.now,
        )
        agent.calls[made.id] = made
        self.calls.append(made)
        return made.id

    def _named(self, name: str | None) -> str:
        if name is None:
            self._serial += 1
            return f"~{self.agent.version}.{self._serial}"
        if not isinstance(name, str) or len(name) > TIMER_NAME_LENGTH_MAX or name[:1] == "~":
            raise UsageError("no name for a timer")
        return name

    def _arm(self, due: float, event: Event, name: str, period: float) -> None:
        timers = self.agent.timers
        event = self._event(event)
        if name not in timers and len(timers) >= TIMERS_PER_AGENT_MAX:
            raise UsageError("too many timers")
        timers[name] = PlainTimer(name, max(due, self.now + TIMER_SECONDS_MIN), event, period)

    @staticmethod
    def _seconds(seconds: float, least: float) -> float:
        if not least <= seconds < float("inf"):
            raise UsageError(f"a timer of {seconds!r} seconds")
        return float(seconds)
