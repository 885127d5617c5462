"""Keys of a table: bytes in one blob, found through an index with open addressing.

`index` holds half of a key's hash and its row + 1 in each number, or 0 where nothing is; its length
is a power of two. Row r has the bytes `blob[offsets[r] : offsets[r + 1]]`. The caller makes room
before.

Bytes are taken as `words`: element k is the eight bytes from k on, so each array of bytes has some
to spare. In a large table nearly every look is a cache miss, and they add up unless many are under
way at once: so places are looked at in groups before they are used.
"""

import numpy as np
from numba import types

from holdfast.model.keys import SPREAD
from holdfast.stepping.compiled.kernels.jit import entry, entry_for, inner

SPARE = 8
_GROUP = 32
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ROW = np.uint64(0xFFFFFFFF)
_NONE = np.uint64(0)

_words = types.Array(types.uint64, 1, "A", aligned=False)
_longs = types.Array(types.int64, 1, "C")
_index = types.Array(types.uint64, 1, "C")
_bounds = types.Array(types.uint32, 1, "C")


def words(data: np.ndarray) -> np.ndarray:
    """Bytes as overlapping numbers of eight; the last `SPARE` begin none."""
    return np.ndarray(len(data) - SPARE, np.uint64, data, strides=(1,))


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_CRC = _crc_table()


@inner
def _cut(word, size):
    """Its first bytes alone."""
    if size == 0:
        return _NONE  # shifts by 64 are not defined
    shift = np.uint64(64 - 8 * size)
    return word << shift >> shift


@inner
def _hash(data, first, last):
    value = np.uint64(last - first) * _MIX
    while last - first > 8:
        value = (value ^ data[first]) * _MIX
        value ^= value >> np.uint64(32)
        first += 8
    value = (value ^ _cut(data[first], last - first)) * _MIX
    value = (value ^ (value >> np.uint64(32))) * _MIX
    return value ^ (value >> np.uint64(29))


@inner
def _same(a, first, last, b, start, stop):
    if last - first != stop - start:
        return False
    while last - first > 8:
        if a[first] != b[start]:
            return False
        first += 8
        start += 8
    return _cut(a[first] ^ b[start], last - first) == _NONE


@inner
def _probe(name, first, last, hashed, blob, offsets, index):
    """Where in the index a name is, or where it would be put."""
    mask = np.uint64(len(index) - 1)
    at = hashed & mask
    while index[at] != _NONE:
        if index[at] ^ hashed <= _ROW:
            row = np.int64(index[at] & _ROW) - 1
            if _same(name, first, last, blob, offsets[row], offsets[row + 1]):
                break
        at = (at + np.uint64(1)) & mask
    return at


@inner
def _glance(hashes, first, last, blob, offsets, index):
    """Bring to the cache what these names will need. The end of a key is near its beginning."""
    mask = np.uint64(len(index) - 1)
    seen = np.int64(0)
    for k in range(first, last):
        seen += offsets[index[np.uint64(hashes[k]) & mask] & _ROW]
    for k in range(first, last):
        seen += np.int64(blob[offsets[index[np.uint64(hashes[k]) & mask] & _ROW]] & np.uint64(1))
    return seen


@entry_for(types.int64(_words, _bounds, _words, _longs, _index, types.int64, _longs))
def place(names, bounds, blob, offsets, index, known, rows):
    """The row of every name; those that are new get the next ones. How many rows there are then."""
    count = len(bounds) - 1
    for group in range(0, count, _GROUP):
        end = min(group + _GROUP, count)
        for k in range(group, end):
            rows[k] = np.int64(_hash(names, np.int64(bounds[k]), np.int64(bounds[k + 1])))
        if _glance(rows, group, end, blob, offsets, index) < 0:
            break  # never: whoever is asked cannot be left out
        for k in range(group, end):
            hashed = np.uint64(rows[k])
            first, last = np.int64(bounds[k]), np.int64(bounds[k + 1])
            at = _probe(names, first, last, hashed, blob, offsets, index)
            if index[at] == _NONE:
                start = offsets[known]
                for n in range(0, last - first, 8):
                    blob[start + n] = names[first + n]
                offsets[known + 1] = start + last - first
                known += 1
                index[at] = (hashed & ~_ROW) | np.uint64(known)
            rows[k] = np.int64(index[at] & _ROW) - 1
    return known


@entry_for(types.int64(_words, types.int64, _words, _longs, _index))
def find(name, size, blob, offsets, index):
    """The row of one name, or -1."""
    at = _probe(name, 0, size, _hash(name, 0, size), blob, offsets, index)
    return np.int64(index[at] & _ROW) - 1


@entry_for(types.void(_words, _longs, types.int64, _index))
def index_again(blob, offsets, known, index):
    mask = np.uint64(len(index) - 1)
    for row in range(known):
        hashed = _hash(blob, offsets[row], offsets[row + 1])
        at = hashed & mask
        while index[at] != _NONE:
            at = (at + np.uint64(1)) & mask
        index[at] = (hashed & ~_ROW) | np.uint64(row + 1)


@entry
def measure(offsets, rows, bounds):
    """Where the names of these rows begin and end when they stand one behind the other."""
    total = 0
    for k in range(len(rows)):
        bounds[k] = total
        total += offsets[rows[k] + 1] - offsets[rows[k]]
    bounds[len(rows)] = total
    return total


@entry_for(types.void(_words, _longs, _longs, _words))
def copy(blob, offsets, rows, names):
    """Their bytes, one behind the other, written in eights: the next one covers the rest."""
    at = 0
    for k in range(len(rows)):
        start = offsets[rows[k]]
        size = offsets[rows[k] + 1] - start
        for n in range(0, size, 8):
            names[at + n] = blob[start + n]
        at += size


@entry
def slots(blob, offsets, first, last, found):
    """The published slots of the keys of rows `first` to `last`, as `model.keys.slot_of` says."""
    for row in range(first, last):
        crc = np.uint32(0xFFFFFFFF)
        for k in range(offsets[row], offsets[row + 1]):
            crc = _CRC[(crc ^ blob[k]) & 0xFF] ^ (crc >> np.uint32(8))
        crc ^= np.uint32(0xFFFFFFFF)
        found[row] = (np.uint64(crc) * np.uint64(SPREAD) & np.uint64(0xFFFFFFFF)) >> np.uint64(22)
