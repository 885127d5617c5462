"""Routes about what becomes of actions, and an operator's commands. Who gave a command is the
principal of its token: it is recorded with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.errors import Missing, UsageError
from holdfast.gateway.asked import Asked
from holdfast.gateway.bodies import Bodies, media_type
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import Values, json_response, route, route_by_method
from holdfast.gateway.envelopes import JSON, decoded
from holdfast.gateway.guarding import require
from holdfast.gateway.problems import Problem
from holdfast.gateway.reading import Reader
from holdfast.gateway.tokens import Role
from holdfast.runtime.lives import ActionLife
from holdfast.runtime.untyped import UntypedLive, receipt_text

T = TypeVar("T")


class Ids(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[str]


class Failed(Ids, forbid_unknown_fields=True):
    why: str = ""


class Why(msgspec.Struct, forbid_unknown_fields=True):
    why: str


class Override(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    why: str
    data: dict[str, object] = {}
    hold: bool = False


class ActionRoutes:
    def __init__(self, live: UntypedLive, reader: Reader, crews: Crews, bodies: Bodies) -> None:
        self._live = live
        self._reader = reader
        self._crews = crews
        self._bodies = bodies

    def routes(self) -> list[BaseRoute]:
        return [
            route("/actions/ack", "POST", Role.SEND, self._ack_many),
            route("/actions/fail", "POST", Role.SEND, self._fail_many),
            route("/actions/{id:path}/ack", "POST", Role.SEND, self._ack),
            route("/actions/{id:path}/fail", "POST", Role.SEND, self._fail),
            route("/actions/{id:path}", "GET", Role.READ, self._life),
            route("/agents/{agent}/{key}/override", "POST", Role.ADMIN, self._override),
            route("/agents/{agent}/{key}/pause", "POST", Role.ADMIN, self._pause),
            route("/agents/{agent}/{key}/resume", "POST", Role.ADMIN, self._resume),
            route_by_method(
                "/ground-stop",
                {
                    "GET": (Role.READ, self._grounded),
                    "POST": (Role.ADMIN, self._ground_stop),
                },
            ),
            route("/ground-stop/lift", "POST", Role.ADMIN, self._lift),
        ]

    # What became of actions.

    async def _life(self, request: Request) -> Response:
        Asked(request.query_params, ())
        found = await self._crews.slow.run(self._found, request.path_params["id"])
        return json_response(life_values(found))

    def _found(self, id: str) -> ActionLife:
        try:
            return self._live.action(id)
        except UsageError as error:
            raise Missing(str(error)) from None

    async def _ack(self, request: Request) -> Response:
        await self._nothing(request)
        return await self._settle(request, "acknowledge", [request.path_params["id"]])

    async def _ack_many(self, request: Request) -> Response:
        given = await self._body(request, Ids)
        return await self._settle(request, "acknowledge", given.ids)

    async def _fail(self, request: Request) -> Response:
        given = await self._body(request, Why)
        return await self._settle(request, "fail", [request.path_params["id"]], given.why)

    async def _fail_many(self, request: Request) -> Response:
        given = await self._body(request, Failed)
        return await self._settle(request, "fail", given.ids, given.why)

    async def _settle(
        self, request: Request, verb: str, ids: Sequence[str], why: str = ""
    ) -> Response:
        """Those that stand otherwise are told; a single one is refused."""
        who = require(request.scope, Role.SEND).name
        run = self._crews.slow.run
        if verb == "acknowledge":
            refused = await run(self._live.acknowledge, ids, by=who)
        else:
            refused = await run(self._live.fail, ids, why, by=who)
        if refused and len(ids) == 1:
            raise Problem(409, "Conflict", refused[ids[0]])
        return json_response({"settled": len(set(ids)) - len(refused), "refused": refused})

    # An operator's commands.

    async def _override(self, request: Request) -> Response:
        given = await self._body(request, Override)
        agent, key, who = self._agent(request)
        issued = await self._crews.commands.run(
            self._live.override,
            agent,
            key,
            given.type,
            given.data,
            why=given.why,
            by=who,
            hold=given.hold,
        )
        return json_response({"id": issued})

    async def _pause(self, request: Request) -> Response:
        given = await self._body(request, Why)
        agent, key, _ = self._agent(request)
        receipt = await self._crews.commands.run(self._live.pause, agent, key, given.why)
        return json_response({"receipt": receipt_text(receipt)})

    async def _resume(self, request: Request) -> Response:
        await self._nothing(request)
        agent, key, _ = self._agent(request)
        receipt = await self._crews.commands.run(self._live.resume, agent, key)
        return json_response({"receipt": receipt_text(receipt)})

    async def _grounded(self, request: Request) -> Response:
        Asked(request.query_params, ())
        return json_response(await self._crews.reads.run(self._grounds))

    def _grounds(self) -> Values:
        found = self._live.grounded()
        return {"in_force": bool(found), "partitions": {n: g._asdict() for n, g in found.items()}}

    async def _ground_stop(self, request: Request) -> Response:
        given = await self._body(request, Why)
        who = require(request.scope, Role.ADMIN).name
        await self._crews.commands.run(self._live.ground_stop, given.why, by=who)
        return json_response(await self._crews.reads.run(self._grounds))

    async def _lift(self, request: Request) -> Response:
        given = await self._body(request, Why)
        who = require(request.scope, Role.ADMIN).name
        await self._crews.commands.run(self._live.lift_ground_stop, given.why, by=who)
        return json_response(await self._crews.reads.run(self._grounds))

    def _agent(self, request: Request) -> tuple[str, str, str]:
        agent, key = request.path_params["agent"], request.path_params["key"]
        self._reader.check_agent(agent)
        return agent, key, require(request.scope, Role.ADMIN).name

    # Bodies.

    async def _body(self, request: Request, kind: type[T]) -> T:
        Asked(request.query_params, ())
        if media_type(request) != JSON:
            text = f"a body of {media_type(request) or 'no content type'}: send {JSON}"
            raise Problem(415, "Unsupported Media Type", text)
        async with self._bodies.of(request) as body:
            return decoded(msgspec.json.Decoder(kind).decode, body, "command")

    async def _nothing(self, request: Request) -> None:
        """A body that says nothing may be there."""
        Asked(request.query_params, ())
        async with self._bodies.of(request) as body:
            if body not in (b"", b"{}"):
                raise Problem(400, "Bad Request", "this takes no body: send none, or {}")


def life_values(life: ActionLife) -> Values:
    return {
        "id": life.id,
        "type": life.name,
        "status": life.status,
        "by": life.by or None,
        "why": life.why or None,
        "late": life.late,
        "expires_at": life.expires_at,
        "fates": [{"kind": f.kind, "now": f.now, "by": f.by, "why": f.why} for f in life.fates],
    }
