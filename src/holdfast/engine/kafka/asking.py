"""Reading a partition from its owner, over the line that serving.py answers.

Whoever asks has the address from the topic of owners. `NotServed` means: not from
there, not now. It comes before anything of an answer was given away, so that the caller can go on
with another owner, or with a copy of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import msgspec

from holdfast.engine.asked import AskedView
from holdfast.engine.kafka.lines import SHARED, Address, Connections
from holdfast.engine.kafka.lines import NotServed as NotServed  # noqa: PLC0414 (raised here)
from holdfast.engine.kafka.wire import Request
from holdfast.engine.questions import (
    DONE,
    FAILED,
    MORE,
    NOT_OWNED,
    REQUEST_BYTES_MAX,
    Reply,
    pack,
    unpack_error,
    unpack_text,
)

# For each frame of an answer. An owner may have to read its inbox to the end for the first, or all
# of its agents: a million takes some seconds.
READ_SECONDS = 10.0
_AROUND_BYTES = 1024  # a request has more in it than its arguments


class Standing(NamedTuple):
    """How new an answer is: whose claim it was, and how many commits it shows at least."""

    epoch: int
    commits: int


class RemoteView(AskedView):
    """For any thread; one that has seen a claim or a commit never sees an older one."""

    def __init__(
        self,
        address: str,
        partition: int,
        timeout: float = READ_SECONDS,
        *,
        least_epoch: int = 0,
        connections: Connections = SHARED,
    ) -> None:
        """`least_epoch`: of the newest claim that is known. Who has an older one was superseded.

        NotServed at once for an empty address: an owner that does not serve.
        """
        self._address = Address.of(address)
        self._partition = partition
        self._timeout = timeout
        self._connections = connections
        self._lock = threading.Lock()
        self._seen = Standing(least_epoch, 0)

    @property
    def standing(self) -> Standing:
        """The newest that any answer had."""
        return self._seen

    # Asking.

    def _ask(self, take: Callable[[msgspec.Raw], object], method: str, *arguments: object) -> None:
        request = self._request(method, arguments)
        least = self._seen  # when it is asked: what others see meanwhile may come earlier
        replies = self._connections.to(self._address).exchange(request, self._timeout)
        with closing(replies):
            for reply in replies:
                try:
                    self._check(reply, least)
                    take(reply.payload)
                except msgspec.MsgspecError as error:
                    raise self._refused(f"{method}: another release? {error}") from None
        with self._lock:
            self._seen = max(self._seen, Standing(reply.epoch, reply.commits))

    def _request(self, method: str, arguments: tuple[object, ...]) -> Request:
        try:
            packed = pack(arguments)
        except (OverflowError, UnicodeError) as error:
            raise self._refused(f"{method}: {error}") from None
        if len(packed) > REQUEST_BYTES_MAX - _AROUND_BYTES:
            raise self._refused(f"{method}: arguments of {len(packed):,} bytes")
        return Request(self._address.token, self._partition, method, msgspec.Raw(packed))

    def _check(self, reply: Reply, least: Standing) -> None:
        if reply.status == NOT_OWNED:
            raise self._refused("it does not own it now")
        if reply.status not in (DONE, MORE, FAILED):
            raise self._refused(unpack_text(reply.payload))
        if reply.epoch < least.epoch:
            raise self._refused(
                f"its claim has epoch {reply.epoch}, there is one with {least.epoch}"
            )
        if reply.status == FAILED:
            raise unpack_error(reply.payload)
        if reply.commits < least.commits:
            raise self._refused(f"of {least.commits} commits it has {reply.commits}")

    def _refused(self, why: str) -> NotServed:
        return NotServed(f"partition {self._partition} at {self._address}: {why}")
