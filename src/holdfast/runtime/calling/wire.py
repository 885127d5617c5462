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
_OF_A_CHILD: dict[object, list[type]] = {
    "begun": [str, int],
    "ended": [str, int, str, str, bytes, bool],
    "stuck": [str, int],
    "beat": [str],
}


def is_of_a_child(message: Message) -> bool:
    """A function may write to any descriptor it finds, the socket too."""
    kind = message[0] if message else None
    return isinstance(kind, str) and [type(each) for each in message] == _OF_A_CHILD.get(kind)


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
            try:
                found.append(_decoder.decode(bytes(self._buffer[at + _LENGTH.size : end])))
            except msgspec.MsgspecError as error:
                raise TheirBug(f"no message between our own processes: {error}") from None
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
        try:
            data = self.socket.recv(1 << 20, flags)
        except BlockingIOError:
            raise
        except OSError:
            os._exit(1)  # a function has closed it, or has forked and come back twice
        if not data:
            os._exit(0)
        self.waiting += self._reader.feed(data)

    def send(self, *message: object) -> None:
        try:
            with self._sending:
                self.socket.sendall(pack(*message))
        except OSError:
            os._exit(1)

    def hang_up(self) -> None:
        """In a copy of ours that a function has forked: it must not speak or hear for us."""
        self.socket.close()
