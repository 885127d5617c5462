"""Goal: an object of the archive is read as it was written or not at all; any flip is seen."""

import pytest

from holdfast.errors import DamagedData, NewerFormat
from holdfast.runtime.archiving.objects import (
    Run,
    Shipment,
    decode,
    encode,
    first_of,
    is_merged,
    name_of,
)

SHIPMENT = Shipment(
    "log", "bots", "0-abc", 7, 12, [Run(7, 3, 1.5, b"one"), Run(10, 2, 2.5, b"two")], 3.5
)


def test_what_was_written_is_read() -> None:
    assert decode("log/0-abc/7", encode(SHIPMENT), Shipment) == SHIPMENT


def test_every_flipped_bit_is_seen() -> None:
    data = encode(SHIPMENT)
    for place in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            with pytest.raises((DamagedData, NewerFormat), match=r"log/0-abc/7: "):
                decode("log/0-abc/7", bytes(broken), Shipment)


def test_every_cut_is_seen() -> None:
    data = encode(SHIPMENT)
    for length in range(len(data)):
        with pytest.raises(DamagedData, match="put back the object from a copy of the store"):
            decode("log/0-abc/7", data[:length], Shipment)


def test_a_newer_format_is_named() -> None:
    data = bytearray(encode(SHIPMENT))
    data[4] = 2  # behind the magic
    with pytest.raises(NewerFormat, match="format 2, this release reads 1: install the release"):
        decode("x", bytes(data), Shipment)


def test_names_sort_as_numbers_do() -> None:
    numbers = [0, 9, 10, 99, 12345678901234567890]
    names = [name_of("log", "0-abc", number) for number in numbers]
    assert names == sorted(names)
    assert [first_of(name) for name in names] == numbers
    merged = name_of("log", "0-abc", 9, merged=True)
    assert is_merged(merged)
    assert not is_merged(names[1])
    assert names[1] < merged < names[2]
    assert first_of(merged) == 9
    with pytest.raises(DamagedData, match="is not of a log archive"):
        first_of("log/0-abc/readme")
