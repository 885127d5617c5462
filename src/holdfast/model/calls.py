"""Calls: functions outside the fold that an agent lets run, and what becomes of them.

`ctx.call` notes a call; it becomes durable with its event. Whoever runs the functions lives in
`runtime`. The name on the wire is the bare name of the function, as for classes.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Literal, TypeAlias, TypeVar, cast, get_args, overload

import msgspec

from holdfast.errors import DefinitionError, UsageError
from holdfast.model.event import Event
from holdfast.model.keys import shortened

CALLS_PER_AGENT_MAX = 1_000
ARGUMENTS_BYTES_MAX = 1024 * 1024
RETRIES_MAX = 1_000_000
CALL_NOTE = "__holdfast_call__"  # where `call` leaves its options
ID_PARAMETER = "call_id"  # a function with a parameter of this name gets the call's id

CallKind: TypeAlias = Literal["process", "async"]
CallFunction: TypeAlias = Callable[..., object]
_F = TypeVar("_F", bound=CallFunction)
_pack = msgspec.msgpack.Encoder().encode


class CallFailed(Event):
    """The answer to a call that got no reply. `reason` is "error", "timeout", "died",
    "circuit-open", "too-large", "wrong-reply" or "unknown-function"."""

    call: str
    function: str
    reason: str
    error: str
    attempts: int


@dataclass(frozen=True)
class CallOptions:
    """How a function is run: in processes of its own or on an event loop, so many at a time."""

    kind: CallKind = "process"
    concurrency: int = 4


@overload
def call(*, kind: CallKind = "process", concurrency: int = 4) -> Callable[[_F], _F]: ...
@overload
def call(function: _F, /) -> _F: ...
def call(
    function: object = None, /, *, kind: CallKind | None = None, concurrency: int = 4
) -> object:
    """Declare how a function that agents call is run. A plain function runs in a process of its
    own, an `async def` on an event loop; `concurrency` is how many run at a time."""
    if function is not None:
        return _noted(function, kind, concurrency)
    return lambda function: _noted(function, kind, concurrency)


def _noted(function: object, kind: CallKind | None, concurrency: int) -> object:
    reason = why_not_callable(function)
    if reason is not None:
        raise DefinitionError(f"@call on {reason}")
    assert isinstance(function, FunctionType)
    own: CallKind = "async" if inspect.iscoroutinefunction(function) else "process"
    if kind not in (None, *get_args(CallKind)):
        raise DefinitionError(
            f'@call(kind={shortened(kind)}) on {function.__name__}: use "process" or "async"'
        )
    if kind not in (None, own):
        form = "an `async def`" if own == "async" else "a plain `def`"
        raise DefinitionError(
            f'@call(kind="{kind}") on {function.__name__}, which is {form}: use kind="{own}"'
        )
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise DefinitionError(
            f"@call(concurrency={shortened(concurrency)}) on {function.__name__}: give a whole "
            "number from 1 up"
        )
    setattr(function, CALL_NOTE, CallOptions(own, concurrency))
    return function


def is_declared(value: object) -> bool:
    return isinstance(value, FunctionType) and hasattr(value, CALL_NOTE)


def options_of(function: CallFunction) -> CallOptions:
    found = getattr(function, CALL_NOTE, None)
    if isinstance(found, CallOptions):
        return found
    return CallOptions("async" if inspect.iscoroutinefunction(function) else "process")


def why_not_callable(function: object) -> str | None:
    """What another process could not import, in words; None for a function at top level."""
    advice = "give a function that is defined at the top level of a module"
    if not isinstance(function, FunctionType):
        return f"{shortened(function)}, which is no plain function: {advice}"
    if not function.__name__.isidentifier() or function.__qualname__ != function.__name__:
        return f"{function.__qualname__}, which cannot be imported by its name: {advice}"
    return None


@cache
def _signature(function: FunctionType) -> inspect.Signature:
    """What a call has to give: the id is not among it."""
    whole = inspect.signature(function)
    own = [each for each in whole.parameters.values() if each.name != ID_PARAMETER]
    return whole.replace(parameters=own)


def check_call(function: object, arguments: Sequence[object], reply: object) -> str:
    """The function's name, if it can be called so."""
    reason = why_not_callable(function)
    if reason is not None:
        raise UsageError(f"ctx.call of {reason}")
    assert isinstance(function, FunctionType)
    name = function.__name__
    try:
        _signature(function).bind(*arguments)
    except TypeError as error:
        raise UsageError(f"ctx.call of {name}{_signature(function)}: {error}") from None
    if not (isinstance(reply, type) and issubclass(reply, Event)) or reply in (Event, CallFailed):
        raise UsageError(
            f"ctx.call of {name} with reply={shortened(reply)}: give the Event class it returns"
        )
    return name


def check_patience(name: str, timeout: object, retries: object, backoff: object) -> None:
    if not _is_number(timeout) or not 0.0 < cast(float, timeout) < math.inf:
        raise UsageError(f"ctx.call of {name} with timeout={timeout!r}: give seconds above 0")
    whole = isinstance(retries, int) and not isinstance(retries, bool)
    if not whole or not 0 <= cast(int, retries) <= RETRIES_MAX:
        raise UsageError(
            f"ctx.call of {name} with retries={shortened(retries)}: give 0, 1, 2, …, "
            f"{RETRIES_MAX:,} at most"
        )
    if not _is_number(backoff) or not 0.0 <= cast(float, backoff) < math.inf:
        raise UsageError(f"ctx.call of {name} with backoff={backoff!r}: give seconds from 0 up")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def pack_arguments(name: str, arguments: Sequence[object]) -> bytes:
    try:
        packed = _pack([_in_order(each) for each in arguments])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"ctx.call of {name}: its arguments cannot be stored ({error}): give numbers, texts, "
            "lists, enums or events"
        ) from None
    if len(packed) > ARGUMENTS_BYTES_MAX:
        raise UsageError(
            f"ctx.call of {name} with {len(packed):,} bytes of arguments, the bound is "
            f"{ARGUMENTS_BYTES_MAX:,}: store large data elsewhere and give a reference"
        )
    return packed


def _in_order(value: object) -> object:
    """Sets come in the order of one process's hashes: the same call must have the same bytes."""
    if isinstance(value, (set, frozenset)):
        return sorted((_in_order(each) for each in value), key=_pack)
    if isinstance(value, (list, tuple)):
        return [_in_order(each) for each in value]
    if isinstance(value, dict):
        return {key: _in_order(each) for key, each in value.items()}
    return value


def digest_of(function: str, arguments: bytes) -> str:
    """What was asked, in short: a recorded reply fits a call with the same digest."""
    return hashlib.sha256(function.encode() + b"\0" + arguments).hexdigest()[:32]
