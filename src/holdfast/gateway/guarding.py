"""The door: who makes a request, and whether a browser was tricked into it.

Without tokens the gateway listens on loopback only, and there a web page of somebody else is the
stranger: its requests have an Origin that is not ours, or come for a name that is not this machine.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.gateway.problems import Problem, response_of
from holdfast.gateway.settings import is_loopback
from holdfast.gateway.tokens import ANYBODY_HERE, Principal, Role, Tokens

OPEN = frozenset({"/", "/healthz", "/readyz"})  # need no token
_BEARER = "bearer "


class Guard:
    """Puts the principal into the scope, or refuses."""

    def __init__(self, app: ASGIApp, tokens: Tokens | None) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            scope["principal"] = self._principal(Headers(scope=scope), scope["path"])
        except Problem as refusal:
            # Before a WebSocket is accepted this is an ordinary response too.
            response = response_of(refusal)
            if scope["type"] == "websocket":
                await send(
                    {"type": "websocket.close", "code": 1008, "reason": refusal.detail[:100]}
                )
                return
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _principal(self, headers: Headers, path: str) -> Principal | None:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            text = f"a page of {origin} must not use this gateway: call it from its own pages"
            raise Problem(403, "Forbidden", text)
        if self._tokens is None:
            if not is_loopback(host.rpartition(":")[0] if _has_port(host) else host):
                text = f"Host {host!r} is not this machine: use http://localhost, or --tokens"
                raise Problem(421, "Misdirected Request", text)
            return ANYBODY_HERE
        given = headers.get("authorization", "")
        if given.lower().startswith(_BEARER):
            found = self._tokens.principal(given[len(_BEARER) :].strip())
            if found is not None:
                return found
        if path in OPEN:
            return None
        text = "the token is not known here" if given else "who is asking? give a token"
        detail = f"{text}: Authorization: Bearer TOKEN"
        raise Problem(401, "Unauthorized", detail, {"www-authenticate": "Bearer"})


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]")


def require(scope: Scope, role: Role) -> Principal:
    """Who is asking, if it may do this."""
    principal = scope.get("principal")
    if not isinstance(principal, Principal) or principal.role < role:
        name = principal.name if isinstance(principal, Principal) else "nobody"
        needed = role.name.lower()
        raise Problem(403, "Forbidden", f"{name} may not do this: it takes the role {needed}")
    return principal
