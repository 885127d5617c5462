"""The threads of a gateway. What blocks (an append, a read, a wait for an answer) runs on one.

Sends, slow reads and asks have threads of their own: a hundred who wait for an answer hold up
nobody who sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.gateway.convoy import CONVOYS_MAX
from holdfast.gateway.problems import RETRY_SECONDS, Problem

P = ParamSpec("P")
R = TypeVar("R")


class Crew:
    def __init__(self, name: str, threads: int, waiting_max: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, f"holdfast-{name}")
        self._most = threads + waiting_max
        self._busy = 0

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._busy >= self._most:
            text = f"{self._most} requests of this kind are under way ({self._name}): try again"
            raise Problem(429, "Too Many Requests", text, {"retry-after": str(RETRY_SECONDS)})
        self._busy += 1
        future = asyncio.get_running_loop().run_in_executor(
            self._threads, partial(function, *args, **kwargs)
        )
        # Not when we are done, but when the thread is: a client that goes away frees no thread.
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[R]) -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # whoever asked may be gone: nobody else looks at it

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Crews:
    def __init__(self) -> None:
        self.convoys = ThreadPoolExecutor(CONVOYS_MAX, "holdfast-convoy")
        self.sends = Crew("send", 64, 2_000)  # more of them share a transaction
        self.reads = Crew("read", 8, 1_000)
        self.slow = Crew("slow", 4, 100)  # histories, queries, the past
        self.asks = Crew("ask", 64, 0)

    def close(self) -> None:
        for crew in (self.sends, self.reads, self.slow, self.asks):
            crew.close()
        self.convoys.shutdown(wait=False, cancel_futures=True)
