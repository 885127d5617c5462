"""Columns as Arrow arrays, for Parquet files and for SQL. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as arrow

from holdfast.runtime.exporting.columns import Form, values_as

TYPES: dict[Form, Any] = {
    "bool": arrow.bool_(),
    "int": arrow.int64(),
    "number": arrow.decimal128(20, 0),
    "float": arrow.float64(),
    "decimal": arrow.string(),  # a column of decimals would need one scale for all values
    "text": arrow.string(),
    "bytes": arrow.binary(),
    "moment": arrow.timestamp("us", tz="UTC"),
    "date": arrow.date32(),
    "uuid": arrow.string(),
    "json": arrow.string(),
    "payload": arrow.string(),
}


def array_of(form: Form, values: Sequence[object]) -> Any:
    if form == "float" and set(map(type, values)) <= {float, type(None)}:
        return arrow.array(values, type=TYPES[form])  # as they are
    found = values_as(form, values)
    if form == "decimal":
        found = [None if each is None else str(each) for each in found]
    return arrow.array(found, type=TYPES[form])
