"""Payload columns: how events and actions of several classes share one frame.

Rows of one class stand together as a msgpack array in the column `rows.<schema id>`; the column
`schema` says which class each row of the frame has, and so restores their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from holdfast.errors import DamagedData
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Column, Frame, codes, const, opaque

_unpack_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
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
        objects = codebook.reader_of(schema_id).rows(frame.opaque(f"rows.{schema_id}"))
        if len(objects) != frame.count:
            raise DamagedData(f"a frame of {frame.count} rows holds {len(objects)} payloads")
        return objects
    ids = cast(list[int], frame.values("schema"))
    each = {i: iter(codebook.reader_of(i).rows(frame.opaque(f"rows.{i}"))) for i in set(ids)}
    try:
        return [next(each[i]) for i in ids]
    except StopIteration:
        raise DamagedData("a frame has fewer payloads than rows") from None


def read_raw_payload(frame: Frame) -> list[tuple[int, bytes]]:
    """Every row as (schema id, packed bytes): for reading without the user's classes."""
    ids = cast(list[int], frame.values("schema"))
    each = {i: iter(_unpack_raw(frame.opaque(f"rows.{i}"))) for i in set(ids)}
    try:
        return [(i, bytes(next(each[i]))) for i in ids]
    except StopIteration:
        raise DamagedData("a frame has fewer payloads than rows") from None


def select(frame: Frame, indexes: Sequence[int]) -> Frame:
    """The frame with only some of its rows; columns it does not know are carried whole."""
    raws = read_raw_payload(frame) if "schema" in frame else None
    columns: dict[str, Column] = {}
    for name, column in frame.columns.items():
        if name == "schema" or name.startswith("rows."):
            continue
        if column.kind in ("const", "opaque"):
            columns[name] = column
        else:
            values = cast(list[object], frame.values(name))
            columns[name] = Column("rows", _pack([values[i] for i in indexes]))
    if raws is not None:
        columns |= raw_payload([raws[i][0] for i in indexes], [raws[i][1] for i in indexes])
    return Frame(len(indexes), columns)
