"""Routes that change something: events, questions, redriven letters."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.errors import Missing, UsageError
from holdfast.gateway.asked import Asked
from holdfast.gateway.bodies import Bodies, media_type
from holdfast.gateway.convoy import Convoys
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import json_response, route
from holdfast.gateway.guarding import require
from holdfast.gateway.sending import Asker, Later, Post, Taker, Values
from holdfast.gateway.settings import Bounds
from holdfast.gateway.tokens import Role
from holdfast.runtime.untyped import UntypedLive, receipt_text


class PostRoutes:
    def __init__(
        self, live: UntypedLive, crews: Crews, bodies: Bodies, bounds: Bounds, taker: Taker
    ) -> None:
        self._live = live
        self._crews = crews
        self._bodies = bodies
        self._taker = taker
        self._convoys: Convoys[Post, Values | Later] = Convoys(self._taker.take_all, crews.convoys)
        self._asker = Asker(live, bounds)

    def routes(self) -> list[BaseRoute]:
        return [
            route("/events", "POST", Role.SEND, self._events),
            route("/ask", "POST", Role.SEND, self._ask),
            route("/dead-letters/{id}/redrive", "POST", Role.ADMIN, self._redrive),
        ]

    async def _events(self, request: Request) -> Response:
        async with self._post(request) as post:
            told = await self._convoys.send(post)
            if isinstance(told, Later):
                crew = self._crews.urgent if told.urgent else self._crews.sends
                told = await crew.run(self._taker.take, post)
            return json_response(told)

    async def _ask(self, request: Request) -> Response:
        async with self._post(request) as post:
            return json_response(await self._crews.asks.run(self._asker.ask, post))

    @asynccontextmanager
    async def _post(self, request: Request) -> AsyncIterator[Post]:
        Asked(request.query_params, ())
        who = require(request.scope, Role.SEND).name
        async with self._bodies.of(request) as body:
            headers = dict(request.headers)
            yield Post(body, media_type(request), headers, who, time.monotonic())

    async def _redrive(self, request: Request) -> Response:
        Asked(request.query_params, ())
        receipt = await self._crews.slow.run(redriven, self._live, request.path_params["id"])
        return json_response({"receipt": receipt})


def redriven(live: UntypedLive, letter: str) -> str:
    """The receipt of a dead letter that was given to its agent again."""
    found = next((each for each in live.dead_letters() if each.id == letter), None)
    if found is None:
        raise Missing(f"no dead letter {letter!r}: the list of dead letters has their ids")
    if found.redriven:
        raise UsageError(f"dead letter {letter!r} was redriven before: a letter comes back once")
    return receipt_text(live.redrive(letter))
