"""`ndjson:`: one JSON object per line, into a directory, a file, or standard output (`-`)."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.engine.faults import FaultPoints
from holdfast.errors import UsageError
from holdfast.runtime.exporting.folder import (
    Position,
    explained,
    lock,
    read_position,
    replace,
)
from holdfast.runtime.exporting.payloads import json_text
from holdfast.runtime.exporting.target import Batch, Kind, Place

_json = msgspec.json.Encoder().encode


class Lines:
    """As a writer of many files. Times are seconds since 1970, as in all JSON of Holdfast."""

    ending = ".ndjson"

    def write(self, file: BinaryIO, batch: Batch) -> None:
        names = list(batch.columns)
        embedded = names[-1]  # payload or state
        texts = [_embedded(each) for each in batch.columns[embedded]]
        columns = [*(batch.columns[name] for name in names[:-1]), texts]
        rows = zip(*columns, strict=True)
        file.write(b"".join([_json(dict(zip(names, row, strict=True))) + b"\n" for row in rows]))


def _embedded(value: object) -> object:
    if value is None:
        return None
    return msgspec.Raw(value if isinstance(value, bytes) else json_text(value))


def append(descriptor: int, batch: Batch) -> None:
    """Nothing stays in a buffer, which Python would try to write once more at its end."""
    text = io.BytesIO()
    Lines().write(text, batch)
    content = text.getbuffer()
    while content:
        content = content[os.write(descriptor, content) :]


class Stream:
    """Standard output: no place is kept, so it begins at the beginning."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._places: dict[int, Place] = {}

    def places(self) -> dict[int, Place]:
        return dict(self._places)

    def clear(self) -> None:
        self._places.clear()

    def write(self, batches: Iterable[Batch], before: Place | None, after: Place) -> int:
        rows = 0
        with explained(Path("standard output")):
            for batch in batches:
                append(self._descriptor, batch)
                rows += len(batch)
        self._places[after.partition] = after
        return rows

    def reopen(self) -> None:
        """Nobody reads any more where this was lost."""

    def close(self) -> None: ...


class OneFile:
    """A file that grows. `FILE.position` says how long it was at the last place; what is behind
    that was never finished, and is cut off when the export goes on."""

    def __init__(self, path: Path, fleet: str, kind: Kind, reach: FaultPoints) -> None:
        self._path = path
        self._beside = path.with_name(f"{path.name}.position")
        self._reach = reach
        with explained(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            with explained(path):
                lock(self._descriptor, path)
                self._position = read_position(self._beside, fleet, kind)
                self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        length = os.fstat(self._descriptor).st_size
        if length and not self._beside.exists():
            raise _unknown(self._path, f"has {length:,} bytes and no {self._beside.name} beside it")
        if length < self._position.length:
            raise _unknown(
                self._path, f"has {length:,} bytes of the {self._position.length:,} exported"
            )
        self._put(self._position)  # before the first row: from now on the file is known as ours
        os.truncate(self._descriptor, self._position.length)

    def places(self) -> dict[int, Place]:
        return {place.partition: place for place in self._position.places}

    def clear(self) -> None:
        with explained(self._path):
            self._put(msgspec.structs.replace(self._position, places=[], length=0))
            os.truncate(self._descriptor, 0)

    def write(self, batches: Iterable[Batch], before: Place | None, after: Place) -> int:
        rows = 0
        try:
            with explained(self._path):
                for batch in batches:
                    append(self._descriptor, batch)
                    rows += len(batch)
                os.fsync(self._descriptor)
                self._reach("export.before")
                places = {**self.places(), after.partition: after}
                length = os.fstat(self._descriptor).st_size
                ordered = [places[number] for number in sorted(places)]
                self._put(msgspec.structs.replace(self._position, places=ordered, length=length))
                self._reach("export.after")
        except Exception:
            os.truncate(self._descriptor, self._position.length)
            raise
        return rows

    def _put(self, position: Position) -> None:
        replace(self._beside, msgspec.json.encode(position))
        self._position = position

    def reopen(self) -> None:
        """A file does not go away."""

    def close(self) -> None:
        os.close(self._descriptor)


def _unknown(path: Path, what: str) -> UsageError:
    return UsageError(f"{path}: {what}: name another file, or restore this one")
