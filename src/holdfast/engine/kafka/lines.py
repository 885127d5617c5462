"""The lines of a process to the owners whose partitions it reads: opened, kept, shared by threads.

What is said on them stands in wire.py, who says it in asking.py.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Generator
from typing import NamedTuple

import msgspec

from holdfast.engine.kafka.wire import Request, receive, send
from holdfast.engine.questions import (
    DONE,
    FAILED,
    MORE,
    NOT_OWNED,
    REPLY_BYTES_MAX,
    Reply,
    unpack_reply,
)
from holdfast.errors import DamagedData

CONNECT_SECONDS = 1.0
LINES_MAX = 4  # of a process to one owner, which takes 64; threads wait for each other
IDLE_SECONDS = 30.0  # the owner hangs up after twice as long
ADDRESSES_MAX = 64  # to which lines are kept


class NotServed(Exception):
    """The owner is not there, does not own it any more, or does not answer this."""


class _Cut(NotServed):
    """The line ended before there was an answer: another one may do better."""


class Address(NamedTuple):
    host: str
    port: int
    token: str

    @classmethod
    def of(cls, text: str) -> Address:
        place, _, token = text.partition("#")
        host, _, port = place.rpartition(":")
        if not (host and port.isdecimal() and token):
            raise NotServed(f"{place!r} is no address of an owner")
        return cls(host.strip("[]"), int(port), token)

    def __str__(self) -> str:
        """For messages: without the token."""
        return f"{self.host}:{self.port}"


class _Line:
    def __init__(self, address: Address) -> None:
        self._address = address
        self.used = time.monotonic()
        try:
            place = (address.host, address.port)
            self._socket = socket.create_connection(place, timeout=CONNECT_SECONDS)
        except (OSError, OverflowError, UnicodeError) as error:
            raise NotServed(f"{address} cannot be reached: {error}") from None

    def ask(self, request: Request, seconds: float) -> Reply:
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send(self._socket, request, seconds)
        except OSError as error:
            raise _Cut(f"{self._address} has hung up: {error}") from None
        return self.hear(seconds)

    def hear(self, seconds: float) -> Reply:
        try:
            return unpack_reply(receive(self._socket, REPLY_BYTES_MAX, seconds))
        except TimeoutError:
            text = f"{self._address} did not answer within {seconds:g} s"
            raise NotServed(text) from None
        except (OSError, EOFError) as error:
            raise _Cut(f"{self._address} has hung up: {error}") from None
        except (DamagedData, msgspec.MsgspecError) as error:
            text = f"{self._address} is somebody else, or another release: {error}"
            raise NotServed(text) from None

    def close(self) -> None:
        self._socket.close()


class _Pool:
    """The lines of this process to one owner."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._free = threading.BoundedSemaphore(LINES_MAX)
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._closed = False

    def exchange(self, request: Request, seconds: float) -> Generator[Reply, None, None]:
        """To be taken to its end at once, or closed: until then it has one of the lines."""
        if not self._free.acquire(timeout=seconds):
            raise NotServed(f"{self._address}: all {LINES_MAX} lines are in use")
        try:
            line, reply = self._begin(request, seconds)
            try:
                while reply.status == MORE:
                    yield reply
                    reply = line.hear(seconds)
            except BaseException:
                line.close()  # what is still to come on it is no answer to the next question
                raise
            if reply.status in (DONE, FAILED, NOT_OWNED):
                self._keep(line)
            else:
                line.close()
        finally:
            self._free.release()
        yield reply

    def _begin(self, request: Request, seconds: float) -> tuple[_Line, Reply]:
        """The owner may have hung up lines that were not used: then a new one."""
        line = self._take()
        if line is not None:
            try:
                return self._first(line, request, seconds)
            except _Cut:
                self.hang_up()  # the others are as old
        return self._first(_Line(self._address), request, seconds)

    def _first(self, line: _Line, request: Request, seconds: float) -> tuple[_Line, Reply]:
        try:
            return line, line.ask(request, seconds)
        except BaseException:
            line.close()
            raise

    def _take(self) -> _Line | None:
        with self._lock:
            line = self._idle.pop() if self._idle else None
        if line is not None and time.monotonic() - line.used > IDLE_SECONDS:
            line.close()
            self.hang_up()  # the one that was used last was taken
            return None
        return line

    def _keep(self, line: _Line) -> None:
        line.used = time.monotonic()
        with self._lock:
            if not self._closed:
                self._idle.append(line)
                return
        line.close()

    def hang_up(self, *, for_good: bool = False) -> None:
        with self._lock:
            self._closed = self._closed or for_good
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()


class Connections:
    """The lines of this process to all owners, for all of its threads: while an engine is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[Address, _Pool] = {}
        self._engines = 0

    def opened(self) -> None:
        with self._lock:
            self._engines += 1

    def closed(self) -> None:
        with self._lock:
            self._engines -= 1
            last = self._engines <= 0
        if last:
            self.close()

    def to(self, address: Address) -> _Pool:
        """Those used longest ago are dropped first: most owners that went away do not come back."""
        dropped: list[_Pool] = []
        with self._lock:
            pool = self._pools.pop(address, None) or _Pool(address)
            self._pools[address] = pool
            while len(self._pools) > ADDRESSES_MAX:
                dropped.append(self._pools.pop(next(iter(self._pools))))
        for each in dropped:
            each.hang_up(for_good=True)
        return pool

    def close(self) -> None:
        """Lines in use are closed after it, and who asks next gets new ones."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.hang_up(for_good=True)

    def forget(self) -> None:
        """In a child that was forked: the lines are its parent's, and so is who holds the locks."""
        self._lock = threading.Lock()
        self._pools = {}
        self._engines = 0


SHARED = Connections()
os.register_at_fork(after_in_child=SHARED.forget)
