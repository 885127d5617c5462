"""`/actions` and `/changes`: a page of JSON, a page that is waited for, Server-Sent Events or a
WebSocket, each going on behind a cursor.

One task looks whether anything was committed, for all who follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.errors import HoldfastError
from holdfast.gateway.crew import Crew
from holdfast.gateway.guarding import is_welcome
from holdfast.gateway.problems import Problem, document, problem_of
from holdfast.gateway.settings import Bounds
from holdfast.runtime.exporting.payloads import json_text
from holdfast.runtime.untyped import UntypedLive

EVENT_STREAM = "text/event-stream"
LOOK_SECONDS = 0.02  # an action is seen this long after its commit
HEARTBEAT_SECONDS = 15.0  # a comment, so that a line that is cut is noticed
WELCOME_SECONDS = 1.0  # so often a follower's token is looked at again
ROWS_AT_ONCE = 500

_log = logging.getLogger("holdfast.gateway")


class Page(NamedTuple):
    rows: list[dict[str, object]]
    cursor: str
    more: bool = False  # it ends where it was full, whoever its rows were for


Feed = Callable[[str | None, int], Page]  # blocking: reads behind a cursor


class Hub:
    """Those who follow, and the look that wakes them."""

    def __init__(self, live: UntypedLive, reads: Crew, bounds: Bounds) -> None:
        self._live = live
        self._reads = reads
        self.bounds = bounds
        self._following = 0
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.stopping = False

    def enter(self) -> None:
        if self._following >= self.bounds.streams_max:
            text = f"{self._following} clients follow, the bound: try again, or ask for pages"
            raise Problem(503, "Service Unavailable", text, {"retry-after": "10"})
        self._following += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def leave(self) -> None:
        self._following -= 1

    def stop(self) -> None:
        """Streams end, and whoever follows comes back to another gateway."""
        self.stopping = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _look(self) -> None:
        seen: object = None
        while self._following and not self.stopping:
            try:
                now = await self._reads.run(self._live.commits)
                if now != seen:
                    seen = now
                    self._wake()
            except (HoldfastError, Problem) as trouble:
                _log.warning("followers wait: %s", trouble)  # and the next look may do better
                await asyncio.sleep(1.0)
            await asyncio.sleep(LOOK_SECONDS)

    async def next_page(self, feed: Feed, cursor: str | None, most: int, wait: float) -> Page:
        """A page that has rows, or after `wait` seconds one that has none."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            changed = self._changed  # taken first: nothing is committed between look and wait
            page = await self._reads.run(feed, cursor, most)
            left = deadline - loop.time()
            if page.rows or left <= 0 or self.stopping:
                return page
            cursor = page.cursor
            if page.more:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await changed.wait()

    async def pages(
        self, feed: Feed, cursor: str | None, welcome: Callable[[], bool]
    ) -> AsyncIterator[Page]:
        """Behind the cursor, as they come; an empty one where nothing came for a while."""
        quiet = 0.0
        while not self.stopping and welcome():
            page = await self.next_page(feed, cursor, ROWS_AT_ONCE, WELCOME_SECONDS)
            cursor = page.cursor
            quiet = 0.0 if page.rows else quiet + WELCOME_SECONDS
            if page.rows or quiet >= HEARTBEAT_SECONDS:
                quiet = 0.0
                yield page


class EventStream(StreamingResponse):
    """Of somebody who has entered; it leaves also if it went away before the first byte."""

    def __init__(self, hub: Hub, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type=EVENT_STREAM, headers={"cache-control": "no-store"})
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave()


async def as_events(
    hub: Hub, feed: Feed, cursor: str | None, name: str, welcome: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Server-Sent Events. The id of the last row of a page is the cursor behind it."""
    try:
        yield b"retry: 1000\n\n"
        async for page in hub.pages(feed, cursor, welcome):
            if not page.rows:
                yield b": nothing new\n\n"
                continue
            texts = [b"event: %s\ndata: %s\n" % (name.encode(), json_text(r)) for r in page.rows]
            texts[-1] += b"id: %s\n" % page.cursor.encode()
            yield b"\n".join(texts) + b"\n"
    except HoldfastError as error:
        yield _problem(problem_of(error))
    except Problem as problem:
        yield _problem(problem)


def _problem(problem: Problem) -> bytes:
    return b"event: problem\ndata: %s\n\n" % document(problem)


async def over_websocket(hub: Hub, feed: Feed, cursor: str | None, socket: WebSocket) -> None:
    """Pages as messages: {"rows": […], "cursor": "…"}. What the client says is passed over."""
    tasks: set[asyncio.Task[None]] = set()
    try:
        await socket.accept()
        telling = asyncio.create_task(_tell(hub, feed, cursor, socket))
        tasks |= {telling, asyncio.create_task(_until_gone(socket))}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        hub.leave()
    if telling.done() and not telling.cancelled():
        telling.result()  # a bug of ours is told


async def _tell(hub: Hub, feed: Feed, cursor: str | None, socket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):  # it is gone, or has been cut off because it reads nothing
        try:
            async for page in hub.pages(feed, cursor, partial(is_welcome, socket.scope)):
                if page.rows:
                    message = json_text({"rows": page.rows, "cursor": page.cursor})
                    await socket.send_text(message.decode())
        except (HoldfastError, Problem) as error:
            await socket.close(1011, str(error)[:100])
            return
        if hub.stopping:
            await socket.close(1001, "the gateway stops: connect again")
        else:
            await socket.close(1008, "the token is no longer good: come with another")


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
