"""Views, the read models that a user writes: rows by key, folded from what many agents did.

A `View` class has handlers like an agent; what they change are its rows, instances of a `Row`
class. It is a dictionary of those while a handler runs. Where rows are kept, and how far a view
has come, is in `runtime/viewing/`.
"""

from __future__ import annotations

import hashlib
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

import msgspec

from holdfast.errors import DefinitionError
from holdfast.model.agent import check_all_default
from holdfast.model.annotations import Body, Place
from holdfast.model.definition import Definition, HoldfastMeta, as_body
from holdfast.model.event import Action, Event
from holdfast.model.handlers import Handler
from holdfast.model.keys import check_key, shortened
from holdfast.model.schema import Schema
from holdfast.model.signatures import Takes, collect


class About(NamedTuple):
    """What is known of an event or action besides itself."""

    agent: str  # the class of the agent it came to, or that issued it
    key: str
    now: float  # its stamp
    partition: int
    position: int  # of an event in its inbox; of an action its number
    origin: str  # external, message, reply, timer; or action
    event_time: float | None = None
    sender: str | None = None  # of a message the agent, as in Drone/d-1
    id: str | None = None  # of an action


class RowMeta(HoldfastMeta):
    kind = "row"
    struct_options = {"array_like": True, "forbid_unknown_fields": True}

    @classmethod
    def _check_defaults(
        metacls, body: Body, types: Mapping[str, object], bases: tuple[type, ...]
    ) -> None:
        check_all_default(body, types, "field of a row")


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(msgspec.field,))
    class Row:
        """What a view keeps under one key. Every field needs a type and a default."""

        __holdfast__: ClassVar[Definition]
        __struct_fields__: ClassVar[tuple[str, ...]]

else:

    class Row(msgspec.Struct, metaclass=RowMeta):
        """What a view keeps under one key. Every field needs a type and a default."""


R = TypeVar("R", bound=Row)
Fold: TypeAlias = Callable[["AnyView", Any, About], None]


