"""`parquet:DIR`: files that data frames and query engines read. Needs pyarrow."""

from __future__ import annotations

from typing import BinaryIO

from holdfast.errors import UsageError
from holdfast.runtime.exporting.columns import (
    FIXED,
    Column,
    columns_of,
    fitting,
)
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.target import Batch, Kind

try:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    from holdfast.runtime.exporting.arrays import array_of
except ModuleNotFoundError as error:
    if error.name != "pyarrow":
        raise
    raise UsageError("Parquet needs pyarrow: pip install 'holdfast[parquet]'") from None


class ParquetWriter:
    ending = ".parquet"

    def __init__(self, kind: Kind, payloads: Payloads) -> None:
        self._kind = kind
        self._payloads = payloads

    def write(self, file: BinaryIO, batch: Batch) -> None:
        found = {n: array_of(form, batch.columns[n]) for n, form in FIXED[self._kind].items()}
        if self._kind == "states":
            for column in self._columns(batch.table):
                values = [state.get(column.field) for state in batch.columns["state"]]  # type: ignore[attr-defined]
                found[column.name] = array_of(fitting(column.form, values), values)
        parquet.write_table(arrow.table(found), file, compression="zstd")

    def _columns(self, agent: str) -> list[Column]:
        return columns_of(self._payloads.of_state(agent), FIXED["states"])
