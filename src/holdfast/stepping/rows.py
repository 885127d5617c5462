"""Payload columns: how events and actions of several classes share one frame.

Rows of one class stand together, as a msgpack array in the column `rows.<schema id>`, or field by
field in the columns `cols.<schema id>.<field>`, whose names are in `cols.<schema id>`. The column
`schema` says which class each row of the frame has, and so restores their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import msgspec

from holdfast.errors import DamagedData
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Column, Frame, codes, const, opaque

_unpack_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_unpack_names = msgspec.msgpack.Decoder(list[str]).decode
_pack = msgspec.msgpack.Encoder().encode


def payload(objects: Sequence[object], codebook: Codebook) -> dict[str, Column]:
    classes = list(map(type, objects))
    distinct = set(classes)
    if len(distinct) == 1:
        cls = classes[0]
        schema_id = codebook.id_of(cls)
        return {
            "schema": const(schema_id),
            f"rows.{schema_id}": opaque(codebook.pack(objects, cls)),
        }
    columns = {"schema": codes([codebook.id_of(cls) for cls in classes])}
    for cls in dict.fromkeys(classes):
        own = [item for item in objects if type(item) is cls]
        columns[f"rows.{codebook.id_of(cls)}"] = opaque(codebook.pack(own, cls))
    return columns


def raw_payload(schema_ids: Sequence[int], rows: Sequence[bytes]) -> dict[str, Column]:
    """The same from rows that are already packed, for those who have no classes."""
    columns = {"schema": codes(schema_ids)}
    for schema_id in dict.fromkeys(schema_ids):
        own = [msgspec.Raw(r) for i, r in zip(schema_ids, rows, strict=True) if i == schema_id]
        columns[f"rows.{schema_id}"] = opaque(_pack(own))
    return columns


def read_payload(frame: Frame, codebook: Codebook) -> list[object]:
    """Every row of the frame as an instance of its class, in order."""
    only = frame.constant("schema")
    if only is not None:
        schema_id = cast(int, only)
        objects = _objects(frame, schema_id, frame.count, codebook)
        if len(objects) != frame.count:
            raise DamagedData(f"a frame of {frame.count} rows holds {len(objects)} payloads")
        return objects
    ids = schema_ids(frame)
    each = {i: iter(_objects(frame, i, count, codebook)) for i, count in Counter(ids).items()}
    try:
        return [next(each[i]) for i in ids]
    except StopIteration:
        raise DamagedData("a frame has fewer payloads than rows") from None


def _objects(frame: Frame, schema_id: int, count: int, codebook: Codebook) -> list[object]:
    reader = codebook.reader_of(schema_id)
    if in_columns(frame, schema_id):
        stored = [field.name for field in codebook.schema_of(schema_id).fields]
        if field_names(frame, schema_id) != stored:
            raise DamagedData(f"a frame has other columns of schema {schema_id} than its fields")
    return reader.rows(packed_rows(frame, schema_id, count))


def read_raw_payload(frame: Frame) -> list[tuple[int, bytes]]:
    """Every row as (schema id, packed bytes): for reading without the user's classes."""
    ids = schema_ids(frame)
    each = {i: iter(_raws(frame, i, count)) for i, count in Counter(ids).items()}
    return [(i, bytes(next(each[i]))) for i in ids]


def _raws(frame: Frame, schema_id: int, count: int) -> list[msgspec.Raw]:
    try:
        raws = _unpack_raw(packed_rows(frame, schema_id, count))
    except msgspec.DecodeError as error:
        raise DamagedData(f"the payloads of a frame cannot be read: {error}") from error
    if len(raws) < count:
        raise DamagedData("a frame has fewer payloads than rows")
    return raws


def schema_ids(frame: Frame) -> list[int]:
    """The class of every row."""
    frame.column("schema")
    ids = cast(list[int], frame.values("schema"))
    if not set(map(type, ids)) <= {int}:
        raise DamagedData("a frame has schema ids that are no numbers")
    return ids


def distinct_schemas(frame: Frame) -> list[int]:
    """The schema ids that occur, in the order of their first rows."""
    if frame.column("schema").kind == "const":
        frame = Frame(1, {"schema": frame.columns["schema"]})
    return list(dict.fromkeys(schema_ids(frame)))


def packed_rows(frame: Frame, schema_id: int, count: int) -> bytes:
    """The rows of one class, of which the frame has `count`, as a msgpack array."""
    if not in_columns(frame, schema_id):
        return frame.opaque(f"rows.{schema_id}")
    names = field_names(frame, schema_id)
    columns = [frame.expand(f"cols.{schema_id}.{name}", count) for name in names]
    return _pack(list(zip(*columns, strict=True)) if columns else [()] * count)


def in_columns(frame: Frame, schema_id: int) -> bool:
    return f"cols.{schema_id}" in frame


def field_names(frame: Frame, schema_id: int) -> list[str]:
    """The fields of a class whose rows stand in columns, in the order of its schema."""
    name = f"cols.{schema_id}"
    try:
        return _unpack_names(frame.opaque(name))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedData(f"column {name!r} cannot be read: {error}") from error


def select(frame: Frame, indexes: Sequence[int]) -> Frame:
    """The frame with only some of its rows; columns it does not know are carried whole."""
    columns = {
        name: frame.cut(name, frame.count, indexes)
        for name in frame.columns
        if name != "schema" and not name.startswith(("rows.", "cols."))
    }
    if "schema" in frame:
        columns |= _select_payload(frame, indexes)
    return Frame(len(indexes), columns)


def _select_payload(frame: Frame, indexes: Sequence[int]) -> dict[str, Column]:
    ids = schema_ids(frame)
    counts: Counter[int] = Counter()
    places = []  # of each row among those of its class
    for schema_id in ids:
        places.append(counts[schema_id])
        counts[schema_id] += 1
    chosen: dict[int, list[int]] = {}
    for i in indexes:
        chosen.setdefault(ids[i], []).append(places[i])
    columns = {"schema": codes([ids[i] for i in indexes])}
    for schema_id, rows in chosen.items():
        if in_columns(frame, schema_id):
            prefix = f"cols.{schema_id}"
            columns[prefix] = frame.columns[prefix]
            for name in field_names(frame, schema_id):
                whole = f"{prefix}.{name}"
                columns[whole] = frame.cut(whole, counts[schema_id], rows)
        else:
            raws = _raws(frame, schema_id, counts[schema_id])
            columns[f"rows.{schema_id}"] = opaque(_pack([raws[row] for row in rows]))
    return columns
