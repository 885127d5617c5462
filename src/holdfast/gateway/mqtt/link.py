"""The link: keeps a connection to the broker, on a thread of its own.

Messages come from it in the order in which the broker sent them, and acknowledgements go back in
that order. They belong to their connection: after it has ended, the broker sends again what it has
no acknowledgement for.
"""

from __future__ import annotations

import logging
import os
import select
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import AccessDenied, DamagedData, HoldfastError, Unreachable
from holdfast.gateway.mqtt.address import Broker
from holdfast.gateway.mqtt.connection import Connection, Ticket
from holdfast.gateway.mqtt.packets import Published
from holdfast.gateway.mqtt.wire import Wire

# Messages in memory: what the broker may send unacknowledged, and what it may cost.
MQTT_WAITING_BYTES_MAX = 64 * 1024 * 1024
OVERHEAD_BYTES = 256  # of a message in memory, about
PAUSES_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)  # while the broker cannot be reached
# A broker throws a client out when another one of its name comes, and not all of them say so. Two
# bridges of one name must not do that to each other all the time: who was thrown out soon waits.
STABLE_SECONDS = 10.0
THROWN_OUT_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
LOOK_SECONDS = 0.5
TELL_SECONDS = 10.0

_log = logging.getLogger("holdfast.mqtt")


class Came(NamedTuple):
    """Messages of one connection, to be acknowledged there."""

    connection: Connection
    messages: list[Published]


