"""Agents, the state machines that a user writes: fields are the state, marked methods the moves.

An agent is a mutable msgspec struct; the metaclass attaches an `AgentDefinition` with the routes
from event classes to handlers. How events are folded into agents is in `stepping`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, dataclass_transform, get_args

import msgspec

from holdfast.model.annotations import Body
from holdfast.model.definition import (
    Definition,
    HoldfastMeta,
    check_choice,
    check_not_shared,
    has_default,
    is_positive,
    schema_of,
)
from holdfast.model.event import Event
from holdfast.model.handlers import Handler, Route, mode_field_of, routes_of
from holdfast.model.keys import shortened
from holdfast.model.signatures import collect
from holdfast.model.types import type_name

Unhandled: TypeAlias = Literal["ignore", "dead-letter", "defer"]
OnError: TypeAlias = Literal["dead-letter", "pause"]


@dataclass(frozen=True)
class AgentDefinition(Definition):
    unhandled: Unhandled = "ignore"
    on_error: OnError = "dead-letter"
    expire_after: float | None = None
    mode_field: str | None = None
    modes: tuple[Enum, ...] = ()
    handlers: tuple[Handler, ...] = ()
    routes: dict[type[Event], Route] = field(default_factory=dict)
    compiled: bool = False  # how it is folded, not what is stored: no schema knows it

    def serve(self, event: type[Event]) -> None:
        """Let a handler of a base class of this event take it too, unless it has one of its own."""
        if event not in self.routes:
            for base in event.__mro__[1:]:
                if base in self.routes:
                    self.routes[event] = self.routes[base]
                    return


class AgentMeta(HoldfastMeta):
    kind = "state"
    struct_options = {"array_like": True, "forbid_unknown_fields": True}
    class_keywords = ("unhandled", "on_error", "expire_after", "compiled")

    @classmethod
    def _check_defaults(
        metacls, body: Body, types: Mapping[str, object], bases: tuple[type, ...]
    ) -> None:
        check_all_default(body, types, "state field")

    @classmethod
    def _check_methods(metacls, body: Body) -> None:
        """Handlers are what an agent is made of; `collect` checks them when all else is known."""

    def _define(cls, body: Body, keywords: Mapping[str, object]) -> Definition:
        above = getattr(cls, "__holdfast__", None)
        options = {
            name: keywords.get(name, getattr(above, name, default))
            for name, default in _DEFAULTS.items()
        }
        compiled = keywords.get("compiled", getattr(above, "compiled", False))
        _check_options(body, {**options, "compiled": compiled})
        handlers = collect(body, cls.__bases__)
        types = {each.name: each.type for each in msgspec.structs.fields(cls)}  # type: ignore[arg-type]
        schema = schema_of(cls, type(cls).kind, body, options)
        mode_field, modes = mode_field_of(cls.__name__, types, handlers)
        return AgentDefinition(
            name=schema.name,
            kind=schema.kind,
            schema=schema,
            place=body.place(),
            mode_field=mode_field,
            modes=modes,
            handlers=handlers,
            routes=routes_of(cls.__name__, handlers, mode_field),
            compiled=bool(compiled),
            **options,  # type: ignore[arg-type]
        )

    def _finish(cls, body: Body) -> None:
        if cls.__holdfast__.compiled:  # type: ignore[attr-defined]
            from holdfast.model.compiling.checking import check_compiles, check_fields

            check_fields(cls, body)  # type: ignore[arg-type]
            check_compiles(cls, final=False)  # type: ignore[arg-type]


def check_all_default(body: Body, types: Mapping[str, object], noun: str) -> None:
    """Of a class whose instances come into being by themselves."""
    for name, kind in types.items():
        check_not_shared(body, name)
        if not has_default(body, name):
            raise body.place(name).error(
                f"{body.class_name}.{name} has no default: every {noun} needs one, as in "
                f"`{name}: {type_name(kind)} = {_example(kind)}`"
            )


_DEFAULTS: dict[str, object] = {
    "unhandled": "ignore",
    "on_error": "dead-letter",
    "expire_after": None,
}


def _check_options(body: Body, options: Mapping[str, object]) -> None:
    check_choice(body, "unhandled", options["unhandled"], get_args(Unhandled))
    check_choice(body, "on_error", options["on_error"], get_args(OnError))
    expire_after = options["expire_after"]
    if expire_after is not None and not is_positive(expire_after):
        raise body.place().error(
            f"{body.class_name} has expire_after={shortened(expire_after)}: give the seconds "
            f"after its last event, above 0, or leave it out"
        )
    if not isinstance(options["compiled"], bool):
        raise body.place().error(
            f"{body.class_name} has compiled={shortened(options['compiled'])}: write True or False"
        )


_EXAMPLES: dict[object, str] = {
    bool: "False",
    int: "0",
    float: "0.0",
    str: '""',
    bytes: 'b""',
}


def _example(kind: object) -> str:
    """A default that would do, for the message about a missing one."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{kind.__name__}.{next(iter(kind)).name}" if len(kind) else "..."
    text = type_name(kind)
    for beginning, example in (("list", "[]"), ("dict", "{}"), ("set", "set()"), ("tuple", "()")):
        if text.startswith(beginning):
            return example
    return _EXAMPLES.get(kind, "None" if "None" in text else "...")


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(msgspec.field,))
    class Agent:
        """A durable state machine. Every field needs a type and a default."""

        __holdfast__: ClassVar[AgentDefinition]
        __struct_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(
            cls,
            *,
            unhandled: Unhandled = "ignore",
            on_error: OnError = "dead-letter",
            expire_after: float | None = None,
            compiled: bool = False,
        ) -> None: ...

else:

    class Agent(msgspec.Struct, metaclass=AgentMeta):
        """A durable state machine. Every field needs a type and a default."""
