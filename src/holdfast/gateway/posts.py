"""Routes that change something: events, questions, redriven letters."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.gateway.asked import Asked
from holdfast.gateway.bodies import media_type, read_body
from holdfast.gateway.convoy import Convoys
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import json_response, route
from holdfast.gateway.guarding import require
from holdfast.gateway.problems import Problem
from holdfast.gateway.sending import Asker, Post, Taker, Unnumbered, Values
from holdfast.gateway.settings import Bounds
from holdfast.gateway.tokens import Role
from holdfast.runtime.untyped import UntypedLive, receipt_text


class PostRoutes:
    def __init__(self, live: UntypedLive, crews: Crews, bounds: Bounds) -> None:
        self._live = live
        self._crews = crews
        self._bounds = bounds
        self._taker = Taker(live, bounds)
        self._convoys: Convoys[Post, Values | Unnumbered] = Convoys(
            self._taker.take_all, crews.convoys
        )
        self._asker = Asker(live, bounds)

    def routes(self) -> list[BaseRoute]:
        return [
            route("/events", "POST", Role.SEND, self._events),
            route("/ask", "POST", Role.SEND, self._ask),
            route("/dead-letters/{id}/redrive", "POST", Role.ADMIN, self._redrive),
        ]

    async def _events(self, request: Request) -> Response:
        post = await self._post(request)
        told = await self._convoys.send(post)
        if isinstance(told, Unnumbered):
            told = await self._crews.sends.run(self._taker.send, told)
        return json_response(told)

    async def _ask(self, request: Request) -> Response:
        post = await self._post(request)
        return json_response(await self._crews.asks.run(self._asker.ask, post))

    async def _post(self, request: Request) -> Post:
        if request.scope["query_string"]:
            Asked(request.query_params, ())
        who = require(request.scope, Role.SEND).name
        body = await read_body(request, self._bounds)
        return Post(body, media_type(request), dict(request.headers), who)

    async def _redrive(self, request: Request) -> Response:
        Asked(request.query_params, ())
        receipt = await self._crews.slow.run(self._redriven, request.path_params["id"])
        return json_response({"receipt": receipt})

    def _redriven(self, letter: str) -> str:
        if not any(each.id == letter for each in self._live.dead_letters()):
            text = f"no dead letter {letter!r}: GET /dead-letters lists them"
            raise Problem(404, "Missing", text)
        return receipt_text(self._live.redrive(letter))
