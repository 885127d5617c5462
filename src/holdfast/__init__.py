"""Holdfast: durable state machines for drones, robots and vehicles."""

from holdfast.errors import (
    AccessDenied,
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
    Missing,
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
    Unreachable,
    UsageError,
    WrongFleet,
    YourBug,
)
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed, call
from holdfast.model.context import Context
from holdfast.model.event import Action, Event
from holdfast.model.fates import (
    ActionAcknowledged,
    ActionExpired,
    ActionFailed,
    GroundStop,
    GroundStopLifted,
)
from holdfast.model.handlers import on
from holdfast.model.marks import Length, Width
from holdfast.model.view import About, Row, View
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.live import Live
from holdfast.runtime.reading import IssuedAction
from holdfast.runtime.sending import Receipt

__all__ = [
    "About",
    "AccessDenied",
    "Action",
    "ActionAcknowledged",
    "ActionExpired",
    "ActionFailed",
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
    "GroundStop",
    "GroundStopLifted",
    "HoldfastError",
    "InUse",
    "IssuedAction",
    "Length",
    "Live",
    "Missing",
    "NewerFormat",
    "NotYet",
    "OutOfOrder",
    "OutdatedCode",
    "Receipt",
    "Rescaling",
    "Row",
    "SchemaError",
    "TheirBug",
    "TimedOut",
    "TooManySources",
    "TooOld",
    "TryAgain",
    "Unreachable",
    "UsageError",
    "View",
    "Width",
    "WrongFleet",
    "YourBug",
    "call",
    "on",
]
