"""The codebook: which class belongs to which stored schema id, and how to read its rows.

Schema ids are given out by the engine's catalog; asking for a new one is handed in as a function,
so that nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import DamagedData, OutdatedCode, UsageError
from holdfast.model.calls import CallFunction
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import shortened
from holdfast.model.schema import RowReader, Schema
from holdfast.stepping.shape import Shape, shape_of

EVENT_BYTES_MAX = 1024 * 1024
_encoder = msgspec.msgpack.Encoder()

type_error = (msgspec.ValidationError, TypeError, OverflowError, ValueError)


class UnknownSchema(OutdatedCode):
    """A stored schema that this program has no class for: hold, do not guess."""

    def __init__(self, schema_id: int, name: str | None) -> None:
        known = name or f"schema {schema_id}"
        super().__init__(
            f"{known} is unknown to this program: run the newer code that defines it, "
            "or add the class to the fleet"
        )
        self.schema_id = schema_id


class Codebook:
    def __init__(
        self,
        fleet: FleetModel,
        stored: Mapping[int, Schema],
        register: Callable[[Schema], int],
    ) -> None:
        self._fleet = fleet
        self._stored = dict(stored)
        self._register = register
        self._ids: dict[type, int] = {}
        self._readers: dict[int, RowReader[object]] = {}
        self._shapes: dict[type, Shape | None] = {}

    def learn(self, stored: Mapping[int, Schema]) -> None:
        self._stored.update(stored)

    def knows(self, schema_id: int) -> bool:
        return schema_id in self._stored

    def schemas(self) -> list[tuple[int, Schema]]:
        """All that is known by now, with what was met at run time."""
        return sorted(self._stored.items(), key=lambda each: each[0])

    def schema_of(self, schema_id: int) -> Schema:
        found = self._stored.get(schema_id)
        if found is None:
            raise UnknownSchema(schema_id, None)
        return found

    def need_agents(self, names: Iterable[str]) -> None:
        for name in set(names):
            if name not in self._fleet.agents:
                raise UnknownSchema(0, f"agent {name}")

    def id_of(self, cls: type) -> int:
        found = self._ids.get(cls)
        if found is None:
            found = self._ids[cls] = self._find(cls)
        return found

    def _find(self, cls: type) -> int:
        definition = getattr(cls, "__holdfast__", None)
        if definition is None:
            raise UsageError(f"{cls.__name__} is no Event, Action or Agent: derive it from one")
        if definition.kind != "state":
            self._fleet.adopt(cls)
        schema: Schema = definition.schema
        for schema_id, stored in self._stored.items():
            if (stored.kind, stored.fingerprint) == (schema.kind, schema.fingerprint):
                return schema_id
        schema_id = self._register(schema)
        self._stored[schema_id] = schema
        return schema_id

    def know_call(self, function: CallFunction, reply: type[Event]) -> None:
        """So that whoever runs it finds the function, and whoever reads the reply the class."""
        self._fleet.adopt_call(function)
        self.id_of(reply)

    def reader_of(self, schema_id: int) -> RowReader[object]:
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._make_reader(schema_id)
        return reader

    def _make_reader(self, schema_id: int) -> RowReader[object]:
        stored = self.schema_of(schema_id)
        cls = self._class_of(stored)
        if cls is None or schema_id > self.id_of(cls):
            # A class we lack, or a newer form of one we have: either way newer code wrote it.
            raise UnknownSchema(schema_id, f"{stored.kind} {stored.name}")
        return RowReader(cls, stored)

    def _class_of(self, stored: Schema) -> type[object] | None:
        if stored.kind == "event":
            return self._fleet.events.get(stored.name)
        if stored.kind == "action":
            return self._fleet.actions.get(stored.name)
        return self._fleet.agents.get(stored.name)

    def pack(self, rows: Sequence[object], cls: type) -> bytes:
        """Rows of one class as a msgpack array, checked by reading them back where they need it."""
        try:
            packed = _encoder.encode(rows)
            reader, shape = self.reader_of(self.id_of(cls)), self._shape_of(cls)
            if shape is None or not shape.fits(packed, len(rows)):
                reader.rows(packed)
        except (*type_error, DamagedData) as error:
            raise UsageError(f"{cls.__name__}: {first_misfit(rows, cls, error)}") from None
        if len(packed) > EVENT_BYTES_MAX:
            _check_sizes(rows, cls)
        return packed

    def _shape_of(self, cls: type) -> Shape | None:
        try:
            return self._shapes[cls]
        except KeyError:
            schema: Schema = cls.__holdfast__.schema  # type: ignore[attr-defined]
            shape = self._shapes[cls] = shape_of(cls, schema)
            return shape

    def pack_one(self, row: object) -> bytes:
        return _encoder.encode(row)


def _check_sizes(rows: Sequence[object], cls: type) -> None:
    for row in rows:
        size = len(_encoder.encode(row))
        if size > EVENT_BYTES_MAX:
            raise UsageError(
                f"{cls.__name__} of {size:,} bytes exceeds the bound of {EVENT_BYTES_MAX:,}: "
                "store large data elsewhere and send a reference"
            )


def first_misfit(rows: Sequence[object], cls: type, error: Exception) -> str:
    """Say which field is wrong; msgspec names only positions in arrays."""
    names = [field.name for field in msgspec.structs.fields(cls)]
    hints = msgspec.structs.fields(cls)
    for row in rows:
        for name, hint in zip(names, hints, strict=True):
            value = getattr(row, name)
            try:
                msgspec.msgpack.decode(_encoder.encode(value), type=hint.type)
            except type_error as reason:
                return f"field {name!r} cannot be {shortened(value)} {_advice(str(reason))}"
    return str(error)


def _advice(reason: str) -> str:
    longer = re.search(r"of length <= (\d+)", reason)
    if longer is not None:
        return f"({longer[1]} is the most): widen the field, or cut the value"
    return f"({reason}): give the field its own type"
