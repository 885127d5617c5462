"""How the classes a user writes are checked while they are made, and what is known of each after.

The metaclass here makes `Event`, `Action` and (extended) `Agent`: msgspec structs, so that making
and decoding an instance runs in C. All checks happen once, at import; instances cost nothing for
them. Where the classes themselves are: `event` and `agent`.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType
from typing import ClassVar, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.errors import DefinitionError
from holdfast.model.annotations import Body, Place
from holdfast.model.keys import shortened
from holdfast.model.schema import Field, Kind, Schema, default_for_schema
from holdfast.model.types import describe, type_name

Priority: TypeAlias = Literal["urgent", "normal", "low"]
HANDLER_NOTE = "__holdfast_on__"  # where `on` leaves what it was given


@dataclass(frozen=True)
class Definition:
    """What Holdfast knows of a class, as `cls.__holdfast__`. The name on the wire is the bare class
    name, so that a class means the same in `__main__` and in an imported module."""

    name: str
    kind: Kind
    schema: Schema
    place: Place
    expires: float | None = None
    priority: Priority = "normal"
    during_ground_stop: bool = False


_Made = TypeVar("_Made", bound="HoldfastMeta")


class HoldfastMeta(msgspec.StructMeta):
    """Makes structs, and refuses what could not be stored or would surprise."""

    kind: ClassVar[Kind] = "event"
    # A row with more values than fields is damage; msgspec would drop them in silence.
    struct_options: ClassVar[Mapping[str, bool]] = {
        "array_like": True,
        "forbid_unknown_fields": True,
        "frozen": True,
        "gc": False,  # frozen values form no cycles; a batch of them is not worth a collection
    }
    class_keywords: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __prepare__(metacls, name: str, bases: tuple[type, ...], /, **keywords: object) -> Body:
        return Body(name, sys._getframe(1))

    def __new__(
        metacls: type[_Made],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        /,
        **keywords: object,
    ) -> _Made:
        is_root = not any(isinstance(base, HoldfastMeta) for base in bases)
        body = as_body(name, namespace)
        if not is_root:
            metacls._check_keywords(body, keywords)
            check_body(body, bases)
            metacls._check_methods(body)
        cls = metacls._make(name, bases, body)
        if not is_root:
            cls.__holdfast__ = cls._define(body, keywords)
            cls._finish(body)
        return cls

    def __init__(cls, *_: object, **__: object) -> None:
        """The class is complete already; this only keeps our keywords from `type`."""

    @classmethod
    def _make(metacls: type[_Made], name: str, bases: tuple[type, ...], body: Body) -> _Made:
        types = body.resolve_fields()
        metacls._check_defaults(body, types, bases)
        namespace = dict(body)
        # Resolved now, so that msgspec never has to look for names of a function that is gone.
        namespace["__annotations__"] = {**body.fields, **types}
        try:
            return super().__new__(metacls, name, bases, namespace, **metacls.struct_options)  # type: ignore[arg-type]
        except TypeError as error:
            raise body.place().error(f"{name} cannot be made: {error}") from error

    @classmethod
    def _check_defaults(
        metacls, body: Body, types: Mapping[str, object], bases: tuple[type, ...]
    ) -> None:
        optional = [name for base in bases for name in default_names(base)]
        for name in types:
            check_not_shared(body, name)
            if has_default(body, name):
                optional.append(name)
            elif optional:
                raise body.place(name).error(
                    f"{body.class_name}.{name} has no default, but {optional[-1]} above it has "
                    f"one: put {name} first, or give it a default too"
                )

    @classmethod
    def _check_methods(metacls, body: Body) -> None:
        for name, value in body.items():
            if hasattr(value, HANDLER_NOTE):
                raise body.place(name).error(
                    f"{body.class_name}.{name} is marked with `on`, but {metacls.kind}s have no "
                    f"handlers: move it to an Agent"
                )

    @classmethod
    def _check_keywords(metacls, body: Body, keywords: Mapping[str, object]) -> None:
        for keyword in keywords:
            if keyword not in metacls.class_keywords:
                known = ", ".join(metacls.class_keywords) or "none"
                raise body.place().error(
                    f"{body.class_name} has the class keyword {keyword!r}, which is not known: "
                    f"remove it, or use one of: {known}"
                )

    def _define(cls, body: Body, keywords: Mapping[str, object]) -> Definition:
        schema = schema_of(cls, type(cls).kind, body, {})
        return Definition(schema.name, schema.kind, schema, body.place())

    def _finish(cls, body: Body) -> None:
        """What can only be checked when the definition is complete."""

    __holdfast__: Definition


# ---------------------------------------------------------------- checks before the class is made


def as_body(name: str, namespace: dict[str, object]) -> Body:
    """The namespace of the class statement; one that was put together by hand has no lines."""
    if isinstance(namespace, Body):
        return namespace
    body = Body(name, sys._getframe(2))
    dict.update(body, namespace)
    return body


def check_body(body: Body, bases: tuple[type, ...]) -> None:
    annotations = body.fields
    for name in annotations:
        if name.startswith("_"):
            raise body.place(name).error(
                f"{body.class_name}.{name} begins with an underscore: fields are part of what is "
                f"stored and read by others, so name it {name.strip('_') or 'otherwise'!r}"
            )
        methods = (body.get(name), body.replaced.get(name), _inherited(bases, name))
        if any(map(is_method, methods)):
            raise _field_and_method(body, name)
    inherited = {name for base in bases for name in getattr(base, "__struct_fields__", ())}
    for name, value in body.items():
        if name in annotations or name.startswith("__") or isinstance(value, type):
            continue
        if is_method(value):
            if name in inherited:
                raise _field_and_method(body, name)
        elif not name.isupper() and isinstance(value, (*PLAIN_VALUES, Enum)):
            raise body.place(name).error(
                f"{body.class_name}.{name} has no type, so it would not be stored: write "
                f"`{name}: {type(value).__name__} = {shortened(value)}`, or name a constant in "
                f"upper case"
            )
    _check_special_methods(body)


PLAIN_VALUES = (bool, int, float, str, bytes, list, dict, set, frozenset, tuple)


def _check_special_methods(body: Body) -> None:
    if "__init__" in body:
        raise body.place("__init__").error(
            f"{body.class_name}.__init__ would never be called: give the fields defaults instead"
        )
    if "upcast" in body and not isinstance(body["upcast"], classmethod):
        raise body.place("upcast").error(
            f"{body.class_name}.upcast has to be a classmethod: put `@classmethod` above it, as in "
            f"`def upcast(cls, old: dict[str, object]) -> dict[str, object]`"
        )


def is_method(value: object) -> bool:
    return isinstance(value, (FunctionType, classmethod, staticmethod, property))


def _inherited(bases: tuple[type, ...], name: str) -> object:
    for base in bases:
        for cls in base.__mro__:
            if name in vars(cls):
                return vars(cls)[name]
    return None


def _field_and_method(body: Body, name: str) -> DefinitionError:
    return body.place(name).error(
        f"{body.class_name}.{name} is both a field and a method: one would hide the other, so "
        f"rename one of them"
    )


_FIELD = type(msgspec.field())


def has_default(body: Body, name: str) -> bool:
    value = body.get(name, msgspec.NODEFAULT)
    if isinstance(value, _FIELD):
        return {value.default, value.default_factory} != {msgspec.NODEFAULT}
    return value is not msgspec.NODEFAULT


def default_names(base: type) -> list[str]:
    """The fields of a base class that have a default."""
    if not issubclass(base, msgspec.Struct):
        return []
    return [each.name for each in msgspec.structs.fields(base) if not each.required]


def check_not_shared(body: Body, name: str) -> None:
    """Refuse a default that all instances would share and could change under each other."""
    value = body.get(name)
    frozen = getattr(value, "__dataclass_params__", getattr(value, "__struct_config__", None))
    filled = isinstance(value, (list, dict, set, bytearray)) and len(value) > 0
    if filled or (frozen is not None and not frozen.frozen):
        raise body.place(name).error(
            f"{body.class_name}.{name} has the default {shortened(value)}, which all instances "
            f"would share: use an empty one, or `msgspec.field(default_factory=lambda: ...)`"
        )


def is_positive(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < value < math.inf  # type: ignore[operator]


def check_choice(body: Body, keyword: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = ", ".join(repr(each) for each in choices)
        raise body.place().error(
            f"{body.class_name} has {keyword}={shortened(value)}: use one of {listed}"
        )


# ---------------------------------------------------------------- the schema of a class


def schema_of(cls: type, kind: Kind, body: Body, options: Mapping[str, object]) -> Schema:
    """The schema of a struct class, with the place of the field in every complaint."""
    fields, defaults = [], {}
    for each in msgspec.structs.fields(cls):
        what, place = f"{cls.__name__}.{each.name}", body.place(each.name)
        try:
            tree = describe(each.type)
        except DefinitionError as error:
            raise place.error(f"{what}: {error}") from error
        if each.encode_name != each.name:
            raise place.error(f"{what} is renamed to {each.encode_name!r}: use that as its name")
        fields.append(Field(each.name, tree, each.required))
        known, default = _default(each, what, place)
        if known:
            defaults[each.name] = default
    return Schema(kind, cls.__name__, tuple(fields), {"defaults": defaults, **options})


def _default(field: msgspec.structs.FieldInfo, what: str, place: Place) -> tuple[bool, object]:
    if field.default_factory in (list, dict, set):
        return default_for_schema(field.default_factory())
    # What another factory makes may differ every time, so it is not part of the schema.
    if field.default is msgspec.NODEFAULT:
        return False, None
    try:
        known, default = default_for_schema(field.default)
        msgspec.convert(default, field.type)
    except (msgspec.ValidationError, TypeError) as error:
        raise place.error(
            f"{what} is a {type_name(field.type)}, which its default {shortened(field.default)} "
            f"is not: change one of them"
        ) from error
    return known, default
