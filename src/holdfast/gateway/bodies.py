"""The bodies of requests: read within bounds of bytes and time, for one and for all together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.requests import ClientDisconnect, Request

from holdfast.gateway.problems import RETRY_SECONDS, Problem
from holdfast.gateway.settings import Bounds

LINGER_SECONDS = 2.0  # so long a body that is too large is read on, so that the refusal is heard


class Bodies:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held = 0

    @asynccontextmanager
    async def of(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes count among those of all requests until this ends."""
        found = bytearray()
        try:
            await self._read(request, most or self._bounds.body_bytes_max, found)
            yield bytes(found)
        finally:
            self._held -= len(found)

    async def _read(self, request: Request, most: int, found: bytearray) -> None:
        stated = request.headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > most:
            text = f"a body of {int(stated):,} bytes; {most:,} is the most"
            raise await _too_large(request, text)
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                async for chunk in request.stream():
                    if len(found) + len(chunk) > most:
                        text = f"a body of more than {most:,} bytes, the most"
                        raise await _too_large(request, text)
                    self._hold(len(chunk))
                    found += chunk
        except TimeoutError:
            text = f"the body did not come within {self._bounds.body_seconds:g} s: send it faster"
            raise Problem(408, "Request Timeout", text, {"connection": "close"}) from None
        except ClientDisconnect:
            raise Problem(400, "Bad Request", "the body ended in the middle") from None

    def _hold(self, count: int) -> None:
        most = self._bounds.bodies_bytes_max
        if self._held + count > most:
            text = f"bodies of {most:,} bytes are under way, the bound: try again"
            headers = {"connection": "close", "retry-after": str(RETRY_SECONDS)}
            raise Problem(429, "Too Many Requests", text, headers)
        self._held += count


async def _too_large(request: Request, text: str) -> Problem:
    """Who sends all of it before it reads would only see the line closed: it is read on a while."""
    if request.headers.get("expect", "").lower() != "100-continue":
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await request.receive()).get("more_body"):
                    pass
    detail = f"{text}: send fewer events at once"
    return Problem(413, "Content Too Large", detail, {"connection": "close"})


def media_type(request: Request) -> str:
    """Of the body, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