@dataclass(frozen=True)
class ViewDefinition:
    """What Holdfast knows of a view class, as `cls.__holdfast__`."""

    name: str
    row: type[Row]
    handlers: tuple[Handler, ...]
    routes: dict[type, Fold]
    fingerprint: str  # another one: what was folded before has to be folded again
    place: Place

    @property
    def schema(self) -> Schema:
        return self.row.__holdfast__.schema

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of events and actions it takes."""
        bases = (("events", Event), ("actions", Action))
        return tuple(n for n, base in bases if any(issubclass(c, base) for c in self.routes))

    def classes(self) -> dict[tuple[str, str], type]:
        """Every class that a handler takes, or whose base one takes, by kind and name."""
        found: dict[tuple[str, str], type] = {}
        waiting = list(self.routes)
        while waiting:
            cls = waiting.pop()
            definition: Definition = cls.__holdfast__  # type: ignore[attr-defined]
            found[definition.kind, definition.name] = cls
            heirs: list[type] = cls.__subclasses__()
            for heir in heirs:
                self.routes.setdefault(heir, self.routes[cls])
                waiting.append(heir)
        return found


_TAKES = Takes("a", "View", "about", "an event or action", (Event, Action))


class ViewMeta(type):
    @classmethod
    def __prepare__(metacls, name: str, bases: tuple[type, ...], /, **keywords: object) -> Body:
        return Body(name, sys._getframe(1))

    def __new__(
        metacls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        /,
        version: object = 0,
    ) -> ViewMeta:
        body = as_body(name, namespace)
        is_root = not any(isinstance(base, ViewMeta) for base in bases)
        if not is_root:
            _check_body(body, version)
            body.setdefault("__slots__", ())  # what a handler would set is no row, and forgotten
        cls = super().__new__(metacls, name, bases, dict(body))
        if not is_root:
            cls.__holdfast__ = _define(cls, body, version)
        return cls

    def __init__(cls, *_: object, **__: object) -> None:
        """The class is complete already; this only keeps our keywords from `type`."""

    __holdfast__: ViewDefinition


def _check_body(body: Body, version: object) -> None:
    for name, kind in body.fields.items():
        if "ClassVar" not in str(kind):
            raise body.place(name).error(
                f"{body.class_name}.{name} is a field, but a view has none of its own: put it into "
                "the Row class that its rows are of"
            )
    for name in ("__init__", "get", "take", "forget", "held"):
        if name in body:
            raise body.place(name).error(f"{body.class_name}.{name} is in use: name it otherwise")
    if type(version) is not int:
        raise body.place().error(
            f"{body.class_name} has version={shortened(version)}: give a whole number"
        )


def _define(cls: type, body: Body, version: object) -> ViewDefinition:
    handlers = collect(body, cls.__bases__, _TAKES)
    row = _row_of(cls, body)
    if not handlers:
        raise body.place().error(
            f"{body.class_name} has no handlers: mark a method with `@on`, as in "
            "`def drained(self, event: Battery, about: About) -> None`"
        )
    routes: dict[type, Fold] = {}
    for handler in handlers:
        if handler.modes or handler.when is not None or handler.idempotent:
            raise handler.place.error(
                f"{handler.owner}.{handler.name}: handlers of a view have no mode=, when= and "
                "idempotent=: write an `if` into it"
            )
        for taken in handler.events:
            if taken in routes:
                raise handler.place.error(
                    f"{body.class_name} has two handlers for {taken.__name__}: make them one"
                )
            routes[taken] = cast(Fold, handler.function)
    schema = row.__holdfast__.schema
    print_ = _fingerprint(cls, schema, [(h.name, [e.__name__ for e in h.events]) for h in handlers])
    return ViewDefinition(cls.__name__, row, handlers, routes, f"{print_}.{version}", body.place())


def _row_of(cls: type, body: Body) -> type[Row]:
    for base in getattr(cls, "__orig_bases__", ()):
        found = typing.get_args(base)[:1] if isinstance(typing.get_origin(base), ViewMeta) else ()
        for row in found:
            if isinstance(row, type) and issubclass(row, Row) and row is not Row:
                return row
    above = getattr(cls, "__holdfast__", None)
    if above is not None:
        return cast(ViewDefinition, above).row
    raise body.place().error(
        f"{body.class_name} does not say what its rows are: write `class {body.class_name}"
        "(View[Zone])`, where Zone is a class derived from Row"
    )


def _fingerprint(cls: type, schema: Schema, handlers: object) -> str:
    """Equal for the same rows and the same code of the class; helpers elsewhere do not count."""
    digest = hashlib.sha256(f"{schema.fingerprint} {handlers}".encode())
    for base in reversed(cls.__mro__):
        if isinstance(base, ViewMeta) and base.__bases__ != (Generic,):
            for name, value in sorted(vars(base).items(), key=lambda item: item[0]):
                function = getattr(value, "__func__", value)
                if isinstance(function, FunctionType):
                    digest.update(f"{name} {_code(function.__code__)}".encode())
                elif name.isupper():
                    digest.update(f"{name} {value!r}".encode())
    return digest.hexdigest()[:16]


def _code(code: CodeType) -> str:
    constants = [
        _code(each) if isinstance(each, CodeType) else _text(each) for each in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _text(constant: object) -> str:
    """The order within a set is that of one process's hashes."""
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _nothing(key: str) -> None:
    return None


class View(Generic[R], metaclass=ViewMeta):
    """A read model. Handlers are given events or actions of all agents, and change its rows.

    `self[key]` is the row of a key, a new one if there is none; `self.get(key)` does not make one;
    `del self[key]` removes it. What is not in a row is forgotten.
    """

    __slots__ = ("_load", "_rows", "_touched")
    __holdfast__: ClassVar[ViewDefinition]

    def __init__(self, load: Callable[[str], R | None] = _nothing) -> None:
        """Without arguments for a test: there is nothing but what its handlers make."""
        self._load = load
        self._rows: dict[str, R | None] = {}
        self._touched: set[str] = set()

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, version: int = 0) -> None: ...

    def get(self, key: str) -> R | None:
        if key not in self._rows:
            check_key(key)
            self._rows[key] = self._load(key)
        self._touched.add(key)  # whoever has it may change it
        return self._rows[key]

    def __getitem__(self, key: str) -> R:
        row = self.get(key)
        if row is None:
            row = self._rows[key] = cast(R, type(self).__holdfast__.row())
        return row

    def __delitem__(self, key: str) -> None:
        self.get(key)
        self._rows[key] = None

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def take(self) -> dict[str, R | None]:
        """The rows that handlers had in their hands since the last time; None: it is gone."""
        taken = {key: self._rows[key] for key in sorted(self._touched)}
        self._touched.clear()
        return taken

    def forget(self) -> None:
        """Rows are loaded again."""
        self._rows.clear()
        self._touched.clear()

    def held(self) -> int:
        """How many rows are in memory."""
        return len(self._rows)


AnyView: TypeAlias = View[Any]


def check_view(cls: object) -> type[AnyView]:
    if not (isinstance(cls, ViewMeta) and hasattr(cls, "__holdfast__")):
        raise DefinitionError(f"{shortened(cls)} is no view: give a class derived from View[…]")
    return cast("type[AnyView]", cls)
