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

        async def patient(message: Message) -> None:
            try:
                async with asyncio.timeout(self._seconds):
                    await send(message)
            except TimeoutError:
                if abort is None:
                    raise
                abort()

        await self._app(scope, receive, patient if abort is not None else send)
