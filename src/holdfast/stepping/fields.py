"""Columns of fixed-width fields in bytes: reading and cutting them, without numpy.

All numbers are little-endian, and as narrow as their values allow:

    ints      i64 base | u8 width | base + one unsigned offset per row, of that many bytes
    bool      one byte per row, 0 or 1
    enum      u32 size | msgpack table of the members' values | one code per row
    text      u8 width of lengths | u8 width of code points | lengths | code points of all rows
    list.*    u8 width of lengths | lengths | the items of all rows, as a column of the kind *
    names     u32 count | u8 length of each name | the names in UTF-8 | one code per row

Codes have one byte, or two for more than 255 members; those of names one byte up to 256 names, two
up to 65,536, else four. `columns` makes such columns from arrays and arrays from them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, cast

import msgspec

_BASE = struct.Struct("<qB")
_TEXT = struct.Struct("<BB")
_COUNT = struct.Struct("<I")
_FORMATS: dict[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
# To cut floats as numbers of 8 bytes keeps every bit.
_FORMAT_OF_KIND: dict[str, Literal["q", "B"]] = {"i64": "q", "f64": "q", "bool": "B"}
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_pack = msgspec.msgpack.Encoder().encode
_unpack_table = msgspec.msgpack.Decoder(list[str | int]).decode

LIST = "list."
ITEMS = ("ints", "i64", "f64", "bool", "enum")
KINDS = (*ITEMS, "text", "names", *(LIST + item for item in ITEMS))


def expand(kind: str, data: bytes, count: int) -> list[object]:
    """One value per row. ValueError, TypeError or struct.error for what is damaged."""
    return _READERS[kind](data, count)


def cut(kind: str, data: bytes, count: int, rows: Sequence[int]) -> bytes:
    """The column with only some of its rows; the same errors."""
    if kind == "text":
        lengths, width, content = parts_of_text(data, count)
        return data[: _TEXT.size] + _cut_spans(lengths, width, content, rows)
    if kind.startswith(LIST):
        lengths, total, items = parts_of_list(data, count)
        head, values = _head_and_values(kind[len(LIST) :], items, total)
        return data[:1] + _cut_spans(lengths, values.itemsize, bytes(values), rows, head)
    if kind == "names":
        return _cut_names(data, count, rows)
    head, values = _head_and_values(kind, data, count)
    return head + array(values.format, [values[row] for row in rows]).tobytes()


class Coded:
    """A table of values, and for every row the place of its own."""

    def __init__(self, table: Sequence[object], codes: memoryview, count: int) -> None:
        if len(codes) != count:
            raise ValueError(f"{len(codes)} codes for {count} rows")
        self.table = table
        self.codes = codes

    def values(self) -> list[object]:
        table = self.table
        return [table[code] for code in self.codes]


def code_width(members: int) -> int:
    return 1 if members <= 255 else 2


def name_width(names: int) -> int:
    return 1 if names <= 1 << 8 else 2 if names <= 1 << 16 else 4


def pack_table(values: Sequence[object]) -> bytes:
    packed = _pack(values)
    return _COUNT.pack(len(packed)) + packed


def pack_base(base: int, width: int) -> bytes:
    return _BASE.pack(base, width)


def pack_lengths(lengths: bytes) -> bytes:
    """The beginning of a column of names: how many there are, and how long each is."""
    return _COUNT.pack(len(lengths)) + lengths


def parts_of_ints(data: bytes) -> tuple[int, int, memoryview]:
    """Base, width and offsets."""
    base, width = _BASE.unpack_from(data)
    return base, width, numbers(data[_BASE.size :], width)


def parts_of_enum(data: bytes) -> tuple[list[str | int], memoryview]:
    """The members' values, and the code of each row."""
    (size,) = _COUNT.unpack_from(data)
    start = _COUNT.size + size
    table = _unpack_table(data[_COUNT.size : start])
    return table, numbers(data[start:], code_width(len(table)))


def parts_of_text(data: bytes, count: int) -> tuple[memoryview, int, bytes]:
    """Lengths, width of a code point, and code points."""
    length_width, width = _TEXT.unpack_from(data)
    end = _TEXT.size + count * length_width
    lengths = numbers(data[_TEXT.size : end], length_width)
    content = data[end:]
    if width not in _ENCODINGS or len(lengths) != count or sum(lengths) * width != len(content):
        raise ValueError("the lengths do not fit the texts")
    return lengths, width, content


def parts_of_list(data: bytes, count: int) -> tuple[memoryview, int, bytes]:
    """Lengths, their sum, and the column of all items."""
    width = data[0]
    end = 1 + count * width
    lengths = numbers(data[1:end], width)
    if len(lengths) != count:
        raise ValueError("there are fewer lengths than rows")
    return lengths, sum(lengths), data[end:]


