"""What becomes of actions, and of the whole fleet, as events for the agents that want to know.

An agent gets one of these only if it has a handler for that very class. They come from the fold
itself, in the commit that records what they tell; nobody sends them.
"""

from __future__ import annotations

from holdfast.model.event import Event


class ActionAcknowledged(Event):
    """An action of this agent was carried out. `late`: after it had expired."""

    action: str  # its id
    name: str  # of its class
    by: str
    late: bool


class ActionFailed(Event):
    """Who had to carry an action out says that it could not."""

    action: str
    name: str
    by: str
    why: str


class ActionExpired(Event):
    """The time of an action has passed, and nobody has acknowledged it."""

    action: str
    name: str


class GroundStop(Event):
    """From now on the fleet issues no actions but those declared `during_ground_stop=True`."""

    why: str
    by: str


class GroundStopLifted(Event):
    why: str
    by: str


SETTLING: tuple[type[Event], ...] = (ActionAcknowledged, ActionFailed, ActionExpired)
TOLD: tuple[type[Event], ...] = (*SETTLING, GroundStop, GroundStopLifted)
MADE_HERE = {"CallFailed", *(event.__name__ for event in TOLD)}  # nobody means to send these
EXPIRY_NAME = "~expires/"  # begins the names of the timers that expiries are


def expiry_name(version: int, index: int) -> str:
    return f"{EXPIRY_NAME}{version}/{index}"
