"""Keys of a table: bytes in one blob, found through an index with open addressing.

`index` holds row + 1, or 0 where nothing is; its length is a power of two. Row r has the bytes
`blob[offsets[r] : offsets[r + 1]]`. The caller makes room before.
"""

import numpy as np

from holdfast.model.keys import SPREAD
from holdfast.stepping.compiled.kernels.jit import entry, inner

_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_CRC = _crc_table()


@inner
def _hash(blob, first, last):
    value = _FNV_START
    for k in range(first, last):
        value = (value ^ np.uint64(blob[k])) * _FNV_PRIME
    return np.int64((value ^ (value >> np.uint64(29))) & np.uint64(0x7FFFFFFF))


@inner
def _same(a, first, last, b, start, stop):
    if last - first != stop - start:
        return False
    for k in range(last - first):
        if a[first + k] != b[start + k]:
            return False
    return True


@entry
def place(names, bounds, blob, offsets, index, known, rows):
    """The row of every name; those that are new get the next ones. How many rows there are then."""
    mask = len(index) - 1
    for k in range(len(bounds) - 1):
        first, last = np.int64(bounds[k]), np.int64(bounds[k + 1])
        at = _hash(names, first, last) & mask
        while True:
            row = index[at] - 1
            if row < 0:
                start = offsets[known]
                for n in range(last - first):
                    blob[start + n] = names[first + n]
                offsets[known + 1] = start + last - first
                rows[k] = known
                known += 1
                index[at] = known
                break
            if _same(names, first, last, blob, offsets[row], offsets[row + 1]):
                rows[k] = row
                break
            at = (at + 1) & mask
    return known


@entry
def find(name, blob, offsets, index):
    """The row of one name, or -1."""
    mask = len(index) - 1
    at = _hash(name, 0, len(name)) & mask
    while True:
        row = index[at] - 1
        if row < 0 or _same(name, 0, len(name), blob, offsets[row], offsets[row + 1]):
            return row
        at = (at + 1) & mask


@entry
def index_again(blob, offsets, known, index):
    mask = len(index) - 1
    for row in range(known):
        at = _hash(blob, offsets[row], offsets[row + 1]) & mask
        while index[at]:
            at = (at + 1) & mask
        index[at] = row + 1


@entry
def measure(offsets, rows, bounds):
    """Where the names of these rows begin and end when they stand one behind the other."""
    total = 0
    for k in range(len(rows)):
        bounds[k] = total
        total += offsets[rows[k] + 1] - offsets[rows[k]]
    bounds[len(rows)] = total
    return total


@entry
def copy(blob, offsets, rows, names):
    at = 0
    for k in range(len(rows)):
        for n in range(offsets[rows[k]], offsets[rows[k] + 1]):
            names[at] = blob[n]
            at += 1


@entry
def slots(blob, offsets, first, last, found):
    """The published slots of the keys of rows `first` to `last`, as `model.keys.slot_of` says."""
    for row in range(first, last):
        crc = np.uint32(0xFFFFFFFF)
        for k in range(offsets[row], offsets[row + 1]):
            crc = _CRC[(crc ^ blob[k]) & 0xFF] ^ (crc >> np.uint32(8))
        crc ^= np.uint32(0xFFFFFFFF)
        found[row] = (np.uint64(crc) * np.uint64(SPREAD) & np.uint64(0xFFFFFFFF)) >> np.uint64(22)
