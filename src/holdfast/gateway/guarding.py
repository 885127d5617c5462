"""The door: who makes a request, and whether a browser was tricked into it.

Without tokens the gateway listens on loopback only, and there a web page of somebody else is the
stranger: its requests have an Origin that is not ours, or come for a name that is not this machine.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.gateway.crew import asking
from holdfast.gateway.problems import Problem, response_of
from holdfast.gateway.settings import is_loopback
from holdfast.gateway.tokens import ANYBODY_HERE, Principal, Role, Tokens

OPEN = frozenset({"/", "/healthz", "/readyz"})  # need no token
WELCOME = "holdfast.welcome"  # in the scope: whether its token is still good
_BEARER = "bearer "
_SCHEMES = frozenset({"basic", "digest", "negotiate", "token", "apikey"})


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
            self._admit(scope, Headers(scope=scope))
        except Problem as refusal:
            # Before a WebSocket is accepted this is an ordinary response too.
            await response_of(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        principal = scope["principal"] = self._principal(headers, scope["path"])
        asking.set("" if principal is None else principal.name)
        tokens, token = self._tokens, _token(headers)
        if tokens is not None and principal is not None:
            scope[WELCOME] = lambda: tokens.still_has(token, principal)

    def _principal(self, headers: Headers, path: str) -> Principal | None:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and (not host or _place(origin) != host):
            text = f"a page of {origin} must not use this gateway: call it from its own pages"
            raise Problem(403, "Forbidden", text)
        if self._tokens is None:
            if not is_loopback(host.rpartition(":")[0] if _has_port(host) else host):
                text = f"Host {host!r} is not this machine: use http://localhost, or --tokens"
                raise Problem(421, "Misdirected Request", text)
            return ANYBODY_HERE
        token = _token(headers)
        found = self._tokens.principal(token) if token else None
        if found is not None or path in OPEN:
            return found
        detail = why_unknown(headers.get("authorization", ""), "Authorization")
        raise Problem(401, "Unauthorized", detail, {"www-authenticate": "Bearer"})


def why_unknown(given: str, place: str) -> str:
    """Of one that comes without a token that is known; `place` is where it would be."""
    scheme = given.partition(" ")[0]
    if not given:
        return f"who is asking? give a token: {place}: Bearer TOKEN"
    if scheme.lower() != _BEARER.strip():
        return f"{_shown(scheme)} is not taken: send {place}: Bearer TOKEN"
    return f"the token is not known here: {place}: Bearer TOKEN"


def _shown(scheme: str) -> str:
    """Only what is surely no secret: a token may stand where the scheme should."""
    return scheme if scheme.lower() in _SCHEMES else "this scheme"


def _token(headers: Headers) -> str:
    given = headers.get("authorization", "")
    return given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else ""


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def is_welcome(scope: Scope) -> bool:
    """Whether who began this request may still read: its token may have been taken away."""
    look = scope.get(WELCOME)
    return look is None or bool(look())


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
