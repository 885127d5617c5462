"""What we and our children say to each other: msgpack lists, each behind its length.

To a child: ["hello", sys.path], ["run", serial, module, file, name, call, arguments, reply],
["cancel", serial]. From it: ["begun", serial], ["ended", serial, reason, error, body, again],
["stuck", serial] and ["beat"], the last two from an event loop only.
"""

from __future__ import annotations

import os
import socket
import struct
import threading

import msgspec

from holdfast.errors import TheirBug
from holdfast.model.calls import ARGUMENTS_BYTES_MAX
from holdfast.runtime.calling.port import RESULT_BYTES_MAX

MESSAGE_BYTES_MAX = 2 * max(ARGUMENTS_BYTES_MAX, RESULT_BYTES_MAX)  # and all that is around them
LOOP_SECONDS_MAX = 5.0  # an event loop that does not turn for so long is blocked
_LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[object])

Message = list[object]


def pack(*message: object) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        found: list[Message] = []
        at = 0
        while len(self._buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if length > MESSAGE_BYTES_MAX:
                raise TheirBug(f"a message of {length:,} bytes between our own processes")
            end = at + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            found.append(_decoder.decode(memoryview(self._buffer)[at + _LENGTH.size : end]))
            at = end
        del self._buffer[:at]
        return found


class Line:
    """A child's end of the socket. It ends with its parent: nobody else needs what it does."""

    def __init__(self, socket_: socket.socket) -> None:
        self.socket = socket_
        self.waiting: list[Message] = []  # came already
        self._reader = Reader()
        self._sending = threading.Lock()

    def receive(self) -> Message:
        while not self.waiting:
            self.hear()
        return self.waiting.pop(0)

    def hear(self, flags: int = 0) -> None:
        data = self.socket.recv(1 << 20, flags)
        if not data:
            os._exit(0)
        self.waiting += self._reader.feed(data)

    def send(self, *message: object) -> None:
        try:
            with self._sending:
                self.socket.sendall(pack(*message))
        except BrokenPipeError:
            os._exit(0)
