"""`parquet:DIR`: files that data frames and query engines read. Needs pyarrow."""

from __future__ import annotations

from typing import Any, BinaryIO

from holdfast.errors import UsageError
from holdfast.runtime.exporting.columns import (
    FIXED,
    Column,
    Form,
    columns_of,
    fitting,
    values_as,
)
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.target import Batch, Kind

try:
    import pyarrow as arrow
    import pyarrow.parquet as parquet
except ModuleNotFoundError as error:
    if error.name != "pyarrow":
        raise
    raise UsageError("Parquet needs pyarrow: pip install 'holdfast[parquet]'") from None

_TYPES: dict[Form, Any] = {
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


class ParquetWriter:
    ending = ".parquet"

    def __init__(self, kind: Kind, payloads: Payloads) -> None:
        self._kind = kind
        self._payloads = payloads

    def write(self, file: BinaryIO, batch: Batch) -> None:
        found = {n: _array(form, batch.columns[n]) for n, form in FIXED[self._kind].items()}
        if self._kind == "states":
            for column in self._columns(batch.table):
                values = [state.get(column.field) for state in batch.columns["state"]]  # type: ignore[attr-defined]
                found[column.name] = _array(fitting(column.form, values), values)
        parquet.write_table(arrow.table(found), file, compression="zstd")

    def _columns(self, agent: str) -> list[Column]:
        return columns_of(self._payloads.of_state(agent), FIXED["states"])


def _array(form: Form, values: list[object]) -> Any:
    found = values_as(form, values)
    if form == "decimal":
        found = [None if each is None else str(each) for each in found]
    return arrow.array(found, type=_TYPES[form])
