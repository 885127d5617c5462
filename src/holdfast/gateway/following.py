"""Routes that follow the fleet: `/actions` and `/changes`, in each of the ways of `streaming`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.errors import HoldfastError
from holdfast.gateway.asked import Asked
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import PAGE, json_response, route
from holdfast.gateway.feeds import Feeds, check_filter
from holdfast.gateway.guarding import is_welcome, require
from holdfast.gateway.problems import Problem, problem_of, response_of
from holdfast.gateway.settings import Bounds
from holdfast.gateway.streaming import (
    EVENT_STREAM,
    EventStream,
    Feed,
    Hub,
    as_events,
    over_websocket,
)
from holdfast.gateway.tokens import Role

WAIT_SECONDS_MAX = 60.0
Choose = Callable[[Asked], Feed]


class FollowRoutes:
    def __init__(self, feeds: Feeds, hub: Hub, crews: Crews, bounds: Bounds) -> None:
        self._feeds = feeds
        self._hub = hub
        self._crews = crews
        self._bounds = bounds

    def routes(self) -> list[BaseRoute]:
        return [
            route("/actions", "GET", Role.READ, self._actions),
            route("/changes", "GET", Role.READ, self._changes),
            WebSocketRoute("/actions", partial(self._follow, self._action_feed, ("pending",))),
            WebSocketRoute("/changes", partial(self._follow, self._change_feed, ())),
        ]

    async def _actions(self, request: Request) -> Response:
        return await self._page_or_stream(request, self._action_feed, "action", "pending")

    async def _changes(self, request: Request) -> Response:
        return await self._page_or_stream(request, self._change_feed, "change")

    def _action_feed(self, asked: Asked) -> Feed:
        return partial(self._feeds.actions, *_filter(asked), asked.flag("pending"))

    def _change_feed(self, asked: Asked) -> Feed:
        return partial(self._feeds.changes, *_filter(asked))

    async def _page_or_stream(
        self, request: Request, choose: Choose, noun: str, *more: str
    ) -> Response:
        asked = Asked(request.query_params, ("after", "most", "wait", "agent", "key", *more))
        feed, cursor = choose(asked), asked.text("after")
        if EVENT_STREAM in request.headers.get("accept", ""):
            cursor = request.headers.get("last-event-id", cursor)
            await self._crews.reads.run(feed, cursor, 1)  # what is wrong with it is told at once
            welcome = partial(is_welcome, request.scope)
            self._hub.enter()
            return EventStream(self._hub, as_events(self._hub, feed, cursor, noun, welcome))
        most = asked.whole("most", PAGE, 1, self._bounds.rows_per_page_max)
        wait = asked.seconds("wait", 0.0, WAIT_SECONDS_MAX)
        self._hub.enter()
        try:
            page = await self._hub.next_page(feed, cursor, most, wait)
        finally:
            self._hub.leave()
        if not is_welcome(request.scope):
            raise Problem(401, "Unauthorized", "the token is no longer good: come with another")
        return json_response({f"{noun}s": page.rows, "cursor": page.cursor})

    async def _follow(self, choose: Choose, more: tuple[str, ...], socket: WebSocket) -> None:
        try:
            require(socket.scope, Role.READ)
            asked = Asked(socket.query_params, ("after", "agent", "key", *more))
            feed, cursor = choose(asked), asked.text("after")
            await self._crews.reads.run(feed, cursor, 1)
            self._hub.enter()
        except (HoldfastError, Problem) as refusal:
            problem = refusal if isinstance(refusal, Problem) else problem_of(refusal)
            await socket.send_denial_response(response_of(problem))
            return
        await over_websocket(self._hub, feed, cursor, socket)


def _filter(asked: Asked) -> tuple[str | None, str | None]:
    agent, key = asked.text("agent"), asked.text("key")
    check_filter(agent, key)
    return agent, key
