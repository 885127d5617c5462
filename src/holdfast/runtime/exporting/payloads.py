"""Payloads as JSON, by the stored schemas alone.

Numbers that JSON has no word for become the texts "NaN", "Infinity" and "-Infinity", as PostgreSQL
spells them; bytes become base64; sets become sorted lists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import msgspec

from holdfast.errors import DamagedData
from holdfast.model.schema import Schema, UntypedReader
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import packed_rows, schema_ids

_json = msgspec.json.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[list[object]]).decode
# Values of these types are the same on disk and for people: most events have no others.
_AS_STORED = ("bool", "int", "float", "str", "bytes", "uuid", "decimal", "null")


def json_text(value: object) -> bytes:
    text = _json(value)
    # The encoder writes null for what is no number: only then it is worth a look.
    return _json(_with_words(value)) if b"null" in text else text


def _with_words(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _with_words(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_words(each) for each in value]
    return value


class Payloads:
    """Rows of frames as (name of the class, JSON), and stored states as dicts of values."""

    def __init__(self, load: Callable[[], dict[int, Schema]]) -> None:
        self._load = load
        self._schemas: dict[int, Schema] = {}
        self._readers: dict[int, UntypedReader] = {}

    def schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:  # a program that started since may have brought it
            self._schemas = self._load()
        return self._schemas[schema_id]

    def agents(self) -> list[str]:
        self._schemas = self._load()
        return sorted({each.name for each in self._schemas.values() if each.kind == "state"})

    def of_state(self, name: str) -> list[Schema]:
        """Every version of a class of agents, oldest first."""
        ordered = sorted(self._schemas.items())
        return [each for _, each in ordered if (each.kind, each.name) == ("state", name)]

    def values(self, schema_id: int, row: bytes) -> dict[str, object]:
        return self._reader(schema_id).row(row)

    def one(self, schema_id: int, row: bytes) -> tuple[str, bytes]:
        return self.schema(schema_id).name, json_text(self.values(schema_id, row))

    def of_frame(self, frame: Frame) -> tuple[list[int], list[bytes]]:
        """The schema and the JSON of every row, in order."""
        ids = schema_ids(frame)
        each = {
            i: iter([json_text(v) for v in self._rows(i, packed_rows(frame, i, count))])
            for i, count in Counter(ids).items()
        }
        try:
            return ids, [next(each[i]) for i in ids]
        except StopIteration:
            raise DamagedData("a frame has fewer payloads than rows") from None

    def _rows(self, schema_id: int, packed: bytes) -> list[dict[str, object]]:
        fields = self.schema(schema_id).fields
        if not all(field.type in _AS_STORED for field in fields):
            return self._reader(schema_id).rows(packed)
        names = [field.name for field in fields]
        try:
            return [dict(zip(names, row, strict=True)) for row in _unpack(packed)]
        except (msgspec.DecodeError, ValueError):
            return self._reader(schema_id).rows(packed)  # says what is wrong with them

    def _reader(self, schema_id: int) -> UntypedReader:
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = UntypedReader(self.schema(schema_id))
        return reader
