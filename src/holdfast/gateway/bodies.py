"""The body of a request: read within its bounds of bytes and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from holdfast.gateway.problems import Problem
from holdfast.gateway.settings import Bounds


async def read_body(request: Request, bounds: Bounds) -> bytes:
    most = bounds.body_bytes_max
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > most:
        raise _too_large(f"{int(stated):,} bytes", most)
    found = bytearray()
    try:
        async with asyncio.timeout(bounds.body_seconds):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise _too_large(f"more than {most:,} bytes", most)
    except TimeoutError:
        text = f"the body did not come within {bounds.body_seconds:g} s: send it faster"
        raise Problem(408, "Request Timeout", text, {"connection": "close"}) from None
    except ClientDisconnect:
        raise Problem(400, "Bad Request", "the body ended in the middle") from None
    return bytes(found)


def _too_large(size: str, most: int) -> Problem:
    text = f"a body of {size}; {most:,} is the most: send fewer events at once"
    return Problem(413, "Content Too Large", text, {"connection": "close"})


def media_type(request: Request) -> str:
    """Of the body, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
