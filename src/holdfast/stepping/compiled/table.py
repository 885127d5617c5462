"""The table: every agent of one compiled class as a row of records, found by its key.

Rows are never removed. One that was never stored, `updated` 0.0, stands for a key that was met, but
took no event: it is no agent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.stepping.blocks import BUCKETS, SLOTS_PER_BUCKET
from holdfast.stepping.compiled.kernels import keys

_ROWS_AT_FIRST = 1024
_PLACED_AT_ONCE = 65_536
_KEY_BYTES_EXPECTED = 16  # of one
_KEY_BYTES_AT_FIRST = _KEY_BYTES_EXPECTED * _ROWS_AT_FIRST


class Table:
    def __init__(self, description: Sequence[tuple[object, ...]]) -> None:
        self.dtype = np.dtype(list(description))
        self._opaque = np.dtype((np.void, self.dtype.itemsize))  # to copy rows, not field by field
        self.default = np.zeros(1, self.dtype)  # what a new row begins with
        self.rows = np.zeros(_ROWS_AT_FIRST, self.dtype)
        self.count = 0
        self.blob = np.zeros(_KEY_BYTES_AT_FIRST, np.uint8)
        self.offsets = np.zeros(_ROWS_AT_FIRST + 1, np.int64)
        self._index = np.zeros(4 * _ROWS_AT_FIRST, np.uint64)
        self._slots = np.zeros(_ROWS_AT_FIRST, np.int16)
        self._slots_known = 0
        self._by_bucket = (np.zeros(0, np.int64), np.zeros(BUCKETS + 1, np.int64))

    # Keys.

    def place(self, names: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """The row of each name, which stand one behind the other. Unknown ones get new rows."""
        found = np.empty(len(bounds) - 1, np.int64)
        spared, before = _spared(names), self.count
        for first in range(0, len(found), _PLACED_AT_ONCE):  # most are known: room for a part
            part = found[first : first + _PLACED_AT_ONCE]
            own = bounds[first : first + len(part) + 1]
            end = int(self.offsets[self.count]) + int(own[-1]) - int(own[0])
            self.make_room(self.count + len(part), end)
            self.count = keys.place(
                spared, own, self._words, self.offsets, self._index, self.count, part
            )
        self.rows.view(self._opaque)[before : self.count] = self.default.view(self._opaque)
        return found

    def place_names(self, names: Sequence[bytes]) -> np.ndarray:
        bounds = np.zeros(len(names) + 1, np.uint32)
        np.cumsum([len(name) for name in names], out=bounds[1:])
        return self.place(np.frombuffer(b"".join(names), np.uint8), bounds)

    def find(self, key: str) -> int | None:
        name = np.frombuffer(key.encode(), np.uint8)
        row = int(keys.find(_spared(name), len(name), self._words, self.offsets, self._index))
        return None if row < 0 else row

    def row_for(self, key: str) -> int:
        name = np.frombuffer(key.encode(), np.uint8)
        return int(self.place(name, np.array([0, len(name)], np.uint32))[0])

    def key_of(self, row: int) -> str:
        return self.blob[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()

    def names_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The keys of some rows: bytes one behind the other, and where each begins and ends."""
        rows = np.ascontiguousarray(rows)
        bounds = np.empty(len(rows) + 1, np.uint32)
        size = keys.measure(self.offsets, rows, bounds)
        names = np.empty(size + keys.SPARE, np.uint8)
        keys.copy(self._words, self.offsets, rows, keys.words(names))
        return names[:size], bounds

    @property
    def _words(self) -> np.ndarray:
        return keys.words(self.blob)

    @property
    def slots(self) -> np.ndarray:
        """The published slot of every row's key."""
        if self._slots_known < self.count:
            first, self._slots_known = self._slots_known, self.count
            keys.slots(self.blob, self.offsets, first, self.count, self._slots)
        return self._slots[: self.count]

    @property
    def by_bucket(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows, bucket by bucket, in each as they stand; and where each bucket begins."""
        if len(self._by_bucket[0]) < self.count:
            found = (self.slots // SLOTS_PER_BUCKET).astype(np.uint8)
            begins = np.zeros(BUCKETS + 1, np.int64)
            np.cumsum(np.bincount(found, minlength=BUCKETS), out=begins[1:])
            self._by_bucket = np.argsort(found, kind="stable"), begins
        return self._by_bucket

    def put(self, rows: np.ndarray, records: np.ndarray) -> None:
        """Records to their rows; as bytes, which takes an eighth of the time."""
        self.rows.view(self._opaque)[rows] = records.view(self._opaque)

    def expect(self, rows: int) -> None:
        """About so many will come: room for them, which costs nothing until it is used."""
        rows += rows // 8
        self.make_room(rows, _KEY_BYTES_EXPECTED * rows)

    def make_room(self, rows: int, key_bytes: int) -> None:
        if key_bytes + keys.SPARE > len(self.blob):
            self.blob = _grown(self.blob, key_bytes + keys.SPARE)
        if rows <= len(self.rows):
            return
        self.rows = _grown(self.rows, rows)
        self.offsets = _grown(self.offsets, len(self.rows) + 1)
        self._slots = _grown(self._slots, len(self.rows))
        size = len(self._index)
        while size < 2 * len(self.rows):
            size *= 2
        self._index = np.zeros(size, np.uint64)
        keys.index_again(self._words, self.offsets, self.count, self._index)


def _spared(names: np.ndarray) -> np.ndarray:
    return keys.words(np.append(names, np.zeros(keys.SPARE, np.uint8)))


def _grown(array: np.ndarray, least: int) -> np.ndarray:
    size = max(least, 2 * len(array))
    grown = np.zeros(size, array.dtype)
    grown.view(np.uint8)[: array.nbytes] = array.view(np.uint8)
    return grown
