"""A client that asks and does not read: its answer waits so long, then the line is cut."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ABORT = "holdfast.abort"  # in the scope: cuts the line


class Patience:
    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        abort = scope.get(ABORT)
        if abort is None:
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()

        async def patient(message: Message) -> None:
            cut = loop.call_later(self._seconds, abort)  # a send to a line that is cut returns
            try:
                await send(message)
            finally:
                cut.cancel()

        await self._app(scope, receive, patient)
