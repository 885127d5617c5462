"""Messages out of the bytes of a connection. Everything that is no message is for paho."""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.errors import DamagedData

PUBLISH = 0x30
PUBACK = b"\x40\x02"

# Of the properties of a PUBLISH (MQTT 5, 2.2.2.2): those of a fixed length. The others are texts.
_FIXED = {0x01: 1, 0x02: 4, 0x23: 2}
_CONTENT_TYPE, _SUBSCRIPTION, _USER = 0x03, 0x0B, 0x26
_TEXTS = {_CONTENT_TYPE, 0x08, 0x09}
_short = struct.Struct(">H").unpack_from


class Published(NamedTuple):
    topic: str
    payload: bytes
    mid: int = 0  # 0: of quality 0, which nobody acknowledges
    retained: bool = False  # the broker repeats what it kept, for a new subscription
    content_type: str = ""
    user: tuple[tuple[str, str], ...] = ()


class Packets:
    """Cuts the stream of one connection."""

    def __init__(self, *, version_5: bool) -> None:
        self._version_5 = version_5
        self._rest = bytearray()
        self._needed = 2  # with fewer bytes than this there is no whole packet

    def cut(self, data: bytes) -> tuple[list[Published], bytes]:
        """The messages that are whole now, and the other packets, each in order."""
        self._rest += data
        if len(self._rest) < self._needed:
            return [], b""
        whole = bytes(self._rest)
        messages: list[Published] = []
        others = b""
        at = 0
        while (body := _body(whole, at)) is not None:
            begin, stop = body
            if stop > len(whole):
                break
            if whole[at] & 0xF0 == PUBLISH:
                messages.append(self._published(whole, whole[at], begin, stop))
            else:
                others += whole[at:stop]
            at = stop
        del self._rest[:at]
        self._needed = 2 if body is None else body[1] - at
        return messages, others

    def _published(self, data: bytes, flags: int, at: int, stop: int) -> Published:
        try:
            end = at + 2 + _short(data, at)[0]
            topic = data[at + 2 : end].decode("utf-8", "replace")
            mid = 0
            if flags & 0x06:
                mid = _short(data, end)[0]
                end += 2
            retained = bool(flags & 0x01)
            if not self._version_5:
                return Published(topic, data[end:stop], mid, retained)
            if data[end] == 0:
                return Published(topic, data[end + 1 : stop], mid, retained)
            content_type, user, end = _properties(data, end)
            return Published(topic, data[end:stop], mid, retained, content_type, user)
        except (struct.error, IndexError):
            raise DamagedData("the broker sends a message that is none") from None


def _body(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the packet's body begins and ends; None while its length is not known."""
    length, shift, place = 0, 0, at + 1
    while place < len(data):
        byte = data[place]
        length |= (byte & 0x7F) << shift
        place += 1
        if not byte & 0x80:
            return place, place + length
        shift += 7
        if shift > 21:
            raise DamagedData("the broker sends a packet whose length is none")
    return None


def _properties(data: bytes, at: int) -> tuple[str, tuple[tuple[str, str], ...], int]:
    """The content type, the user properties, and where the payload begins."""
    at, length = _number(data, at)
    end = at + length
    content_type = ""
    user: list[tuple[str, str]] = []
    while at < end:
        kind = data[at]
        at += 1
        if kind in _FIXED:
            at += _FIXED[kind]
        elif kind == _SUBSCRIPTION:
            at, _ = _number(data, at)
        elif kind == _USER:
            at, name = _text(data, at)
            at, value = _text(data, at)
            user.append((name, value))
        elif kind in _TEXTS:
            at, text = _text(data, at)
            content_type = text if kind == _CONTENT_TYPE else content_type
        else:
            raise DamagedData(f"the broker sends a message with an unknown property {kind}")
    return content_type, tuple(user), end


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return at, value
        shift += 7


def _text(data: bytes, at: int) -> tuple[int, str]:
    end = at + 2 + _short(data, at)[0]
    return end, data[at + 2 : end].decode("utf-8", "replace")


def acknowledgements(mids: list[int]) -> bytes:
    """A PUBACK for each, as success; the short form is the same in all versions."""
    return b"".join(PUBACK + mid.to_bytes(2, "big") for mid in mids)
