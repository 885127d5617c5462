"""Routes about the gateway itself: whether it is well, what it offers, a page for people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.gateway.crew import Crews
from holdfast.gateway.describing import asyncapi, openapi
from holdfast.gateway.endpoints import json_response, read, route
from holdfast.gateway.page import HEADERS, PAGE_HTML
from holdfast.gateway.tokens import Role
from holdfast.runtime.untyped import UntypedLive


class AboutRoutes:
    def __init__(self, live: UntypedLive, crews: Crews) -> None:
        self._live = live
        self._crews = crews

    def routes(self) -> list[BaseRoute]:
        """The first three need no token: they tell nothing of the fleet."""
        return [
            Route("/", self._page, methods=["GET"], name="page"),
            Route("/healthz", self._healthz, methods=["GET"], name="healthz"),
            Route("/readyz", self._readyz, methods=["GET"], name="readyz"),
            route("/openapi.json", "GET", Role.READ, self._openapi),
            route("/asyncapi.json", "GET", Role.READ, self._asyncapi),
            route("/metrics", "GET", Role.READ, self._metrics),
        ]

    async def _page(self, request: Request) -> Response:
        return Response(PAGE_HTML, headers=HEADERS, media_type="text/html")

    async def _healthz(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        """Every partition can be read."""
        await self._crews.reads.run(self._live.commits)
        return json_response({"status": "ready"})

    async def _metrics(self, request: Request) -> Response:
        """In the text format of Prometheus."""
        return Response(
            await self._crews.slow.run(self._live.metrics), media_type="text/plain; version=0.0.4"
        )

    async def _openapi(self, request: Request) -> Response:
        return await read(self._crews.reads, request, (), lambda asked: openapi(self._live))

    async def _asyncapi(self, request: Request) -> Response:
        return await read(self._crews.reads, request, (), lambda asked: asyncapi(self._live))
