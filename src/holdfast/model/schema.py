"""What is stored about a class, when one class may follow another, and how rows are read.

A schema is kept beside the data it describes. `RowReader` reads rows into the classes of today,
whatever version wrote them; `UntypedReader` reads and writes them with the stored schema alone,
for commands that have no user code. Rows are msgpack arrays of field values, in order.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from holdfast.errors import DamagedData, SchemaError, UsageError
from holdfast.model.keys import shortened
from holdfast.model.types import TypeTree, accepts, canonical, rebuild
from holdfast.model.values import named, positional

Kind: TypeAlias = Literal["event", "action", "state", "row"]
Buffer: TypeAlias = bytes | bytearray | memoryview
Upcast: TypeAlias = Callable[[dict[str, object]], dict[str, object]]
_T = TypeVar("_T")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


@dataclass(frozen=True)
class Field:
    name: str
    type: TypeTree
    required: bool


@dataclass(frozen=True)
class Schema:
    """One version of one class. Options travel with it but do not make it another version:
    `defaults` (values of omitted fields), and what the class was declared with."""

    kind: Kind
    name: str
    fields: tuple[Field, ...]
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hex digits that are equal for equal kind, name and fields, and for nothing else."""
        text = canonical([self.kind, self.name, self._fields_json()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "fields": self._fields_json(),
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> "Schema":
        try:
            rows = cast("list[tuple[str, TypeTree, bool]]", stored["fields"])
            fields = tuple(Field(name, kind, required) for name, kind, required in rows)
            options = cast("Mapping[str, object]", stored.get("options", {}))
            return cls(cast(Kind, stored["kind"]), str(stored["name"]), fields, options)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedData(f"a stored schema cannot be read: {error!r}") from error

    def _fields_json(self) -> list[list[object]]:
        return [[each.name, each.type, each.required] for each in self.fields]


# ---------------------------------------------------------------- one version after another


def check_successor(new: Schema, old: Schema, has_upcast: bool) -> None:
    """Refuse a class that would lose or misread what an older version of it has stored."""
    if (new.kind, new.name) != (old.kind, old.name):
        raise SchemaError(
            f"{new.name} is of kind {new.kind!r}, but the data has a {old.kind} {old.name}: "
            f"give the new class another name"
        )
    if has_upcast or new.fingerprint == old.fingerprint:
        return
    before = {each.name: each for each in old.fields}
    after = {each.name: each for each in new.fields}
    for name in before:
        if name not in after:
            raise SchemaError(_gone(new, name, [each for each in after if each not in before]))
    for name, field_now in after.items():
        if name not in before and field_now.required:
            raise SchemaError(
                f"{new.name}.{name} is new and has no default, but stored rows do not have it: "
                f"give it a default, or write an `upcast` that supplies it"
            )
        if name in before and not accepts(field_now.type, before[name].type):
            raise SchemaError(
                f"{new.name}.{name} was stored as {canonical(before[name].type)} and is "
                f"{canonical(field_now.type)} now: keep the old type (a new field with a default "
                f"can hold the new one), or write an `upcast` that converts it"
            )


def _gone(new: Schema, name: str, added: list[str]) -> str:
    renamed = f" (renamed to {added[0]}?)" if len(added) == 1 else ""
    return (
        f"{new.name}.{name} is stored, but the class has no such field{renamed}: its values would "
        f"be lost. Keep the field, with a default if nothing sets it any more, or write an "
        f"`upcast` that says where they go"
    )


def upcast_of(cls: type) -> Upcast | None:
    """The class's own way from old fields to new ones, if it has one."""
    return getattr(cls, "upcast", None)


# ---------------------------------------------------------------- reading into classes


class RowReader(Generic[_T]):
    """Reads rows that `stored` describes into `cls`; SchemaError if the two do not fit."""

    def __init__(self, cls: type[_T], stored: Schema) -> None:
        self._cls = cls
        self._stored = stored
        self._schema: Schema = cls.__holdfast__.schema  # type: ignore[attr-defined]
        self._upcast = upcast_of(cls)
        check_successor(self._schema, stored, self._upcast is not None)
        # Plain decoding, without Python per row, also serves rows that only lack fields at the
        # end: msgspec fills in their defaults, and widens numbers and unions by itself.
        same = stored.fingerprint == self._schema.fingerprint
        self._decode_rows: Callable[[Buffer], list[_T]] = self._translate_rows
        self._decode_row: Callable[[Buffer], _T] = self._translate_row
        if same or (self._upcast is None and self._stored_is_beginning()):
            self._decode_rows = msgspec.msgpack.Decoder(list[cls]).decode  # type: ignore[valid-type]
            self._decode_row = msgspec.msgpack.Decoder(cls).decode
        self._types = {each.name: each.type for each in msgspec.structs.fields(cls)}  # type: ignore[arg-type]
        self._trees = {each.name: each.type for each in self._schema.fields}

    def rows(self, buffer: Buffer) -> list[_T]:
        try:
            return self._decode_rows(buffer)
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    def row(self, buffer: Buffer) -> _T:
        try:
            return self._decode_row(buffer)
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    def _stored_is_beginning(self) -> bool:
        names = [each.name for each in self._schema.fields]
        stored = [each.name for each in self._stored.fields]
        return names[: len(stored)] == stored

    def _translate_rows(self, buffer: Buffer) -> list[_T]:
        return [self._translate(row) for row in msgspec.msgpack.decode(buffer, type=list[Any])]

    def _translate_row(self, buffer: Buffer) -> _T:
        return self._translate(msgspec.msgpack.decode(buffer))

    def _translate(self, row: object) -> _T:
        values = _by_name(self._stored, row)
        if self._upcast is not None:
            values = self._upcasted(self._upcast, values)
        converted: dict[str, object] = {}
        for name, value in values.items():
            try:
                converted[name] = msgspec.convert(value, self._types[name])
            except msgspec.ValidationError as error:
                raise self._unfit(name, value, error) from error
        try:
            return self._cls(**converted)
        except TypeError as error:
            raise SchemaError(
                f"{self._schema.name}.upcast left out a field: {error}. Return it, or give it a "
                f"default"
            ) from error

    def _upcasted(self, upcast: Upcast, values: dict[str, object]) -> dict[str, object]:
        where = f"{self._schema.name}.upcast"
        trees = {each.name: each.type for each in self._stored.fields}
        readable = {name: named(trees[name], value) for name, value in values.items()}
        try:
            result = upcast(readable)
        except Exception as error:
            raise SchemaError(
                f"{where} failed on a row of {self._stored.fingerprint}: {error!r}. It gets the "
                f"fields {', '.join(trees)}"
            ) from error
        if not isinstance(result, Mapping):
            raise SchemaError(
                f"{where} returned {shortened(result)}: return a dict of field values"
            )
        for name in result:
            if name not in self._trees:
                raise SchemaError(
                    f"{where} returned {name!r}, which {self._schema.name} does not have: "
                    f"remove it from the dict if its value may be lost"
                )
        return {name: positional(self._trees[name], value) for name, value in result.items()}

    def _unfit(self, name: str, value: object, error: Exception) -> SchemaError | DamagedData:
        if self._upcast is None:
            return self._damaged(error)
        return SchemaError(
            f"{self._schema.name}.upcast returned {shortened(value)} for {name}: {error}"
        )

    def _damaged(self, error: Exception) -> DamagedData:
        return DamagedData(
            f"a stored {self._stored.kind} {self._stored.name} is not what its schema "
            f"{self._stored.fingerprint} says: {error}. Restore the data"
        )


def _by_name(stored: Schema, row: object) -> dict[str, object]:
    if not isinstance(row, list) or len(row) != len(stored.fields):
        raise DamagedData(
            f"a stored {stored.kind} {stored.name} has not the {len(stored.fields)} values that "
            f"its schema {stored.fingerprint} says: {shortened(row)}. Restore the data"
        )
    return {each.name: value for each, value in zip(stored.fields, row, strict=True)}


# ---------------------------------------------------------------- reading without classes


class UntypedReader:
    """Rows as dicts by field name, from the stored schema alone, and back."""

    def __init__(self, stored: Schema) -> None:
        self._stored = stored
        self._trees = {each.name: each.type for each in stored.fields}

    @functools.cached_property
    def _types(self) -> dict[str, object]:
        return {name: rebuild(tree) for name, tree in self._trees.items()}

    def rows(self, buffer: Buffer) -> list[dict[str, object]]:
        decoded = self._decode(buffer)
        if not isinstance(decoded, list):
            raise self._damaged(f"expected rows, got {shortened(decoded)}")
        return [self._named(row) for row in decoded]

    def row(self, buffer: Buffer) -> dict[str, object]:
        return self._named(self._decode(buffer))

    def pack(self, values: Mapping[str, object]) -> bytes:
        """The row for these values, checked against the stored types."""
        name = self._stored.name
        for given in values:
            if given not in self._trees:
                has = ", ".join(self._trees) or "no fields"
                raise UsageError(f"{name} has no field {shortened(given)}: it has {has}")
        return msgspec.msgpack.encode(
            [self._checked(each, self._value(each, values)) for each in self._stored.fields]
        )

    def _value(self, wanted: Field, values: Mapping[str, object]) -> object:
        defaults = cast("Mapping[str, object]", self._stored.options.get("defaults", {}))
        if wanted.name in values:
            return values[wanted.name]
        if wanted.name in defaults:
            return defaults[wanted.name]
        raise UsageError(
            f"{self._stored.name} needs the field {wanted.name!r} ({canonical(wanted.type)}): "
            f"give it a value"
        )

    def _checked(self, wanted: Field, value: object) -> object:
        try:
            shaped = positional(wanted.type, value)
            # JSON has no other keys than strings, so they may stand for numbers.
            return msgspec.convert(shaped, self._types[wanted.name], str_keys=True)
        except (msgspec.ValidationError, UsageError) as error:
            raise UsageError(
                f"{self._stored.name}.{wanted.name} cannot be {shortened(value)}: {error}"
            ) from error

    def _named(self, row: object) -> dict[str, object]:
        values = _by_name(self._stored, row)
        return {name: named(self._trees[name], value) for name, value in values.items()}

    def _decode(self, buffer: Buffer) -> object:
        try:
            return cast(object, msgspec.msgpack.decode(buffer))
        except _UNREADABLE as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> DamagedData:
        return DamagedData(
            f"stored rows of {self._stored.kind} {self._stored.name} cannot be read: {what}. "
            f"Restore the data"
        )


def default_for_schema(default: object) -> tuple[bool, object]:
    """Whether a default can be kept with the schema, and how. JSON has no word for NaN."""
    value = _plain(default)
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False, value
    return True, value


def _plain(default: object) -> object:
    try:
        return cast(object, msgspec.to_builtins(default, order="deterministic"))
    except TypeError:  # a set or the keys of a dict that cannot be sorted
        return cast(object, msgspec.to_builtins(default))
