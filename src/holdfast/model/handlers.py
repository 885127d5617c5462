"""Handlers: how methods are marked with `on`, and how the one for an event is found.

`on` only notes what it was given. While the agent class is made, `signatures` reads and checks the
notes and makes a `Handler` of each; `routes_of` then makes one `Route` per event class. The stepper
asks routes and nothing else; what a handler does with its context is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Never, TypeAlias, TypeVar, overload

from holdfast.model.annotations import Place
from holdfast.model.definition import HANDLER_NOTE
from holdfast.model.event import Action, Event

if TYPE_CHECKING:
    from holdfast.model.agent import Agent
    from holdfast.model.context import Context
    from holdfast.model.view import About

HandlerFunction: TypeAlias = "Callable[[Agent, Event, Context], None]"
Guard: TypeAlias = "Callable[[Agent, Event], bool]"
_H = TypeVar(
    "_H", bound="Callable[[Never, Never, Context], None] | Callable[[Never, Never, About], None]"
)


@dataclass(frozen=True)
class Note:
    """What `on` was given, unchecked: only the whole class can say whether it is right."""

    events: tuple[object, ...]
    mode: object
    when: object
    idempotent: object


@overload
def on(
    *events: type[Event] | type[Action],
    mode: Enum | Iterable[Enum] | None = None,
    when: Callable[..., bool] | None = None,
    idempotent: bool = False,
) -> Callable[[_H], _H]: ...
@overload
def on(handler: _H, /) -> _H: ...
def on(
    *given: object, mode: object = None, when: object = None, idempotent: object = False
) -> object:
    """Mark a method of an agent as the handler of the event its parameter is annotated with;
    or of a view, as that of an event or action.

    `@on(Position)` names the event instead, `mode=` limits it to one or several modes, and `when=`
    to the cases in which a function of state and event says so. `idempotent=True` claims that the
    same event again changes nothing more; `holdfast check` tests it, and nothing else looks at it.
    """
    if len(given) == 1 and callable(given[0]) and not isinstance(given[0], type):
        return _noted(given[0], Note((), mode, when, idempotent))
    return lambda handler: _noted(handler, Note(given, mode, when, idempotent))


def _noted(handler: object, note: Note) -> object:
    setattr(handler, HANDLER_NOTE, (*notes_of(handler), note))
    return handler


def is_handler(value: object) -> bool:
    inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    return hasattr(inner, HANDLER_NOTE) and not isinstance(inner, type)


def notes_of(value: object) -> tuple[Note, ...]:
    return getattr(value, HANDLER_NOTE, ())


@dataclass(frozen=True)
class Handler:
    """One method that takes events; without modes it serves all of them."""

    owner: str  # the class that defines it, which may be a base of the one that has it
    name: str
    function: HandlerFunction
    events: tuple[type[Event], ...]
    modes: tuple[Enum, ...]
    when: Guard | None
    place: Place
    idempotent: bool = False  # as claimed: see `on`


class Route:
    """What one agent class does with one event class.

    `always` is the handler if there is exactly one, without mode and guard; the stepper calls it
    without asking further. Otherwise `choose` finds it, or None.
    """

    __slots__ = ("_anyhow", "_by_mode", "_mode_of", "always", "handlers")

    def __init__(self, handlers: tuple[Handler, ...], mode_field: str | None) -> None:
        self.handlers = handlers
        only = handlers[0] if len(handlers) == 1 else None
        bare = only is not None and not only.modes and only.when is None
        self.always: HandlerFunction | None = only.function if only is not None and bare else None
        self._anyhow = tuple((each.when, each.function) for each in handlers if not each.modes)
        modes = dict.fromkeys(mode for each in handlers for mode in each.modes)
        # By identity: members are single, and hashing one would be a call into Python.
        self._by_mode = {
            id(mode): (
                *((each.when, each.function) for each in handlers if mode in each.modes),
                *self._anyhow,
            )
            for mode in modes
        }
        self._mode_of = attrgetter(mode_field) if mode_field and modes else None

    def choose(self, agent: Agent, event: Event) -> HandlerFunction | None:
        """The first handler whose mode is on and whose guard agrees; those with modes go first."""
        candidates = self._anyhow
        if self._mode_of is not None:
            candidates = self._by_mode.get(id(self._mode_of(agent)), candidates)
        for guard, function in candidates:
            if guard is None or guard(agent, event):
                return function
        return None


def routes_of(
    class_name: str, handlers: tuple[Handler, ...], mode_field: str | None
) -> dict[type[Event], Route]:
    by_event: dict[type[Event], list[Handler]] = {}
    for handler in handlers:
        for event in handler.events:
            by_event.setdefault(event, []).append(handler)
    for event, takers in by_event.items():
        modes: list[Enum | None] = [None, *dict.fromkeys(m for each in takers for m in each.modes)]
        for mode in modes:
            same = [
                each for each in takers if (mode in each.modes or (mode is None and not each.modes))
            ]
            _check_reachable(class_name, event, mode, same)
    return {event: Route(tuple(takers), mode_field) for event, takers in by_event.items()}


def _check_reachable(
    class_name: str, event: type[Event], mode: Enum | None, handlers: list[Handler]
) -> None:
    """Among handlers of one event and mode, only the last may come without a guard."""
    for first, second in pairwise(handlers):
        if first.when is not None:
            continue
        # Point into the class being made: the other may be in a file that its author cannot change.
        place = second.place if second.owner == class_name else first.place
        where = f" in mode {mode.name}" if mode is not None else ""
        shadow = f"{first.owner}.{first.name} (line {first.place.line})"
        lost = f"{second.owner}.{second.name} (line {second.place.line})"
        if second.when is None:
            raise place.error(
                f"two handlers for {event.__name__}{where}: {shadow} takes every one, so {lost} "
                f"would never run. Give one of them another `mode=` or a `when=`, or make them "
                f"one method"
            )
        raise place.error(
            f"{lost} would never run: {shadow} takes every {event.__name__}{where} and goes first. "
            f"Move the one with `when=` up"
        )


def mode_field_of(
    class_name: str, types: Mapping[str, object], handlers: tuple[Handler, ...]
) -> tuple[str | None, tuple[Enum, ...]]:
    """The state field that holds the mode, and all modes there are."""
    field: str | None = None
    enum: type[Enum] | None = None
    for handler in handlers:
        for mode in handler.modes:
            if enum is None:
                enum, field = type(mode), _only_field(class_name, types, handler, type(mode))
            elif type(mode) is not enum:
                raise handler.place.error(
                    f"{class_name}.{handler.name} has the mode {mode}, but other handlers have "
                    f"modes of {enum.__name__}: an agent has one kind of mode, use `when=` for more"
                )
    return field, tuple(enum) if enum is not None else ()


def _only_field(
    class_name: str, types: Mapping[str, object], handler: Handler, enum: type[Enum]
) -> str:
    fields = [name for name, kind in types.items() if kind is enum]
    if len(fields) == 1:
        return fields[0]
    first = next(iter(enum)).name
    raise handler.place.error(
        f"{class_name}.{handler.name} has a mode of {enum.__name__}, but {class_name} has no field "
        f"of that type: add `mode: {enum.__name__} = {enum.__name__}.{first}`"
        if not fields
        else f"{class_name}.{handler.name} has a mode of {enum.__name__}, but the fields "
        f"{' and '.join(fields)} are both of that type: give one of them an Enum of its own"
    )
