"""An agent as the reference fold keeps it: one plain object, copied whole before every event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar, cast

from holdfast.model.agent import Agent
from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.model.handlers import Handler, HandlerFunction
from holdfast.testing.simulation.decoding import Release, Unreadable, encode, reader_of, schema_of
from holdfast.testing.simulation.plaincontext import PlainCall, PlainTimer, copied

T = TypeVar("T", Agent, Event)


class Waiting(NamedTuple):
    """An input, with all that its handler may ask about it."""

    event: Event
    position: int
    event_time: float
    sender: Sender | None
    hops: int
    ask: int  # position of the question, or -1


@dataclass(slots=True)
class PlainAgent:
    name: str
    key: str
    release: Release  # whose classes its state and events are of
    state: Agent
    version: int
    updated: float = 0.0
    paused: str = ""
    held: list[Waiting] = field(default_factory=list)
    timers: dict[str, PlainTimer] = field(default_factory=dict)
    calls: dict[str, PlainCall] = field(default_factory=dict)  # open ones, by id

    @property
    def busy(self) -> bool:
        """Whether anything but its last event keeps it from expiring."""
        return bool(self.paused or self.held or self.timers or self.calls)

    @property
    def mode(self) -> object:
        name = self.state.__holdfast__.mode_field
        return None if name is None else getattr(self.state, name)

    @property
    def next_due(self) -> float | None:
        """When this agent next has to get a timer's event, or to be forgotten."""
        dues = [each.due for each in self.timers.values() if not (each.period and self.paused)]
        expire_after = self.state.__holdfast__.expire_after
        if expire_after is not None and not self.busy:
            dues.append(self.updated + expire_after)
        return min(dues) if dues else None

    def copy(self) -> PlainAgent:
        return PlainAgent(
            self.name,
            self.key,
            self.release,
            copied(self.state),
            self.version,
            self.updated,
            self.paused,
            list(self.held),
            dict(self.timers),
            dict(self.calls),
        )

    def read_by(self, release: Release) -> PlainAgent:
        """The same agent as another release reads it."""
        if release is self.release:
            return self
        return replace(
            self,
            release=release,
            state=as_read_by(release, self.state),
            held=[h._replace(event=as_read_by(release, h.event)) for h in self.held],
            timers={
                name: timer._replace(event=as_read_by(release, timer.event))
                for name, timer in self.timers.items()
            },
        )


def as_read_by(release: Release, value: T) -> T:
    """Stored by the class it has, read by the class of that name in another release."""
    name = type(value).__name__
    model = release.model
    classes: Mapping[str, type] = model.agents if isinstance(value, Agent) else model.events
    found = classes.get(name)
    if found is None:
        raise Unreadable(f"release {release.number} has no {name}")
    if found is type(value):
        return value
    return cast(T, reader_of(found, schema_of(type(value))).row(encode(value)))


_known_takers: dict[tuple[type, type], list[Handler]] = {}


def _takers(agent: type[Agent], event: type[Event]) -> list[Handler]:
    known = _known_takers.get((agent, event))
    if known is None:
        known = _known_takers[agent, event] = _find_takers(agent, event)
    return known


def _find_takers(agent: type[Agent], event: type[Event]) -> list[Handler]:
    """The handlers of an event class, or of its nearest base that has any; modes go first."""
    for base in event.__mro__:
        found = [each for each in agent.__holdfast__.handlers if base in each.events]
        if found:
            return sorted(found, key=lambda each: not each.modes)
    return []


def handler_for(agent: PlainAgent, event: Event) -> HandlerFunction | None:
    mode = agent.mode
    for each in _takers(type(agent.state), type(event)):
        if each.modes and mode not in each.modes:
            continue
        if each.when is None or each.when(agent.state, event):
            return each.function
    return None
