"""Goal: messages are found in the bytes of a connection however the network has cut them, and
everything else is left for paho as it was.

The bytes are made here by hand from the tables of the MQTT specification.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DamagedData
from holdfast.gateway.mqtt.packets import Packets, Published, acknowledgements

PINGRESP = b"\xd0\x00"
PUBACK = b"\x40\x02\x00\x07"


def text(words: str) -> bytes:
    encoded = words.encode()
    return struct.pack(">H", len(encoded)) + encoded


def varied(number: int) -> bytes:
    made = b""
    while True:
        number, digit = divmod(number, 128)
        made += bytes([digit | 0x80 if number else digit])
        if not number:
            return made


def packet(message: Published, *, version_5: bool, others: bytes = b"") -> bytes:
    flags = 0x30 | (0x02 if message.mid else 0) | (0x01 if message.retained else 0)
    body = text(message.topic) + (struct.pack(">H", message.mid) if message.mid else b"")
    if version_5:
        said = others
        if message.content_type:
            said += b"\x03" + text(message.content_type)
        for name, value in message.user:
            said += b"\x26" + text(name) + text(value)
        body += varied(len(said)) + said
    body += message.payload
    return bytes([flags]) + varied(len(body)) + body


words = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), max_size=20)
plain = st.tuples(words, st.binary(max_size=300), st.integers(0, 65_535), st.booleans()).map(
    lambda parts: Published(*parts)
)
rich = st.builds(
    Published,
    words,
    st.binary(max_size=300),
    st.integers(0, 65_535),
    st.booleans(),
    words,
    st.lists(st.tuples(words, words), max_size=3).map(tuple),
)


@given(st.lists(st.one_of(rich, st.sampled_from([PINGRESP, PUBACK])), max_size=8), st.data())
def test_every_cut_gives_the_same(sent: list[Published | bytes], data: st.DataObject) -> None:
    stream = b"".join(
        each if isinstance(each, bytes) else packet(each, version_5=True) for each in sent
    )
    packets, at = Packets(version_5=True), 0
    messages: list[Published] = []
    others = b""
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        some, rest = packets.cut(stream[at : at + size])
        messages += some
        others += rest
        at += size
    assert messages == [each for each in sent if isinstance(each, Published)]
    assert others == b"".join(each for each in sent if isinstance(each, bytes))


@given(st.lists(plain, max_size=8))
def test_version_3_has_no_properties(sent: list[Published]) -> None:
    stream = b"".join(packet(each, version_5=False) for each in sent)
    assert Packets(version_5=False).cut(stream) == (sent, b"")


def test_properties_that_do_not_matter_are_passed_over() -> None:
    others = b"\x01\x01" + b"\x02\0\0\0\x09" + b"\x23\0\x01" + b"\x0b\x85\x01"
    others += b"\x08" + text("answer/here") + b"\x09" + text("correlation")
    message = Published("a/b", b"x", 5, False, "json", (("seq", "7"),))
    assert Packets(version_5=True).cut(packet(message, version_5=True, others=others)) == (
        [message],
        b"",
    )


def test_a_large_message_in_small_pieces() -> None:
    message = Published("big", b"x" * 3_000_000, 9)
    stream = packet(message, version_5=True)
    packets, found = Packets(version_5=True), []
    for at in range(0, len(stream), 65_536):
        found += packets.cut(stream[at : at + 65_536])[0]
    assert found == [message]


@pytest.mark.parametrize(
    "stream",
    [
        b"\x32\xff\xff\xff\xff\x01",  # a length of five bytes
        b"\x32\x01\x00",  # no topic
        b"\x32\x05\x00\x01a\x00\x01",  # no properties
        b"\x32\x07\x00\x01a\x00\x01\x01\x7f",  # a property that there is not
    ],
)
def test_what_is_no_packet_ends_the_connection(stream: bytes) -> None:
    with pytest.raises(DamagedData, match="the broker sends"):
        Packets(version_5=True).cut(stream)


def test_acknowledgements_are_four_bytes_each() -> None:
    assert acknowledgements([1, 0x1234]) == b"\x40\x02\x00\x01\x40\x02\x12\x34"
