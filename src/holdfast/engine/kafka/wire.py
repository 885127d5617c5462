"""The bytes on the lines to owners: a frame is a length and msgpack.

A request is [token, partition, method, arguments], its answer is as `engine/questions.py` says.
serving.py answers, asking.py asks.
"""

from __future__ import annotations

import socket
import struct
import time

import msgspec

from holdfast.engine.questions import Reply, pack
from holdfast.errors import DamagedData

RECEIVE_BYTES = 1024 * 1024

_LENGTH = struct.Struct(">I")


class Request(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    token: str
    partition: int
    method: str
    arguments: msgspec.Raw


unpack_request = msgspec.msgpack.Decoder(Request).decode


def send(line: socket.socket, message: Request | Reply, seconds: float) -> None:
    body = pack(message)
    line.settimeout(seconds)
    line.sendall(_LENGTH.pack(len(body)) + body)


def receive(line: socket.socket, bytes_max: int, seconds: float) -> bytes:
    """One frame. It has to be here whole within this time: a drop now and then does not count.

    EOFError where the line ends, DamagedData for a frame that is too long.
    """
    deadline = time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_exactly(line, _LENGTH.size, deadline))
    if length > bytes_max:
        raise DamagedData(f"a frame of {length:,} bytes; {bytes_max:,} is the most")
    return bytes(_exactly(line, length, deadline))


def _exactly(line: socket.socket, count: int, deadline: float) -> bytearray:
    """It grows with what comes: a length alone, which anybody can write, takes no memory."""
    found = bytearray()
    while len(found) < count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the rest of a frame did not come in time")
        line.settimeout(left)
        piece = line.recv(min(count - len(found), RECEIVE_BYTES))
        if not piece:
            raise EOFError("the line has ended")
        found += piece
    return found
