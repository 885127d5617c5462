"""Holdfast: durable state machines for drones, robots and vehicles."""

from holdfast.errors import (
    AskFailed,
    Backlog,
    Busy,
    ClockJumped,
    DamagedData,
    DefinitionError,
    DiskFull,
    Fenced,
    GiveUp,
    HoldfastError,
    InUse,
    NewerFormat,
    NotYet,
    OutdatedCode,
    OutOfOrder,
    Rescaling,
    SchemaError,
    TheirBug,
    TimedOut,
    TooManySources,
    TooOld,
    TryAgain,
    UsageError,
    WrongFleet,
    YourBug,
)
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed, call
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
    "Busy",
    "CallFailed",
    "ClockJumped",
    "Context",
    "DamagedData",
    "DefinitionError",
    "DiskFull",
    "Event",
    "Fenced",
    "Fleet",
    "GiveUp",
    "HoldfastError",
    "InUse",
    "Live",
    "NewerFormat",
    "NotYet",
    "OutOfOrder",
    "OutdatedCode",
    "Receipt",
    "Rescaling",
    "SchemaError",
    "TheirBug",
    "TimedOut",
    "TooManySources",
    "TooOld",
    "TryAgain",
    "UsageError",
    "WrongFleet",
    "YourBug",
    "call",
    "on",
]
