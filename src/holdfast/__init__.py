"""Holdfast: durable state machines for drones, robots and vehicles."""

from holdfast.errors import (
    AskFailed,
    Backlog,
    DamagedData,
    DefinitionError,
    GiveUp,
    HoldfastError,
    NotYet,
    SchemaError,
    TheirBug,
    TimedOut,
    TryAgain,
    UsageError,
    YourBug,
)
from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.event import Action, Event
from holdfast.model.handlers import on
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.live import Live
from holdfast.runtime.sending import Receipt

__all__ = [
    "Action",
    "Agent",
    "AskFailed",
    "Backlog",
    "Context",
    "DamagedData",
    "DefinitionError",
    "Event",
    "Fleet",
    "GiveUp",
    "HoldfastError",
    "Live",
    "NotYet",
    "Receipt",
    "SchemaError",
    "TheirBug",
    "TimedOut",
    "TryAgain",
    "UsageError",
    "YourBug",
    "on",
]
