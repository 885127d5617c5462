"""Targets of many files: `parquet:DIR`, and `ndjson:DIR`. A file per batch, a folder per kind."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from holdfast.engine.faults import FaultPoints
from holdfast.runtime.exporting.folder import Folder, explained, file_name
from holdfast.runtime.exporting.target import Batch, Kind, Place


class Writer(Protocol):
    """How a batch is written into one file."""

    ending: str

    def write(self, file: BinaryIO, batch: Batch) -> None: ...


class Files:
    def __init__(
        self, path: Path, fleet: str, kind: Kind, writer: Writer, reach: FaultPoints
    ) -> None:
        self._writer = writer
        self._kind = kind
        self._folder = Folder(path, fleet, kind, writer.ending, reach)
        self.places = self._folder.places
        self.clear = self._folder.clear
        self.close = self._folder.close

    def write(self, batches: Iterable[Batch], before: Place | None, after: Place) -> int:
        start = before or Place(after.partition, after.incarnation)
        names: list[str] = []
        rows = 0
        try:
            for batch in batches:
                number = f"-{len(names):03d}" if self._kind == "states" else ""
                name = file_name(start, after, f"{number}{self._writer.ending}")
                names.append(f"{batch.table}/{name}" if self._kind == "states" else name)
                rows += len(batch)
                self._part(names[-1], batch)
            with explained(self._folder.path):
                self._folder.commit(names, after)
        except Exception:
            self._folder.discard()
            raise
        return rows

    def _part(self, name: str, batch: Batch) -> None:
        with explained(self._folder.path), open(self._folder.hidden(name), "wb") as file:
            self._writer.write(file, batch)
            file.flush()
            os.fsync(file.fileno())

    def reopen(self) -> None:
        """A folder does not go away."""
