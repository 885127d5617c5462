"""Routes for engines behind this gateway (`fleet.connect("http://…")`): what engine/http asks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import msgspec
from starlette.concurrency import iterate_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from holdfast.engine.http.wire import (
    APPEND_BYTES_MAX,
    LENGTH,
    MEDIA,
    Result,
    Told,
    pack,
    unpack_parcels,
)
from holdfast.engine.port import Taken
from holdfast.engine.questions import (
    DONE,
    FAILED,
    MORE,
    QUESTIONS,
    REQUEST_BYTES_MAX,
    Reply,
    answer,
    pack_error,
)
from holdfast.errors import HoldfastError, Missing
from holdfast.gateway.bodies import Bodies, media_type
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import route
from holdfast.gateway.envelopes import decoded
from holdfast.gateway.guarding import require
from holdfast.gateway.problems import Problem
from holdfast.gateway.settings import Bounds
from holdfast.gateway.tokens import Principal, Role
from holdfast.gateway.vetting import Vetting
from holdfast.runtime.untyped import UntypedLive

_OF_ENGINE = ("hides", "paused_seconds")


class _Number(Convertor[int]):
    """Starlette's own fails at one with thousands of digits."""

    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())


class RemoteRoutes:
    def __init__(self, live: UntypedLive, crews: Crews, bodies: Bodies, bounds: Bounds) -> None:
        self._live = live
        self._engine = live.engine
        self._crews = crews
        self._bodies = bodies
        self._bounds = bounds
        self._vetting = Vetting(live)

    def routes(self) -> list[BaseRoute]:
        return [
            route("/engine", "GET", Role.READ, self._told),
            route("/engine/{partition:number}/append", "POST", Role.SEND, self._append),
            route("/engine/{partition:number}/{method}", "POST", Role.READ, self._view),
        ]

    async def _told(self, request: Request) -> Response:
        return _packed(await self._crews.reads.run(self._tell))

    def _tell(self) -> Told:
        catalog = self._engine.catalog
        layout = catalog.layout
        return Told(
            fleet=catalog.fleet,
            first=layout.first,
            slots=[(slots.start, slots.stop) for slots in layout.partitions],
            retired={n: (slots.start, slots.stop) for n, slots in catalog.retired.items()},
            schemas={number: schema.to_json() for number, schema in catalog.schemas().items()},
            limits=dataclasses.asdict(self._engine.limits),
            capabilities=dataclasses.asdict(self._engine.capabilities),
        )

    # Appending.

    async def _append(self, request: Request) -> Response:
        who = require(request.scope, Role.SEND)
        partition = self._known(request)
        async with self._bodies.of(_engines(request), APPEND_BYTES_MAX) as body:
            until = time.monotonic() + self._bounds.send_seconds
            run = self._crews.appends.run
            return _packed(await run(self._appended, partition, body, who, until))

    def _appended(self, partition: int, body: bytes, who: Principal, until: float) -> list[Result]:
        """All of them are checked before any is appended; each has its own result."""
        given = decoded(unpack_parcels, body, "list of parcels")
        parcels = [self._vetting.checked(partition, each, who) for each in given]
        patience = max(0.0, until - time.monotonic())
        results = self._live.router.try_together(partition, parcels, patience)
        return [_result(each) for each in results]

    # Reading.

    async def _view(self, request: Request) -> Response:
        method = request.path_params["method"]
        partition = self._known(request)
        async with self._bodies.of(_engines(request), REQUEST_BYTES_MAX) as body:
            pass  # a few words: they need not count for longer
        if method in _OF_ENGINE:
            payload = await self._crews.reads.run(getattr(self._engine, method), partition)
            return _run(iter([Reply(DONE, 0, 0, msgspec.Raw(pack(payload)))]))
        question = QUESTIONS.get(method)
        if question is None:
            raise Missing(f"a view has no {method!r}")
        arguments = decoded(question.unpack_arguments, body, f"list of arguments of {method}")
        return _run(self._replies(partition, method, arguments))

    def _replies(
        self, partition: int, method: str, arguments: tuple[object, ...]
    ) -> Iterator[Reply]:
        """The last one says that it is the last; an error of ours is a reply too."""
        try:
            last: msgspec.Raw | None = None
            for payload in answer(self._engine.view(partition), method, arguments):
                if last is not None:
                    yield Reply(MORE, 0, 0, last)
                last = payload
            assert last is not None
            yield Reply(DONE, 0, 0, last)
        except HoldfastError as error:
            yield Reply(FAILED, 0, 0, pack_error(error))

    def _known(self, request: Request) -> int:
        number: int = request.path_params["partition"]
        if number >= self._engine.catalog.layout.numbers.stop:
            raise Missing(f"there is no partition {number}")
        return number


def _engines(request: Request) -> Request:
    """That it comes from one."""
    if media_type(request) != MEDIA:
        text = f"this route is for engines, which send {MEDIA}: see /openapi.json for others"
        raise Problem(415, "Unsupported Media Type", text)
    return request


def _packed(values: object) -> Response:
    return Response(pack(values), media_type=MEDIA)


def _run(replies: Iterator[Reply]) -> Response:
    def framed() -> Iterator[bytes]:
        for reply in replies:
            body = pack(reply)
            yield LENGTH.pack(len(body)) + body

    return StreamingResponse(iterate_in_threadpool(framed()), media_type=MEDIA)


def _result(result: Taken | Exception) -> Result:
    if isinstance(result, Taken):
        return Result(result.next, result.new, result.stamp, urgent=result.urgent)
    if not isinstance(result, HoldfastError):
        raise result
    return Result(error=type(result).__name__, text=str(result))