class Link:
    def __init__(
        self, broker: Broker, name: str, filters: Sequence[str], gone: Sequence[str] = ()
    ) -> None:
        """`gone`: filters of an earlier table, which the broker still has."""
        self._gone = gone
        self._broker = broker
        self._name = name
        self._filters = filters
        self._changed = threading.Condition()
        self._came: deque[Came] = deque()
        self._waiting = 0  # messages that are not acknowledged yet, and their bytes
        self._waiting_bytes = 0
        self._acknowledged: deque[Came] = deque()
        self._connection: Connection | None = None
        self._failure: BaseException | None = None
        self._stopping = False
        self._told = float("-inf")
        self._pinged = time.monotonic()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="holdfast-link", daemon=True)
        self._thread.start()

    # For others.

    def take(self, messages_max: int, seconds: float) -> list[Came]:
        """What has come, in order; nothing after so many seconds without any."""
        with self._changed:
            if not self._came and self._failure is None:
                self._changed.wait(seconds)
            self.check()
            taken: list[Came] = []
            count = 0
            while self._came and count < messages_max:
                taken.append(self._came.popleft())
                count += len(taken[-1].messages)
            return taken

    def acknowledge(self, came: Sequence[Came]) -> None:
        """They are durable, or written down as rejected."""
        with self._changed:
            for each in came:
                self._waiting -= len(each.messages)
                self._waiting_bytes -= _bytes_of(each.messages)
            self._acknowledged += came
        self._ring()

    def publish(
        self, topic: str, payload: bytes, retain: bool, seconds: int | None, trace: str = ""
    ) -> Ticket:
        connection = self._connection
        if connection is None:
            raise Unreachable(f"{self._broker.place}: not connected")
        return connection.publish(topic, payload, retain, seconds, trace)

    @property
    def is_ready(self) -> bool:
        connection = self._connection
        return connection is not None and connection.is_ready

    def check(self) -> None:
        """Raises what has ended the link's thread."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """What was acknowledged is sent before."""
        self._stopping = True
        self._ring()
        self._thread.join()
        os.close(self._bell)

    def _ring(self) -> None:
        try:
            os.eventfd_write(self._bell, 1)
        except BlockingIOError:
            pass  # it rings already

    # The thread.

    def _run(self) -> None:
        try:
            attempts = short = 0
            while not self._stopping:
                connection = Connection(self._broker, self._name, self._filters, self._gone)
                lived = self._live(connection)
                self._connection = None
                if lived is None:
                    attempts += 1
                else:
                    attempts = 0
                    short = short + 1 if lived < STABLE_SECONDS else 0
                self._rest(connection, attempts, short)
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _rest(self, connection: Connection, attempts: int, short: int) -> None:
        """Before the next attempt. The first one that is refused for good ends it."""
        if self._stopping or connection.trouble is None:
            return
        if isinstance(connection.trouble, AccessDenied) and self._told == float("-inf"):
            raise connection.trouble
        self._tell(connection.trouble)
        if connection.is_taken_over:
            pause = THROWN_OUT_SECONDS[-1]
        elif attempts:
            pause = PAUSES_SECONDS[min(attempts, len(PAUSES_SECONDS)) - 1]
        else:
            pause = THROWN_OUT_SECONDS[min(short, len(THROWN_OUT_SECONDS) - 1)]
            if short > 2:
                _log.warning(
                    "%s: %d connections in a row have ended at once: does another bridge connect "
                    "as %r? Give it a ?client_id= of its own",
                    *(self._broker.place, short, self._name),
                )
        self._sleep(pause)
        while not self._has_room and not self._stopping:
            self._sleep(LOOK_SECONDS)  # what came before the end has to find its place first

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopping and (left := deadline - time.monotonic()) > 0:
            self._wait(left)

    def _wait(self, seconds: float, wire: Wire | None = None, *, reads: bool = False) -> bool:
        """Until the bell rings or the wire can be used; whether there is something to read."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if wire is not None:
            wanted = (select.POLLIN if reads else 0) | (select.POLLOUT if wire.waits else 0)
            poll.register(wire, wanted)
        ready = dict(poll.poll(seconds * 1000))
        if self._bell in ready:
            os.eventfd_read(self._bell)
        events = ready.get(wire.fileno(), 0) if wire is not None else 0
        return bool(events & ~select.POLLOUT)

    def _tell(self, trouble: HoldfastError) -> None:
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            _log.warning("%s", trouble)

    def _live(self, connection: Connection) -> float | None:
        """Until the connection has ended; for how long it was ready, if it ever was."""
        since: float | None = None
        try:
            wire = connection.open(lambda *_: self._ring())
        except ssl.SSLCertVerificationError as error:
            text = f"{self._broker.place}: its certificate is not to be trusted: {error}"
            connection.close(AccessDenied(f"{text}: give the right ?ca=FILE"))
            return None
        except OSError as error:
            place = self._broker.place
            connection.close(Unreachable(f"{place}: no connection ({error}): is the broker up?"))
            return None
        self._connection = connection
        while connection.is_open and not self._stopping:
            try:
                self._turn(connection, wire)
            except DamagedData as error:
                connection.close(error)
            if connection.is_ready and since is None:
                since = time.monotonic()
                if self._told > float("-inf"):
                    _log.warning("%s: connected", self._broker.place)
                self._told = time.monotonic() - TELL_SECONDS
        if connection.is_open:
            self._write_acknowledgements(connection, wire)
            connection.close()
        return None if since is None else time.monotonic() - since

    def _turn(self, connection: Connection, wire: Wire) -> None:
        """1 acknowledge, 2 write, 3 wait, 4 read what there is room for, 5 keep alive."""
        self._write_acknowledgements(connection, wire)
        connection.write()
        reads = self._has_room or not connection.is_ready
        if not connection.is_open:
            return
        if self._wait(LOOK_SECONDS, wire, reads=reads):
            self._read(connection, wire)
        if reads:
            connection.keep_alive()
        else:
            self._ping(wire)

    def _read(self, connection: Connection, wire: Wire) -> None:
        more = True
        while more and (self._has_room or not connection.is_ready):
            messages, more = wire.fetch()
            if messages:
                with self._changed:
                    self._came.append(Came(connection, messages))
                    self._waiting += len(messages)
                    self._waiting_bytes += _bytes_of(messages)
                    self._changed.notify_all()
        connection.read()

    @property
    def _has_room(self) -> bool:
        few = self._waiting < 2 * self._broker.receive_max
        return few and self._waiting_bytes < MQTT_WAITING_BYTES_MAX

    def _write_acknowledgements(self, connection: Connection, wire: Wire) -> None:
        while self._acknowledged:
            done = self._acknowledged.popleft()
            if done.connection is connection:
                wire.acknowledge([each.mid for each in done.messages if each.mid])

    def _ping(self, wire: Wire) -> None:
        """While nothing is read, answers are not either; the broker only needs to hear us."""
        now = time.monotonic()
        if now - self._pinged > self._broker.keepalive / 2:
            self._pinged = now
            wire.send(b"\xc0\x00")


def _bytes_of(messages: Sequence[Published]) -> int:
    return sum(len(each.payload) + len(each.topic) + OVERHEAD_BYTES for each in messages)
