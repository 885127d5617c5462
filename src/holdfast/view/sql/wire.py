"""What we and the jail say to each other: JSON behind its length, with descriptors beside it.

To it: ["parse", sql] and ["run", sql, [[table, serial], …], seconds, rows_max, bytes_max], with a
descriptor for each table that is new there. From it: [tired, message], where the message is
["ready"], ["done", …] or ["refused", kind, text], the kind "wrong", "late" or "memory", and a tired
one wants to be replaced.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MESSAGE_BYTES_MAX = 256 * 1024 * 1024
DESCRIPTORS_MAX = 120  # at once, of tables
_LENGTH = struct.Struct("<I")


def send(line: socket.socket, message: list[Any], descriptors: list[int] | None = None) -> None:
    send_text(line, json.dumps(message, ensure_ascii=False), descriptors)


def send_text(line: socket.socket, text: str, descriptors: list[int] | None = None) -> None:
    """A message that is JSON already."""
    body = text.encode("utf-8", "surrogatepass")
    # The first byte carries the descriptors, so that they come with the beginning of the message.
    socket.send_fds(line, [_LENGTH.pack(len(body))], descriptors or [])
    line.sendall(body)


def receive(line: socket.socket) -> tuple[list[Any], list[int]]:
    """EOFError where the other side has ended."""
    head, descriptors, _, _ = socket.recv_fds(line, _LENGTH.size, DESCRIPTORS_MAX)
    if not head:
        raise EOFError
    head += exactly(line, _LENGTH.size - len(head))
    (length,) = _LENGTH.unpack(head)
    if length > MESSAGE_BYTES_MAX:
        raise EOFError
    body = exactly(line, length)
    return json.loads(body.decode("utf-8", "surrogatepass")), descriptors


def exactly(line: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = line.recv(min(count - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)
