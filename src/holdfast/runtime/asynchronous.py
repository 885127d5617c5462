"""The async twin of `Live`: the same methods, awaited, each run on a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from holdfast.runtime.live import Live

P = ParamSpec("P")
R = TypeVar("R")


async def _on_a_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    import asyncio  # costs a fifth of the start of every command that never uses it

    return await asyncio.to_thread(function, *args, **kwargs)


def _awaited(
    method: Callable[Concatenate[Live, P], R],
) -> Callable[Concatenate[AsyncLive, P], Coroutine[object, object, R]]:
    async def call(self: AsyncLive, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await _on_a_thread(method, self.live, *args, **kwargs)

    call.__doc__ = method.__doc__
    return call


class AsyncLive:
    """`async with fleet.connect_async(url) as live: await live.send(…)`."""

    live: Live

    def __init__(self, make: Callable[[], Live]) -> None:
        self._make = make

    send = _awaited(Live.send)
    send_many = _awaited(Live.send_many)
    keys = _awaited(Live.keys)
    send_columns = _awaited(Live.send_columns)
    ask = _awaited(Live.ask)
    state = _awaited(Live.state)
    history = _awaited(Live.history)
    actions = _awaited(Live.actions)
    action = _awaited(Live.action)
    withheld = _awaited(Live.withheld)
    grounded = _awaited(Live.grounded)
    acknowledge = _awaited(Live.acknowledge)
    fail = _awaited(Live.fail)
    delivered = _awaited(Live.delivered)
    override = _awaited(Live.override)
    ground_stop = _awaited(Live.ground_stop)
    lift_ground_stop = _awaited(Live.lift_ground_stop)
    dead_letters = _awaited(Live.dead_letters)
    paused = _awaited(Live.paused)
    positions = _awaited(Live.positions)
    redrive = _awaited(Live.redrive)
    pause = _awaited(Live.pause)
    resume = _awaited(Live.resume)
    wait_for = _awaited(Live.wait_for)
    settle = _awaited(Live.settle)

    async def __aenter__(self) -> AsyncLive:
        self.live = await _on_a_thread(self._make)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _on_a_thread(self.live.close)
