"""Routes that read: agents, their histories and timers, dead letters, partitions."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.gateway.asked import Asked
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import PAGE, json_response, read, route
from holdfast.gateway.reading import Reader, state_values
from holdfast.gateway.settings import Bounds
from holdfast.gateway.tokens import Role


class AgentRoutes:
    def __init__(self, reader: Reader, crews: Crews, bounds: Bounds) -> None:
        self._reader = reader
        self._crews = crews
        self._bounds = bounds

    def routes(self) -> list[BaseRoute]:
        return [
            route("/agents/{agent}", "GET", Role.READ, self._agents),
            route("/agents/{agent}/{key}", "GET", Role.READ, self._state),
            route("/agents/{agent}/{key}/history", "GET", Role.READ, self._history),
            route("/agents/{agent}/{key}/timers", "GET", Role.READ, self._timers),
            route("/dead-letters", "GET", Role.READ, self._dead_letters),
            route("/partitions", "GET", Role.READ, self._partitions),
        ]

    async def _agents(self, request: Request) -> Response:
        def look(asked: Asked) -> dict[str, object]:
            most = self._most(asked)
            return self._reader.agents(request.path_params["agent"], asked.text("from") or "", most)

        return await read(self._crews.slow, request, ("from", "most"), look)

    async def _state(self, request: Request) -> Response:
        asked = Asked(request.query_params, ("after", "timeout", "at"))
        at, after = asked.time("at"), asked.text("after")
        crew = self._crews.reads if at is None and after is None else self._crews.slow
        timeout = asked.seconds("timeout", 10.0, self._bounds.ask_seconds_max)
        agent, key = request.path_params["agent"], request.path_params["key"]
        found = await crew.run(self._reader.state, agent, key, after, timeout, at)
        tag = f'"{found.version}"'
        if tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers={"etag": tag})
        return json_response(state_values(found), {"etag": tag})

    async def _history(self, request: Request) -> Response:
        agent, key = request.path_params["agent"], request.path_params["key"]

        def look(asked: Asked) -> dict[str, object]:
            return self._reader.history(agent, key, self._most(asked))

        return await read(self._crews.slow, request, ("most",), look)

    async def _timers(self, request: Request) -> Response:
        agent, key = request.path_params["agent"], request.path_params["key"]
        return await read(
            self._crews.reads, request, (), lambda asked: self._reader.timers(agent, key)
        )

    async def _dead_letters(self, request: Request) -> Response:
        def look(asked: Asked) -> dict[str, object]:
            return self._reader.dead_letters(self._most(asked))

        return await read(self._crews.slow, request, ("most",), look)

    async def _partitions(self, request: Request) -> Response:
        return await read(self._crews.reads, request, (), lambda asked: self._reader.partitions())

    def _most(self, asked: Asked) -> int:
        return asked.whole("most", PAGE, 1, self._bounds.rows_per_page_max)
