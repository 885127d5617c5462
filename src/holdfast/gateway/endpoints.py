"""What every route has: a role that it takes, and answers in JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.gateway.asked import Asked
from holdfast.gateway.crew import Crew
from holdfast.gateway.guarding import require
from holdfast.gateway.tokens import Role
from holdfast.runtime.exporting.payloads import json_text

Endpoint = Callable[[Request], Awaitable[Response]]
Values = dict[str, object]
PAGE = 100  # rows, unless asked for more


def route(path: str, method: str, role: Role, endpoint: Endpoint) -> Route:
    async def guarded(request: Request) -> Response:
        require(request.scope, role)
        return await endpoint(request)

    return Route(path, guarded, methods=[method], name=endpoint.__name__.strip("_"))


def route_by_method(path: str, endpoints: Mapping[str, tuple[Role, Endpoint]]) -> Route:
    """One path, so that who asks with another method is told all that there are."""

    async def guarded(request: Request) -> Response:
        role, endpoint = endpoints["GET" if request.method == "HEAD" else request.method]
        require(request.scope, role)
        return await endpoint(request)

    return Route(path, guarded, methods=list(endpoints), name=path.strip("/"))


def json_response(values: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_text(values), headers=dict(headers or {}), media_type="application/json")


async def read(
    crew: Crew, request: Request, known: tuple[str, ...], look: Callable[[Asked], Values]
) -> Response:
    """What `look` finds, on a thread of the crew."""
    asked = Asked(request.query_params, known)
    return json_response(await crew.run(look, asked))
