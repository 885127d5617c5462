"""One client alone, one request at a time: events a second by form and size of a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec
import numpy as np

from bench.gateway.drones import Drone, Position, fleet
from bench.gateway.plan import as_json, keys_of
from bench.gateway.wire import Connection, request
from bench.results import percentiles

SIZES = (1, 100, 1000)
JSON, MSGPACK = "application/json", "application/msgpack"
COLUMNS = "application/vnd.holdfast.columns+msgpack"
_FIRST_CLIENT = 1_000_000  # sources of their own
Form = Callable[[int, int, int], bytes]


def _as_msgpack(client: int, first: int, count: int) -> bytes:
    return msgspec.msgpack.encode(msgspec.json.decode(as_json(client, first, count)))


def _as_columns(client: int, first: int, count: int) -> bytes:
    keys = keys_of(client)
    numbers = range(first, first + count)
    return msgspec.msgpack.encode(
        {
            "agent": "Drone",
            "type": "Position",
            "keys": [keys[n % len(keys)] for n in numbers],
            "columns": {"number": list(numbers), "lat": 52.1, "lon": 4.3, "alt": 40.0},
            "source": f"client-{client}",
            "first_seq": first,
        }
    )


FORMS: dict[str, tuple[str, Form]] = {
    "JSON": (JSON, as_json),
    "msgpack": (MSGPACK, _as_msgpack),
    "columns, msgpack": (COLUMNS, _as_columns),
}


def rows(port: int, seconds: float) -> list[dict[str, object]]:
    found = []
    client = _FIRST_CLIENT
    for size in SIZES:
        for name, (media, form) in FORMS.items():
            client += 1
            found.append(
                {"form": name, **asyncio.run(_row(port, client, media, form, size, seconds))}
            )
        found.append({"form": "fleet.connect, columns", **_connected(port, size, seconds)})
    return found


async def _row(
    port: int, client: int, media: str, form: Form, size: int, seconds: float
) -> dict[str, object]:
    line = Connection(port)

    async def send(first: int) -> None:
        answer = await line.ask(request("POST", "/events", form(client, first, size), media))
        if answer.status != 200 or answer.values()["repeats"]:
            raise RuntimeError(f"a request of {size} events as {media}: {answer}")

    try:
        return await _timed(send, size, seconds)
    finally:
        line.close()


def _connected(port: int, size: int, seconds: float) -> dict[str, object]:
    """The same by `live.send_columns` of a handle on the gateway."""
    names = keys_of(_FIRST_CLIENT)
    with fleet.connect(f"http://127.0.0.1:{port}") as live:
        keys = live.keys(Drone, [names[n % len(names)] for n in range(size)])

        async def send(first: int) -> None:
            numbers = np.arange(first, first + size)
            live.send_columns(
                Drone,
                Position,
                keys,
                number=numbers,
                lat=np.full(size, 52.1),
                lon=np.full(size, 4.3),
                alt=np.full(size, 40.0),
                source=f"connected-{size}",
                first_seq=first,
            )

        return asyncio.run(_timed(send, size, seconds))


async def _timed(
    send: Callable[[int], Awaitable[None]], size: int, seconds: float
) -> dict[str, object]:
    """Making the body is counted: a client has to."""
    await send(1)
    taken: list[float] = []
    begin = now = time.perf_counter()
    while now < begin + seconds:
        await send(1 + size * (1 + len(taken)))
        ended = time.perf_counter()
        taken.append(ended - now)
        now = ended
    return {
        "events_per_request": size,
        "events_per_second": round(size * len(taken) / (now - begin)),
        **cast("dict[str, object]", percentiles(taken)),
    }
