"""What the marked methods of an agent class say: which event, in which modes, under which guard.

Reads the notes that `on` left while the class is being made. Every complaint has the method's place
and the way to mend it. What becomes of the handlers is in `handlers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from enum import Enum
from types import FunctionType, UnionType
from typing import NamedTuple, Union, cast, get_args, get_origin

from holdfast.model.annotations import Body, Place
from holdfast.model.event import Event
from holdfast.model.handlers import Guard, Handler, Note, is_handler, notes_of
from holdfast.model.keys import shortened


class Takes(NamedTuple):
    """What the handlers of a kind of class look like."""

    article: str
    owner: str  # what such a class is derived from
    third: str  # the name of the last parameter, in messages
    noun: str
    kinds: tuple[type, ...]


AGENT = Takes("an", "Agent", "ctx", "an event", (Event,))


def collect(body: Body, bases: tuple[type, ...], takes: Takes = AGENT) -> tuple[Handler, ...]:
    """The handlers of a class: its own in the order written, then those it inherits."""
    for name, earlier in body.replaced.items():
        if is_handler(earlier):
            raise body.place(name).error(
                f"{body.class_name}.{name} is defined twice, and the first would be forgotten: "
                f"rename one of them"
            )
    own = [_handler(body, name, value, takes) for name, value in body.items() if is_handler(value)]
    names = {each.name for each in own}
    inherited: list[Handler] = []
    for base in bases:
        definition = getattr(base, "__holdfast__", None)
        if definition is None:
            _refuse_handlers_outside(body, base, takes)
        for each in getattr(definition, "handlers", ()):
            if each.name not in names:
                names.add(each.name)
                _check_not_covered(body, each)
                if each.name not in body:
                    inherited.append(each)
    return (*own, *inherited)


def _check_not_covered(body: Body, above: Handler) -> None:
    if body.get(above.name) is not None:
        raise body.place(above.name).error(
            f"{body.class_name}.{above.name} replaces a handler without being one: put `@on` "
            f"above it, or write `{above.name} = None` to have no handler here"
        )


def _refuse_handlers_outside(body: Body, base: type, takes: Takes) -> None:
    for cls in base.__mro__:
        for name, value in vars(cls).items():
            if is_handler(value):
                raise body.place().error(
                    f"{cls.__name__}.{name} is a handler, but {cls.__name__} is not "
                    f"{takes.article} {takes.owner}: derive it from {takes.owner}"
                )


def _handler(body: Body, name: str, value: object, takes: Takes) -> Handler:
    what, place = f"{body.class_name}.{name}", body.place(name)
    if isinstance(value, (staticmethod, classmethod)) or not callable(value):
        raise place.error(f"{what} has to be a plain method: `{_shape(name, takes)}`")
    function = _checked_function(value, what, place, takes)
    notes = notes_of(value)
    if len(notes) > 1:
        raise place.error(
            f"{what} has `@on` twice: use one, as in `@on(A, B)` or `@on(mode=[Mode.A, Mode.B])`"
        )
    return Handler(
        body.class_name,
        name,
        value,
        _events(body, function, notes[0], what, place, takes),
        _modes(notes[0].mode, what, place),
        _guard(notes[0].when, what, place),
        place,
        _claim(notes[0].idempotent, what, place),
    )


def _shape(name: str, takes: Takes) -> str:
    return f"def {name}(self, event, {takes.third})"


def _checked_function(
    value: Callable[..., object], what: str, place: Place, takes: Takes
) -> FunctionType:
    function = inspect.unwrap(value)
    if not isinstance(function, FunctionType):
        raise place.error(f"{what} has to be a plain method with (self, event, {takes.third})")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise place.error(
            f"{what} is async: handlers do not wait. Write `def`, and get slow work done by an "
            f"action or a call whose answer comes back as an event"
        )
    if inspect.isgeneratorfunction(function):
        raise place.error(
            f"{what} has a `yield`, so it would never run: use `ctx.emit` or `ctx.send`"
        )
    shape = inspect.signature(value).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(shape) != 3 or any(each.kind not in plain for each in shape):
        raise place.error(
            f"{what} takes ({', '.join(str(each) for each in shape)}): a handler takes exactly "
            f"(self, event, {takes.third})"
        )
    return function


def _events(
    body: Body, function: FunctionType, note: Note, what: str, place: Place, takes: Takes
) -> tuple[type[Event], ...]:
    found: tuple[object, ...] = note.events
    if not found:
        parameter = list(inspect.signature(function).parameters.values())[1]
        if parameter.annotation is inspect.Parameter.empty:
            raise place.error(
                f"{what} does not say which event it handles: annotate it, as in "
                f"`{parameter.name}: Position`, or write `@on(Position)`"
            )
        subject = f"{what}, parameter {parameter.name!r}"
        hint = body.scope.resolve(
            parameter.annotation, subject, place, own=body, module=function.__globals__
        )
        found = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    events: list[type[Event]] = []
    for each in found:
        if not (isinstance(each, type) and issubclass(each, takes.kinds)) or each in takes.kinds:
            bases = " or ".join(kind.__name__ for kind in takes.kinds)
            raise place.error(
                f"{what} handles {_shown(each)}, which is not {takes.noun}: name a class derived "
                f"from {bases}"
            )
        events.append(cast("type[Event]", each))  # or, of a view, of an action
    return tuple(dict.fromkeys(events))


def _modes(mode: object, what: str, place: Place) -> tuple[Enum, ...]:
    if mode is None:
        return ()
    given = mode if isinstance(mode, Iterable) and not isinstance(mode, (Enum, str)) else (mode,)
    modes = tuple(dict.fromkeys(given))
    for each in modes:
        if not isinstance(each, Enum):
            raise place.error(
                f"{what} has mode={shortened(each)}, which is not a member of an Enum: write it as "
                f"in `mode=Mode.FLYING`"
            )
    if not modes:
        raise place.error(f"{what} has no modes in mode=: name one, or leave `mode` out for all")
    return modes


def _guard(when: object, what: str, place: Place) -> Guard | None:
    if when is None:
        return None
    if not callable(when) or isinstance(when, type) or inspect.iscoroutinefunction(when):
        raise place.error(
            f"{what} has when={_shown(when)}: give a function of state and event, as in "
            f"`when=lambda self, event: event.percent < 15.0`"
        )
    try:
        inspect.signature(when).bind(None, None)
    except TypeError as error:
        raise place.error(
            f"{what} has a guard that does not take (state, event): {error}"
        ) from error
    except ValueError:
        pass  # a builtin that does not tell its parameters
    return when


def _claim(idempotent: object, what: str, place: Place) -> bool:
    if not isinstance(idempotent, bool):
        raise place.error(f"{what} has idempotent={shortened(idempotent)}: write True or False")
    return idempotent


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else shortened(value)
