"""One attempt inside a child: arguments by the annotations, the function, what it returned."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.model.calls import ID_PARAMETER
from holdfast.model.event import Event
from holdfast.model.keys import shortened
from holdfast.runtime.calling.port import CALL_ERROR_LENGTH_MAX, RESULT_BYTES_MAX, shorten
from holdfast.runtime.calling.targets import Target, find
from holdfast.runtime.calling.wire import Message

_raw = msgspec.msgpack.Decoder(list[msgspec.Raw])
_encoder = msgspec.msgpack.Encoder()


class Ended(NamedTuple):
    """As in an Outcome."""

    reason: str = ""
    error: str = ""
    body: bytes = b""
    again: bool = True


class Prepared(NamedTuple):
    """A function with its arguments: nothing is missing but to call it."""

    function: Callable[..., object]
    arguments: inspect.BoundArguments
    reply: str

    def run(self) -> object:
        return self.function(*self.arguments.args, **self.arguments.kwargs)


class Functions:
    """Functions by their targets, each imported and looked at once."""

    def __init__(self) -> None:
        self._known: dict[Target, tuple[Callable[..., object], inspect.Signature]] = {}

    def prepare(self, message: Message) -> Prepared | Ended:
        _, _, module, file, name, call, packed, reply = message
        assert isinstance(packed, bytes)
        assert isinstance(file, bytes)
        target = Target(str(module), os.fsdecode(file), str(name))
        try:
            if target not in self._known:
                function = find(target)
                self._known[target] = function, inspect.signature(function)
        except BaseException as error:  # a module may do anything, such as sys.exit
            return Ended("error", f"{name} cannot be imported: {text_of(error)}")
        function, signature = self._known[target]
        try:
            return Prepared(function, _bind(function, signature, packed, str(call)), str(reply))
        except (TypeError, ValueError, NameError) as error:
            text = f"{name} does not take the arguments of this call: {error}"
            return Ended("error", shorten(text), again=False)


def _bind(
    function: Callable[..., object], signature: inspect.Signature, packed: bytes, call: str
) -> inspect.BoundArguments:
    """Every argument as what its annotation says, and the id where there is a place for it."""
    hints = get_type_hints(function)
    own = [each for each in signature.parameters.values() if each.name != ID_PARAMETER]
    given = signature.replace(parameters=own).bind(*_raw.decode(packed)).arguments
    values: dict[str, object] = {}
    for name, parameter in signature.parameters.items():
        hint = hints.get(name, Any)
        if name == ID_PARAMETER:
            values[name] = call
        elif name in given and parameter.kind is parameter.VAR_POSITIONAL:
            values[name] = tuple(_value(name, each, hint) for each in given[name])
        elif name in given:
            values[name] = _value(name, given[name], hint)
    return inspect.BoundArguments(signature, values)


def _value(name: str, raw: msgspec.Raw, hint: object) -> object:
    try:
        return msgspec.msgpack.decode(raw, type=hint)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{name}: {error}") from None


def judge(prepared: Prepared, result: object) -> Ended:
    """What the function returned, packed, or why it is no reply."""
    name = prepared.function.__name__
    if not isinstance(result, Event) or type(result).__name__ != prepared.reply:
        text = f"{name} returned {shortened(result)}: return a {prepared.reply}"
        return Ended("wrong-reply", text, again=False)
    try:
        body = _encoder.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"{name} returned a {prepared.reply} that cannot be packed: {error}"
        return Ended("wrong-reply", text, again=False)
    if len(body) > RESULT_BYTES_MAX:
        text = (
            f"{name} returned a {prepared.reply} of {len(body):,} bytes, the bound is "
            f"{RESULT_BYTES_MAX:,}: store large data elsewhere and return a reference"
        )
        return Ended("too-large", text, again=False)
    return Ended(body=body)


def failed(error: BaseException) -> Ended:
    return Ended("error", text_of(error))


def text_of(error: BaseException) -> str:
    """What it is and where it came from, on one line as far as its text is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "/holdfast/runtime/" not in each.filename]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    whole = shorten(text, CALL_ERROR_LENGTH_MAX - len(place)) + place
    return whole.encode(errors="replace").decode()  # names of files may be no text
