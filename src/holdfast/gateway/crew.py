"""The threads of a gateway. What blocks (an append, a read, a wait for an answer) runs on one.

Sends, slow reads and asks have threads of their own: a hundred who wait for an answer hold up
nobody who sends. So have urgent events and commands, which overtake here too. Of each kind nobody
gets all of them, and those who wait get them in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.gateway.convoy import CONVOYS_MAX
from holdfast.gateway.problems import RETRY_SECONDS, Problem

P = ParamSpec("P")
R = TypeVar("R")

asking: ContextVar[str] = ContextVar("asking", default="")  # the name of whose request this is
Turn = asyncio.Future[None]


class Crew:
    """Used by one event loop."""

    def __init__(self, name: str, threads: int, waiting_max: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, f"holdfast-{name}")
        self._free = threads
        self._each = max(1, threads - threads // 4)  # of one who asks, at once
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, deque[Turn]] = {}  # who is first here is next
        self._room = waiting_max

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        who = asking.get()
        await self._turn(who)
        loop = asyncio.get_running_loop()
        try:
            future = loop.run_in_executor(self._threads, partial(function, *args, **kwargs))
        except BaseException:
            self._end(who)
            raise
        # Not when we are done, but when the thread is: a client that goes away frees no thread.
        future.add_done_callback(partial(self._done, who))
        return await asyncio.shield(future)

    async def _turn(self, who: str) -> None:
        if self._free and self._busy[who] < self._each:
            self._begin(who)
            return
        if not self._room:
            text = f"too many requests of this kind are under way ({self._name}): try again"
            raise Problem(429, "Too Many Requests", text, {"retry-after": str(RETRY_SECONDS)})
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._room -= 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(who)  # it was our turn already
            raise
        finally:
            self._room += 1

    def _begin(self, who: str) -> None:
        self._free -= 1
        self._busy[who] += 1

    def _end(self, who: str) -> None:
        self._free += 1
        self._busy[who] -= 1
        if not self._busy[who]:
            del self._busy[who]
        while self._free and self._call_next():
            pass

    def _call_next(self) -> bool:
        for who in list(self._waiting):
            turns = self._waiting[who]
            while turns and turns[0].done():
                turns.popleft()  # it went away
            if turns and self._busy[who] >= self._each:
                continue
            del self._waiting[who]
            if not turns:
                continue
            self._begin(who)
            turns.popleft().set_result(None)
            if turns:
                self._waiting[who] = turns  # behind the others
            return True
        return False

    def _done(self, who: str, future: asyncio.Future[R]) -> None:
        self._end(who)
        if not future.cancelled():
            future.exception()  # whoever asked may be gone: nobody else looks at it

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Crews:
    def __init__(self) -> None:
        self.convoys = ThreadPoolExecutor(CONVOYS_MAX, "holdfast-convoy")
        self.sends = Crew("send", 64, 2_000)  # more of them share a transaction
        self.urgent = Crew("urgent", 16, 500)  # no matter how many sends wait for room
        self.commands = Crew("command", 8, 200)  # nor urgent events
        self.appends = Crew("append", 32, 1_000)  # of handles, which wait for room at their end
        self.reads = Crew("read", 8, 1_000)
        self.slow = Crew("slow", 4, 100)  # histories, the past
        self.queries = Crew("query", 4, 20)
        self.asks = Crew("ask", 64, 0)

    def close(self) -> None:
        for each in vars(self).values():
            if isinstance(each, Crew):
                each.close()
        self.convoys.shutdown(wait=False, cancel_futures=True)
