"""The wire: a socket that is read and written in large pieces.

paho reads a packet with three calls, makes objects of each and writes an acknowledgement with a
call of its own; at 25,000 messages a second that is more than a core. So messages are taken out
here, and paho gets to see all other packets. It knows nothing of it.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress

from holdfast.gateway.mqtt.packets import Packets, Published, acknowledgements

READ_BYTES = 256 * 1024
MQTT_WRITE_BYTES_MAX = 1024 * 1024  # that wait for the broker; then paho waits too
GOODBYE_SECONDS = 2.0  # for what still waits when the wire is closed

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Wire:
    """What paho takes for its socket. Touched by the thread of the link only."""

    def __init__(self, connected: socket.socket, packets: Packets) -> None:
        self._socket = connected
        self._packets = packets
        self._came = bytearray()  # for paho
        self._goes = bytearray()
        self._ended = False

    def fetch(self) -> tuple[list[Published], bool]:
        """What has come of messages, and whether there may be more at once."""
        try:
            data = self._socket.recv(READ_BYTES)
        except _NOT_NOW:
            return [], False
        except OSError:
            data = b""  # paho is told by an end too
        if not data:
            self._ended = True
            return [], False
        messages, others = self._packets.cut(data)
        self._came += others
        return messages, True

    @property
    def has_packets(self) -> bool:
        """Whether paho has something to read; the end counts."""
        return bool(self._came) or self._ended

    @property
    def waits(self) -> bool:
        return bool(self._goes)

    def acknowledge(self, mids: list[int]) -> None:
        self._goes += acknowledgements(mids)

    def flush(self) -> None:
        """As much as goes without waiting."""
        while self._goes:
            try:
                sent = self._socket.send(self._goes)
            except _NOT_NOW:
                return
            except OSError:
                self._ended = True
                return
            del self._goes[:sent]

    # As paho wants it.

    def fileno(self) -> int:
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        self._socket.setblocking(flag)

    def recv(self, size: int) -> bytes:
        if not self._came and not self._ended:
            raise BlockingIOError("nothing has come")
        piece = bytes(self._came[:size])
        del self._came[:size]
        return piece

    def send(self, data: bytes | bytearray) -> int:
        if len(self._goes) > MQTT_WRITE_BYTES_MAX:
            raise BlockingIOError("too much waits for the broker")
        self._goes += data
        return len(data)

    def close(self) -> None:
        """What waits is sent, and the broker's own end is waited for: only then it has read our
        last acknowledgements. Otherwise whoever connects next under our name cuts them off."""
        with suppress(OSError):  # who is gone misses no goodbye
            self._socket.settimeout(GOODBYE_SECONDS)
            self._socket.sendall(self._goes)
            deadline = time.monotonic() + GOODBYE_SECONDS
            while not self._ended and time.monotonic() < deadline:
                self._ended = not self._socket.recv(READ_BYTES)
        self._socket.close()
