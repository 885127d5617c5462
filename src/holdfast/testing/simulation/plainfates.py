"""What became of actions, and the ground stop, stated a second time for the reference fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fates import (
    ActionAcknowledged,
    ActionExpired,
    ActionFailed,
    GroundStop,
    GroundStopLifted,
)

if TYPE_CHECKING:
    from holdfast.testing.simulation.decoding import Release
    from holdfast.testing.simulation.plainagent import PlainAgent

TOLD = "~ground-stop"
KINDS = {"deliver": "delivered", "acknowledge": "acknowledged", "fail": "failed"}
FINAL = {"acknowledged", "failed", "withheld"}
STOPS = {"ground-stop": True, "lift-ground-stop": False}


class PlainFate(NamedTuple):
    id: str
    key: str
    now: float
    why: str
    kind: str
    by: str
    action: str


def handles(agent: type[Agent], *events: type[Event]) -> bool:
    handlers = agent.__holdfast__.handlers
    return any(event in handler.events for handler in handlers for event in events)


def awaits(agent: type[Agent]) -> bool:
    return handles(agent, ActionAcknowledged, ActionFailed, ActionExpired)


class PlainFates:
    """All fates of a partition, by action and kind."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, PlainFate]] = {}

    def add(self, fate: PlainFate) -> None:
        self.known.setdefault(fate.id, {})[fate.kind] = fate

    def told(
        self, fleet: str, agent: PlainAgent, command: list[object], now: float, release: Release
    ) -> tuple[PlainFate, Event | None] | None:
        """What a word of those makes who carry actions out; None if nothing."""
        verb, id, by, why = map(str, command)
        parts = id.split("/")
        if tuple(parts[:3]) != (fleet, agent.name, agent.key):
            return None
        if not 0 < int(parts[3]) <= agent.version:
            return None
        known, kind = self.known.get(id, {}), KINDS[verb]
        if known.keys() & {kind, *FINAL}:
            return None
        issued = known.get("issued")
        action = issued.action if issued else ""
        fate = PlainFate(id, agent.key, now, why, kind, by, action)
        if kind == "delivered":
            return fate, None
        if kind == "failed":
            return fate, ActionFailed(id, action, by, why)
        cls = release.model.actions.get(action)
        seconds = cls.__holdfast__.expires if cls is not None else None
        over = issued is not None and seconds is not None and now > issued.now + seconds
        return fate, ActionAcknowledged(id, action, by, over or "expired" in known)


class PlainGround:
    """Whether a ground stop is in force, and who was told of the last change so far."""

    def __init__(self) -> None:
        self.reason: tuple[str, str] | None = None  # why, by whom
        self.told: list[tuple[str, str]] = []
        self.telling = False

    def hear(self, event: Event, name: tuple[str, str]) -> str | None:
        """Somebody is told; what is wrong with that."""
        assert isinstance(event, GroundStop | GroundStopLifted)
        stops = isinstance(event, GroundStop)
        if not self.telling:
            if stops == (self.reason is not None):
                return "is told of a ground stop that changes nothing"
            self.telling = True
            self.reason = (event.why, event.by) if stops else None
        if self.told and self.told[-1] >= name:
            return f"is told of a ground stop behind {self.told[-1]}"
        self.told.append(name)
        return None

    def take(self, command: list[object], wanted: set[tuple[str, str]]) -> str | None:
        """The command itself: all who want to know must have been told by now."""
        stops = STOPS[str(command[0])]
        told, self.told = self.told, []
        telling, self.telling = self.telling, False
        if not telling and stops == (self.reason is not None):
            return f"{told} were told of a command that changes nothing" if told else None
        self.reason = (str(command[1]), str(command[2])) if stops else None
        missing = wanted - set(told)
        return f"{sorted(missing)} were not told of {command}" if missing else None
