"""Chunks: runs of rows or frames, packed, named by their hash, and checked when they are read.

A chunk of the base holds the rows of a run of slots. Runs begin at multiples of a power of two, so
that the same rows are cut at the same places in the next snapshot, and what has not changed has the
same name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from holdfast.blob.port import Blob
from holdfast.blob.sealing import pack, unpack
from holdfast.errors import DamagedData, HoldfastError, Missing
from holdfast.runtime.snapshots.manifest import WAY_OUT, ChunkRef
from holdfast.runtime.snapshots.rows import Row

CHUNK_BYTES = 1024 * 1024  # before packing; one row may be larger
LEVEL = 3
_RAW_BYTES_MAX = 64 * 1024 * 1024  # far beyond the largest row: 16 MiB of state
_encode = msgspec.msgpack.Encoder().encode
T = TypeVar("T")

Packed = list[tuple[bytes, bytes | None]]  # name, body


class Chunks:
    """The chunks of one store, for one snapshot that is made or read.

    `reusable` are those that a manifest refers to. Another one of the same name may be an orphan
    whose hours are numbered (retention.py), so ours gets a name of its own beside it.
    """

    def __init__(self, blob: Blob, what: str, reusable: Iterable[str] = ()) -> None:
        self._blob = blob
        self._what = what
        self._reusable = set(reusable)
        self.uploaded: list[str] = []  # objects
        self.uploaded_bytes = 0

    def put(self, items: Sequence[Any]) -> ChunkRef:
        raw = _encode(items)
        data = pack(raw, LEVEL)
        name = own = hashlib.sha256(data).hexdigest()
        for attempt in range(1, 1000):
            if name in self._reusable:
                break
            ref = ChunkRef(name, len(data), len(raw), len(items))
            if self._blob.put_if_absent(ref.object, data):
                self._reusable.add(name)
                self.uploaded.append(ref.object)
                self.uploaded_bytes += len(data)
                break
            name = f"{own}.{attempt}"
        return ChunkRef(name, len(data), len(raw), len(items))

    def take_back(self) -> None:
        """Of a snapshot that came to nothing: nobody else relies on what no manifest refers to."""
        for name in self.uploaded:
            with suppress(HoldfastError):  # then it is an orphan, which retention finds
                self._blob.delete(name)

    def forget(self, names: Iterable[str]) -> None:
        """Do not build on these: something is wrong with one of them."""
        self._reusable.difference_update(names)

    def get(self, ref: ChunkRef, kind: type[T]) -> T:
        where = f"{self._blob.url}: {self._what}: chunk {ref.name[:12]}"
        try:
            data = self._blob.get(ref.object)
        except Missing:
            raise DamagedData(f"{where} is missing: {WAY_OUT}") from None
        if hashlib.sha256(data).hexdigest() != ref.name.partition(".")[0]:
            raise DamagedData(f"{where} has a wrong checksum: {WAY_OUT}")
        try:
            return msgspec.msgpack.decode(unpack(data, _RAW_BYTES_MAX), type=kind)
        except (ValueError, msgspec.MsgspecError) as error:
            raise DamagedData(f"{where} cannot be read ({error}): {WAY_OUT}") from None

    def rows(self, base: Sequence[ChunkRef], deltas: Sequence[ChunkRef]) -> Iterator[Row]:
        """Rows of a base under its deltas, each once; the slots are not told."""
        newer: dict[bytes, bytes | None] = {}
        for ref in deltas:
            newer.update(self.get(ref, Packed))
        for ref in base:
            for name, body in self.get(ref, Packed):
                if name not in newer:
                    yield Row(0, name, body)
        for name, body in newer.items():
            if body is not None:
                yield Row(0, name, body)


def runs_of_slots(rows: Sequence[Row], first: int, count: int) -> Iterator[Packed]:
    """Rows, sorted by slot and name, in runs of about CHUNK_BYTES that begin at fixed slots."""
    total = sum(len(row.name) + len(row.body or b"") for row in rows)
    width = 1
    while width < count and total * width * 2 // max(1, count) <= CHUNK_BYTES:
        width *= 2
    yield from _cut(rows, lambda row: (row.slot - first) // width)


def in_order(rows: Sequence[Row]) -> Iterator[Packed]:
    yield from _cut(rows, lambda row: 0)


def _cut(rows: Sequence[Row], run_of: Callable[[Row], int]) -> Iterator[Packed]:
    part: Packed = []
    size = at = 0
    for row in rows:
        if part and (run_of(row) != at or size > 4 * CHUNK_BYTES):
            yield part
            part, size = [], 0
        at = run_of(row)
        part.append((row.name, row.body))
        size += len(row.name) + len(row.body or b"")
    if part:
        yield part


def by_size(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    part: list[T] = []
    size = 0
    for item in items:
        if part and size + size_of(item) > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += size_of(item)
    if part:
        yield part
