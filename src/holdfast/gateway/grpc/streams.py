"""The verbs that go on: events in with acknowledgements out, and pages behind a cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import grpc

from holdfast.errors import UsageError
from holdfast.gateway.crew import Crews
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.grpc import answers
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.door import Entry
from holdfast.gateway.grpc.intake import Intake
from holdfast.gateway.grpc.window import Window
from holdfast.gateway.problems import Problem
from holdfast.gateway.settings import Bounds
from holdfast.gateway.streaming import Feed, Hub, Page

PART_BYTES = 1024 * 1024  # of an answer; most clients take no message past 4 MiB
_STOPS = Problem(
    503, "Service Unavailable", "the gateway stops: connect again", {"retry-after": "1"}
)
Row = TypeVar("Row", pb.Action, pb.State)


class Streams:
    def __init__(
        self, intake: Intake, feeds: Feeds, hub: Hub, crews: Crews, bounds: Bounds
    ) -> None:
        self._intake = intake
        self._feeds = feeds
        self._hub = hub
        self._crews = crews
        self._bounds = bounds
        self._windows: set[Window] = set()

    def stop(self) -> None:
        """What is being appended is acknowledged, then every stream ends."""
        for window in self._windows:
            window.end(_STOPS)

    async def send_stream(self, context: Any, entry: Entry) -> None:
        if len(self._windows) >= self._bounds.send_streams_max:
            text = f"{len(self._windows)} clients stream events, the bound: try again, or use Send"
            raise Problem(503, "Service Unavailable", text, {"retry-after": "10"})
        if self._hub.stopping:
            raise _STOPS
        window = Window(self._bounds.stream_bytes_max, self._bounds.events_per_request_max)
        self._windows.add(window)
        reading = asyncio.create_task(_read(context, window))
        try:
            while messages := await window.take():
                entry.check()
                acknowledgement = await self._crews.sends.run(
                    self._intake.take, messages, entry.trace
                )
                await self._write(context, acknowledgement)
        finally:
            self._windows.discard(window)
            reading.cancel()

    async def follow_actions(self, request: pb.FollowRequest, context: Any, entry: Entry) -> None:
        def answers_of(page: Page) -> Iterator[object]:
            rows = [answers.action(row, request.form) for row in page.rows]
            for part, cursor in _parts(rows, page.cursor):
                yield pb.ActionPage(actions=part, cursor=cursor)

        await self._follow(self._actions, request, context, entry, answers_of)

    def _actions(self, agent: str | None, key: str | None, after: str | None, most: int) -> Page:
        return self._feeds.actions(agent, key, False, after, most)

    async def follow_changes(self, request: pb.FollowRequest, context: Any, entry: Entry) -> None:
        def answers_of(page: Page) -> Iterator[object]:
            rows = [answers.state(row, request.form) for row in page.rows]
            for part, cursor in _parts(rows, page.cursor):
                yield pb.ChangePage(changes=part, cursor=cursor)

        await self._follow(self._feeds.changes, request, context, entry, answers_of)

    async def _follow(
        self,
        feed: Callable[[str | None, str | None, str | None, int], Page],
        request: pb.FollowRequest,
        context: Any,
        entry: Entry,
        answers_of: Callable[[Page], Iterator[object]],
    ) -> None:
        agent, key, after = (
            getattr(request, name) if request.HasField(name) else None
            for name in ("agent", "key", "after")
        )
        if key is not None and agent is None:
            raise UsageError("key without agent: give both")
        chosen: Feed = partial(feed, agent, key)
        self._hub.enter()
        try:
            async for page in self._hub.pages(chosen, after, lambda: True):
                entry.check()
                for answer in answers_of(page):
                    await self._write(context, answer)
        finally:
            self._hub.leave()
        raise _STOPS

    async def _write(self, context: Any, message: object) -> None:
        """Returns when the client has room for more; one that reads nothing is cut off."""
        seconds = self._bounds.write_seconds
        try:
            async with asyncio.timeout(seconds):
                await context.write(message)
        except TimeoutError:
            text = f"nothing was read for {seconds:g} s: read faster, and go on where you were"
            raise Problem(408, "Request Timeout", text) from None


async def _read(context: Any, window: Window) -> None:
    try:
        while (message := await context.read()) is not grpc.aio.EOF:
            await window.put(message)
        window.end()
    except Exception as trouble:  # whoever takes from the window raises it
        window.end(trouble)


def _parts(rows: list[Row], cursor: str) -> Iterator[tuple[list[Row], str]]:
    """A page in parts that clients can take; the last of them has the cursor."""
    part: list[Row] = []
    size = 0
    for row in rows:
        if part and size + row.ByteSize() > PART_BYTES:
            yield part, ""
            part, size = [], 0
        part.append(row)
        size += row.ByteSize()
    yield part, cursor
