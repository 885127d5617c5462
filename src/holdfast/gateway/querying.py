"""`POST /query`: one SELECT over what is committed. The extra `sql` brings what it needs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.cli.times import parse_time
from holdfast.gateway.asked import Asked
from holdfast.gateway.bodies import Bodies, media_type
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import Values, json_response, route
from holdfast.gateway.envelopes import JSON, decoded
from holdfast.gateway.past import answer_then
from holdfast.gateway.problems import Problem
from holdfast.gateway.settings import Settings
from holdfast.gateway.tokens import Role
from holdfast.runtime.untyped import UntypedLive

if TYPE_CHECKING:
    from holdfast.view.sql.queries import Queries


class Query(msgspec.Struct, forbid_unknown_fields=True):
    sql: str
    at: str | None = None
    since: str | None = None


class QueryRoutes:
    """What queries have read is kept for the next, from the first one on."""

    def __init__(
        self,
        live: UntypedLive,
        crews: Crews,
        bodies: Bodies,
        settings: Settings,
    ) -> None:
        self._live = live
        self._crews = crews
        self._bodies = bodies
        self._settings = settings
        self._making = threading.Lock()
        self._queries: Queries | None = None

    def routes(self) -> list[BaseRoute]:
        return [route("/query", "POST", Role.READ, self._query)]

    async def _query(self, request: Request) -> Response:
        Asked(request.query_params, ())
        if media_type(request) != JSON:
            text = f"a query as {media_type(request) or 'no content type'}: send {JSON}"
            raise Problem(415, "Unsupported Media Type", text)
        async with self._bodies.of(request) as body:
            query = decoded(msgspec.json.Decoder(Query).decode, body, "query")
        return json_response(await self._crews.queries.run(self._answer, query))

    def _answer(self, query: Query) -> Values:
        since = None if query.since is None else parse_time(query.since)
        if query.at is None:
            found = self._kept().answer(query.sql, since=since)
        else:
            found = answer_then(self._settings, query.sql, parse_time(query.at))
        return {
            "columns": [{"name": name, "type": kind} for name, kind in found.columns],
            "rows": found.rows,
            "positions": found.positions,
            "truncated": found.truncated,
            "notes": found.notes,
        }

    def _kept(self) -> Queries:
        with self._making:
            if self._queries is None:
                from holdfast.view.sql.queries import Queries  # its libraries are an extra

                self._queries = Queries(self._live)
            return self._queries

    def close(self) -> None:
        with self._making:
            if self._queries is not None:
                self._queries.close()