def parts_of_names(data: bytes) -> tuple[list[int], bytes, memoryview]:
    """Where each name ends, the names, and the code of each row."""
    (count,) = _COUNT.unpack_from(data)
    start = _COUNT.size + count
    ends = list(accumulate(data[_COUNT.size : start]))
    stop = start + (ends[-1] if ends else 0)
    if len(ends) != count or stop > len(data):
        raise ValueError("the names are cut off")
    return ends, data[start:stop], numbers(data[stop:], name_width(count))


def names_in(data: bytes) -> tuple[list[bytes], memoryview]:
    """The distinct names, and the code of each row."""
    ends, blob, codes = parts_of_names(data)
    return [blob[a:b] for a, b in pairwise((0, *ends))], codes


def numbers(data: bytes, width: int) -> memoryview:
    """Unsigned numbers of one, two or four bytes."""
    # Every supported target (x86-64, aarch64) is little-endian; the format is fixed to it.
    if width not in _FORMATS:
        raise ValueError(f"numbers of {width} bytes")
    return memoryview(data).cast(_FORMATS[width])


# ---------------------------------------------------------------- cutting


def _head_and_values(kind: str, data: bytes, count: int) -> tuple[bytes, memoryview]:
    """Scalars: what stands in front of them, and one number per row."""
    if kind == "ints":
        values = parts_of_ints(data)[2]
    elif kind == "enum":
        values = parts_of_enum(data)[1]
    else:
        values = memoryview(data).cast(_FORMAT_OF_KIND[kind])
    if len(values) != count:
        raise ValueError(f"{len(values)} values for {count} rows")
    return data[: len(data) - values.nbytes], values


def _cut_spans(
    lengths: memoryview, width: int, content: bytes, rows: Sequence[int], head: bytes = b""
) -> bytes:
    """Lengths and contents of some rows; `head` stands between them."""
    spans = list(_spans(lengths))
    chosen = array(lengths.format, [lengths[row] for row in rows])
    pieces = [content[spans[row][0] * width : spans[row][1] * width] for row in rows]
    return b"".join((chosen.tobytes(), head, *pieces))


def _cut_names(data: bytes, count: int, rows: Sequence[int]) -> bytes:
    table, codes = names_in(data)
    if len(codes) != count:
        raise ValueError(f"{len(codes)} codes for {count} rows")
    chosen = [codes[row] for row in rows]
    places = {code: place for place, code in enumerate(sorted(set(chosen)))}
    names = [table[code] for code in places]
    own = array(_FORMATS[name_width(len(names))], [places[code] for code in chosen])
    return b"".join((pack_lengths(bytes(map(len, names))), *names, own.tobytes()))


# ---------------------------------------------------------------- reading


def _ints(data: bytes, count: int) -> list[object]:
    base, _, offsets = parts_of_ints(data)
    if base and len(offsets) and base + max(offsets) >= 1 << 63:
        raise ValueError("an integer has more than 64 bits")
    return [base + offset for offset in offsets] if base else cast(list[object], list(offsets))


def _bools(data: bytes, count: int) -> list[object]:
    if data.translate(None, b"\x00\x01"):
        raise ValueError("neither 0 nor 1")
    return list(map(bool, data))


def _enums(data: bytes, count: int) -> list[object]:
    return Coded(*parts_of_enum(data), count).values()


def _texts(data: bytes, count: int) -> list[object]:
    lengths, width, content = parts_of_text(data, count)
    text = content.decode(_ENCODINGS[width])
    if len(text) * width != len(content):
        raise ValueError("two code points make up one")  # surrogates, which are no text
    return [text[a:b] for a, b in _spans(lengths)]


def _lists(item: str) -> Callable[[bytes, int], list[object]]:
    def read(data: bytes, count: int) -> list[object]:
        lengths, total, rest = parts_of_list(data, count)
        items = _READERS[item](rest, total)
        if len(items) != total:
            raise ValueError(f"{len(items)} items, the lengths say {total}")
        return [items[a:b] for a, b in _spans(lengths)]

    return read


def _names(data: bytes, count: int) -> list[object]:
    table, codes = names_in(data)
    return Coded([name.decode() for name in table], codes, count).values()


def _spans(lengths: memoryview) -> pairwise[tuple[int, int]]:
    return pairwise(accumulate(lengths, initial=0))


_READERS: dict[str, Callable[[bytes, int], list[object]]] = {
    "i64": lambda data, count: list(array("q", data)),
    "f64": lambda data, count: list(array("d", data)),
    "ints": _ints,
    "bool": _bools,
    "enum": _enums,
    "text": _texts,
    "names": _names,
}
_READERS |= {LIST + item: _lists(item) for item in ITEMS}
