"""Requests that wait for the disk at the same time go there together, on one thread.

A thread for each would spend more on handing over than on the work: while two convoys are under
way, what comes waits, and the next one takes all of it. A request that is alone leaves at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from holdfast.gateway.problems import RETRY_SECONDS, Problem

CONVOYS_MAX = 2  # one is packed while the other waits for the disk
REQUESTS_MAX = 256  # of one convoy
BYTES_MAX = 8 * 1024 * 1024  # of one convoy, unless a single request has more
WAITING_MAX = 2_000  # requests


class Load(Protocol):
    @property
    def body(self) -> bytes: ...


L = TypeVar("L", bound=Load)
R = TypeVar("R")


class _Waiting(NamedTuple, Generic[L, R]):
    load: L
    result: asyncio.Future[R]


class Convoys(Generic[L, R]):
    """`carry` takes the loads of one convoy, and gives for each its result or what is wrong."""

    def __init__(
        self, carry: Callable[[Sequence[L]], list[R | Exception]], threads: ThreadPoolExecutor
    ) -> None:
        self._carry = carry
        self._threads = threads
        self._waiting: deque[_Waiting[L, R]] = deque()
        self._under_way = 0

    async def send(self, load: L) -> R:
        if len(self._waiting) >= WAITING_MAX:
            text = f"{WAITING_MAX} requests with events wait for the disk: try again"
            raise Problem(429, "Too Many Requests", text, {"retry-after": str(RETRY_SECONDS)})
        loop = asyncio.get_running_loop()
        waiting: _Waiting[L, R] = _Waiting(load, loop.create_future())
        self._waiting.append(waiting)
        self._depart(loop)
        return await waiting.result

    def _depart(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and self._under_way < CONVOYS_MAX:
            convoy = self._next()
            self._under_way += 1
            loads = [each.load for each in convoy]
            done = loop.run_in_executor(self._threads, self._carry, loads)
            done.add_done_callback(partial(self._arrived, loop, convoy))

    def _next(self) -> list[_Waiting[L, R]]:
        convoy = [self._waiting.popleft()]
        size = len(convoy[0].load.body)
        while self._waiting and len(convoy) < REQUESTS_MAX:
            size += len(self._waiting[0].load.body)
            if size > BYTES_MAX:
                break
            convoy.append(self._waiting.popleft())
        return convoy

    def _arrived(
        self,
        loop: asyncio.AbstractEventLoop,
        convoy: list[_Waiting[L, R]],
        done: asyncio.Future[list[R | Exception]],
    ) -> None:
        self._under_way -= 1
        results: Sequence[R | BaseException]
        if done.cancelled():
            results = [Problem(503, "Service Unavailable", "the gateway stops")] * len(convoy)
        elif (wrong := done.exception()) is not None:
            results = [wrong] * len(convoy)
        else:
            results = done.result()
        for waiting, result in zip(convoy, results, strict=True):
            if waiting.result.done():
                continue  # its client has gone
            if isinstance(result, BaseException):
                waiting.result.set_exception(result)
            else:
                waiting.result.set_result(result)
        self._depart(loop)
