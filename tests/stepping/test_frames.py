"""Goal: a frame gives back every column as it went in, or says that it is damaged; never a wrong
row. Columns that a reader does not know are carried; a newer version is refused by name."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DamagedData, NewerFormat
from holdfast.stepping.frame import (
    VERSION,
    Column,
    Frame,
    codes,
    const,
    floats,
    integers,
    opaque,
    rows,
    sequence,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def filled_frames(draw: st.DrawFn) -> tuple[Frame, dict[str, list[object]], dict[str, bytes]]:
    """A frame with columns of every kind, in any order, and what they should expand to."""
    count = draw(st.integers(0, 300))
    expected: dict[str, list[object]] = {}
    whole: dict[str, bytes] = {}
    columns: dict[str, Column] = {}
    names = draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=8))
    for name in names:
        kind = draw(st.sampled_from(["const", "rows", "sequence", "i64", "f64", "codes", "opaque"]))
        if kind == "opaque":
            whole[name] = draw(st.binary(max_size=50))
            columns[name] = opaque(whole[name])
            continue
        expected[name], columns[name] = draw(column(kind, count))
    return Frame(count, columns), expected, whole


@st.composite
def column(draw: st.DrawFn, kind: str, count: int) -> tuple[list[object], Column]:
    # One seed instead of hundreds of draws: the values matter less than that they differ.
    pick = random.Random(draw(st.integers(0, 2**32)))
    if kind == "const":
        value = draw(VALUES)
        return [value] * count, const(value)
    if kind == "rows":
        some = draw(st.lists(VALUES, min_size=1, max_size=5))
        given_rows = [pick.choice(some) for _ in range(count)]
        return list(given_rows), rows(given_rows)
    if kind == "sequence":
        first = draw(st.integers(0, 2**62))
        return list(range(first, first + count)), sequence(first)
    if kind == "i64":
        some_integers = draw(st.lists(INTEGERS, min_size=1, max_size=5))
        numbers = [pick.choice(some_integers) for _ in range(count)]
        return list(numbers), integers(numbers)
    if kind == "f64":
        some_floats = draw(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
        values = [pick.choice(some_floats) for _ in range(count)]
        return list(values), floats(values)
    distinct = draw(st.sampled_from([1, 2, 255, 256, 300]))
    words = [f"word-{pick.randrange(distinct)}" for _ in range(count)]
    return list(words), codes(words)


@settings(max_examples=120, deadline=None)
@given(filled_frames())
def test_every_column_comes_back(
    made: tuple[Frame, dict[str, list[object]], dict[str, bytes]],
) -> None:
    frame, expected, whole = made
    again = Frame.decode(frame.encode())
    assert again.count == frame.count
    assert list(again.columns) == list(frame.columns)
    for name, values in expected.items():
        assert again.values(name) == values
    for name, data in whole.items():
        assert again.opaque(name) == data
    assert again.encode() == frame.encode()


def test_constants_are_told_from_columns_that_vary() -> None:
    frame = Frame(2, {"same": codes(["a", "a"]), "other": codes(["a", "b"])})
    assert frame.constant("same") == "a"
    assert frame.constant("other") is None
    assert frame.constant("absent", "fallback") == "fallback"
    assert frame.values("absent") is None


def test_an_unknown_column_and_kind_are_carried() -> None:
    """A newer producer may add both; whoever passes the frame on loses neither."""
    columns = {"known": integers([1, 2]), "tomorrow": Column("zipped", b"\x00\x01")}
    again = Frame.decode(Frame.decode(Frame(2, columns).encode()).encode())
    assert again.columns["tomorrow"] == Column("zipped", b"\x00\x01")
    assert again.values("known") == [1, 2]
    with pytest.raises(DamagedData, match=r"'tomorrow'.*'zipped'"):
        again.values("tomorrow")


def sample() -> bytes:
    columns = {
        "const": const("x"),
        "rows": rows([{"a": 1}, None, b"bytes"]),
        "sequence": sequence(7),
        "i64": integers([1, -1, 2**40]),
        "f64": floats([0.5, -1.0, 1e300]),
        "codes": codes(["a", "b", "a"]),
        "opaque": opaque(b"whole"),
    }
    return Frame(3, columns).encode()


def test_every_truncation_is_damage() -> None:
    encoded = sample()
    for length in range(len(encoded)):
        with pytest.raises(DamagedData):
            Frame.decode(encoded[:length])


def test_bytes_after_the_end_are_damage() -> None:
    with pytest.raises(DamagedData):
        Frame.decode(sample() + b"\x00")


def test_every_single_bit_flip_is_noticed() -> None:
    encoded = sample()
    for position in range(len(encoded)):
        for bit in range(8):
            damaged = bytearray(encoded)
            damaged[position] ^= 1 << bit
            with pytest.raises((DamagedData, NewerFormat)):
                Frame.decode(bytes(damaged))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=8))
def test_random_damage_is_noticed(flips: list[tuple[int, int]]) -> None:
    encoded = sample()
    damaged = bytearray(encoded)
    for position, mask in flips:
        damaged[position % len(encoded)] ^= mask
    if bytes(damaged) == encoded:
        return  # the flips undid each other
    with pytest.raises((DamagedData, NewerFormat)):
        Frame.decode(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises((DamagedData, NewerFormat)):
        Frame.decode(data)
    with pytest.raises((DamagedData, NewerFormat)):
        Frame.decode(b"HFRM" + data)


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def test_a_newer_version_is_named() -> None:
    body = bytearray(sample()[:-4])
    body[4] = VERSION + 1
    with pytest.raises(NewerFormat, match=f"version {VERSION + 1}.*up to {VERSION}"):
        Frame.decode(sealed(bytes(body)))


def test_a_sealed_frame_whose_parts_do_not_fit_is_damage() -> None:
    """The checksum is right, so some program wrote this; it is refused all the same."""
    body = sample()[:-4]
    with pytest.raises(DamagedData, match="describes"):
        Frame.decode(sealed(body + b"more"))
    cut = Frame(3, {"i64": integers([1, 2])}).encode()
    with pytest.raises(DamagedData, match=r"'i64' has 2 values for 3 rows"):
        Frame.decode(cut).values("i64")
    for index in (*range(5), *range(9, len(body))):  # all but the number of rows
        # Any other content of any byte, under a valid checksum: refused or read, but in our terms.
        changed = bytearray(body)
        changed[index] ^= 0xFF
        try:
            frame = Frame.decode(sealed(bytes(changed)))
            for name in frame.columns:
                if frame.columns[name].kind != "opaque":
                    frame.values(name)
        except (DamagedData, NewerFormat):
            pass
