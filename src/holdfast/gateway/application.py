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
from holdfast.gateway.agents import AgentRoutes
from holdfast.gateway.crew import Crews
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.following import FollowRoutes
from holdfast.gateway.guarding import Guard
from holdfast.gateway.patience import Patience
from holdfast.gateway.posts import PostRoutes
from holdfast.gateway.problems import Problem
from holdfast.gateway.reading import Reader
from holdfast.gateway.remote import RemoteRoutes
from holdfast.gateway.settings import Settings
from holdfast.gateway.streaming import Hub
from holdfast.gateway.tokens import Tokens
from holdfast.gateway.views import ViewRoutes
from holdfast.runtime.untyped import UntypedLive


class Gateway:
    def __init__(self, live: UntypedLive, settings: Settings) -> None:
        bounds = settings.bounds
        self._crews = Crews()
        self.hub = Hub(live, self._crews.reads, bounds)
        tokens = None if settings.tokens is None else Tokens(Path(settings.tokens))
        self.app = Starlette(
            routes=[
                *AboutRoutes(live, self._crews).routes(),
                *PostRoutes(live, self._crews, bounds).routes(),
                *AgentRoutes(Reader(live, settings), self._crews, bounds).routes(),
                *FollowRoutes(Feeds(live), self.hub, self._crews, bounds).routes(),
                *RemoteRoutes(live, self._crews, bounds).routes(),
                *ViewRoutes(live, self._crews, bounds).routes(),
            ],
            middleware=[
                Middleware(Patience, seconds=bounds.write_seconds),
                Middleware(Guard, tokens=tokens),
            ],
            exception_handlers={
                Problem: problems.on_problem,
                HoldfastError: problems.on_refusal,
                HTTPException: problems.on_http_error,
                Exception: problems.on_bug,
            },
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._crews.close()
