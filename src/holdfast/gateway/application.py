"""The gateway as an ASGI application around one handle on the fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from holdfast.errors import HoldfastError
from holdfast.gateway import problems
from holdfast.gateway.about import AboutRoutes
from holdfast.gateway.actions import ActionRoutes
from holdfast.gateway.agents import AgentRoutes
from holdfast.gateway.bodies import Bodies
from holdfast.gateway.crew import Crews
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.following import FollowRoutes
from holdfast.gateway.guarding import Guard
from holdfast.gateway.patience import Patience
from holdfast.gateway.posts import PostRoutes
from holdfast.gateway.problems import Problem
from holdfast.gateway.querying import QueryRoutes
from holdfast.gateway.reading import Reader
from holdfast.gateway.remote import RemoteRoutes
from holdfast.gateway.sending import Taker
from holdfast.gateway.settings import Settings
from holdfast.gateway.streaming import Hub
from holdfast.gateway.tokens import Tokens
from holdfast.gateway.views import ViewRoutes
from holdfast.runtime.tracing.spans import Tracer
from holdfast.runtime.untyped import UntypedLive


class Gateway:
    def __init__(self, live: UntypedLive, settings: Settings, tracer: Tracer | None = None) -> None:
        bounds = settings.bounds
        self.taker = Taker(live, bounds, tracer)
        self.crews = Crews()
        bodies = Bodies(bounds)
        reader = Reader(live, settings)
        self._queries = QueryRoutes(live, self.crews, bodies, settings)
        self.hub = Hub(live, self.crews.reads, bounds)
        self.tokens = None if settings.tokens is None else Tokens(Path(settings.tokens))
        self.app = Starlette(
            routes=[
                # They are looked through in order: what is asked most comes first.
                *PostRoutes(live, self.crews, bodies, bounds, self.taker).routes(),
                *AgentRoutes(reader, self.crews, bounds).routes(),
                *AboutRoutes(live, self.crews).routes(),
                *FollowRoutes(Feeds(live), self.hub, self.crews, bounds).routes(),
                *ActionRoutes(live, reader, self.crews, bodies).routes(),
                *self._queries.routes(),
                *ViewRoutes(live, self.crews, bounds).routes(),
                *RemoteRoutes(live, self.crews, bodies, bounds).routes(),
            ],
            middleware=[
                Middleware(Patience, seconds=bounds.write_seconds),
                Middleware(Guard, tokens=self.tokens),
            ],
            exception_handlers={
                Problem: problems.on_problem,
                HoldfastError: problems.on_refusal,
                HTTPException: problems.on_http_error,
                Exception: problems.on_bug,
            },
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False  # a path is what it is

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self.crews.close()
        self._queries.close()
