"""The routes of a gateway as its descriptions tell them. A test compares them with those it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.gateway.following import EVENT_STREAM, WAIT_SECONDS_MAX
from holdfast.gateway.jsonschema import Shape
from holdfast.gateway.settings import Bounds

KEY: Shape = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"}
_TEXT: Shape = {"type": "string"}
_MOST: Shape = {"type": "integer", "minimum": 1, "maximum": Bounds().rows_per_page_max}


class Parameter(NamedTuple):
    name: str
    schema: Shape
    text: str
    place: str = "query"

    def shape(self) -> Shape:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "description": self.text,
            "schema": self.schema,
        }


class Answer(NamedTuple):
    text: str
    properties: Mapping[str, Shape] = {}
    media: str = "application/json"
    also: str | None = None  # another media type

    def shape(self) -> Shape:
        schema: Shape = {"type": "object", "properties": dict(self.properties)}
        schema["required"] = list(self.properties)
        content: Shape = {
            self.media: {"schema": schema if self.media.endswith("json") else {"type": "string"}}
        }
        if self.also is not None:
            content[self.also] = {"schema": {"type": "string"}}
        return {"description": self.text, "content": content}


class Operation(NamedTuple):
    name: str
    method: str
    path: str
    summary: str
    answer: Answer
    refusals: Mapping[int, str]
    parameters: tuple[Parameter, ...] = ()
    body: str = ""  # which of the bodies that are taken


_AGENT = Parameter("agent", _TEXT, "A class of agents.", "path")
_KEY = Parameter("key", KEY, "The key of one agent.", "path")
_ID = Parameter("id", _TEXT, "As a list gives it.", "path")
_VIEW = Parameter("view", _TEXT, "A view.", "path")
_RECEIVED = Parameter("after", _TEXT, "A receipt: what is read has those events in it.")
_PATIENCE = Parameter(
    "timeout", {"type": "number", "minimum": 0, "maximum": 60}, "Seconds to wait for that."
)
_PAGE = Parameter("most", _MOST, "Rows at the most.")
_AFTER = Parameter("after", _TEXT, "The cursor of a page; what follows it.")
_DOOR = {
    401: "No token, or one that is not known.",
    403: "The token's role is not enough.",
    421: "A Host that is not this machine, without tokens.",
}
_BUSY = {
    429: "Too much waits: come back after Retry-After.",
    503: "Not now: come back after Retry-After.",
    504: "It took too long.",
}
_READ = {**_DOOR, 400: "A parameter is wrong.", **_BUSY}
_FOUND = {**_READ, 404: "There is no such thing."}
_BODY = {
    **_READ,
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "A media type that is not taken.",
    422: "The body is read, and does not fit the fleet's classes.",
}
_LIST: Shape = {"type": "array", "items": {"type": "object"}}
_RECEIPT: dict[str, Shape] = {"receipt": _TEXT}
_STATE: dict[str, Shape] = {
    "agent": _TEXT,
    "key": KEY,
    "version": {"type": "integer"},
    "updated": {"type": "number"},
    "state": {"type": "object"},
}
_OBJECT = Answer("A JSON document.")
_FEED = (
    _AFTER,
    _PAGE,
    Parameter(
        "wait",
        {"type": "number", "minimum": 0, "maximum": WAIT_SECONDS_MAX},
        "Seconds to wait for the first row.",
    ),
    Parameter("agent", _TEXT, "Only of this class."),
    Parameter("key", KEY, "Only of this agent; with agent."),
)

OPERATIONS = (
    Operation("page", "GET", "/", "A page for people.", Answer("HTML.", media="text/html"), {}),
    Operation(
        "healthz",
        "GET",
        "/healthz",
        "Whether the gateway runs.",
        Answer("Yes.", {"status": _TEXT}),
        {},
    ),
    Operation(
        "readyz",
        "GET",
        "/readyz",
        "Whether the fleet can be read.",
        Answer("Yes.", {"status": _TEXT}),
        _BUSY,
    ),
    Operation("openapi", "GET", "/openapi.json", "This document.", _OBJECT, _READ),
    Operation("asyncapi", "GET", "/asyncapi.json", "The feeds.", _OBJECT, _READ),
    Operation(
        "events",
        "POST",
        "/events",
        "Send events; answered when all are durable.",
        Answer(
            "All are durable.",
            {"events": {"type": "integer"}, "repeats": {"type": "integer"}, **_RECEIPT},
        ),
        {**_BODY, 409: "A number is too old, or out of order."},
        (
            Parameter(
                "Idempotency-Key",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
                "The same again within ten minutes is a repeat.",
                "header",
            ),
        ),
        "events",
    ),
    Operation(
        "ask",
        "POST",
        "/ask",
        "Send an event and wait for the reply of its handler.",
        Answer("What the handler replied.", {"type": _TEXT, "data": {"type": "object"}}),
        {**_BODY, 409: "The agent gave no reply, and will not."},
        (),
        "question",
    ),
    Operation(
        "agents",
        "GET",
        "/agents/{agent}",
        "The states of a class, by key.",
        Answer("A page of states.", {"agents": _LIST, "next": {"type": ["string", "null"]}}),
        _FOUND,
        (_AGENT, Parameter("from", _TEXT, "The first key."), _PAGE),
    ),
    Operation(
        "state",
        "GET",
        "/agents/{agent}/{key}",
        "The committed state of one agent; its version is the ETag.",
        Answer("The state.", _STATE),
        {**_FOUND, 304: "It has the version of If-None-Match.", 422: "A key, receipt or time."},
        (
            _AGENT,
            _KEY,
            Parameter("after", _TEXT, "A receipt: the state has those events in it."),
            Parameter(
                "timeout",
                {"type": "number", "minimum": 0, "maximum": 60},
                "Seconds to wait for that.",
            ),
            Parameter("at", _TEXT, "As it was at this time (ISO 8601, or seconds since 1970)."),
        ),
    ),
    Operation(
        "history",
        "GET",
        "/agents/{agent}/{key}/history",
        "The newest inputs of one agent, in order.",
        Answer("Inputs.", {"entries": _LIST}),
        {**_FOUND, 422: "A key."},
        (_AGENT, _KEY, _PAGE),
    ),
    Operation(
        "timers",
        "GET",
        "/agents/{agent}/{key}/timers",
        "The timers that are set, the next one first.",
        Answer("Timers.", {"timers": _LIST}),
        {**_FOUND, 422: "A key."},
        (_AGENT, _KEY),
    ),
    Operation(
        "dead_letters",
        "GET",
        "/dead-letters",
        "The newest events that failed.",
        Answer("Dead letters.", {"dead_letters": _LIST, "all": {"type": "integer"}}),
        _READ,
        (_PAGE,),
    ),
    Operation(
        "redrive",
        "POST",
        "/dead-letters/{id}/redrive",
        "Give a dead letter's event to its agent again.",
        Answer("It is durable.", _RECEIPT),
        {**_FOUND, 422: "It was redriven before."},
        (_ID,),
    ),
    Operation(
        "views",
        "GET",
        "/views",
        "The views of the fleet, and how each does.",
        Answer("Views.", {"views": _LIST}),
        _READ,
    ),
    Operation(
        "rows",
        "GET",
        "/views/{view}",
        "The rows of a view, by key.",
        Answer("A page of rows.", {"rows": _LIST, "next": {"type": ["string", "null"]}}),
        {**_FOUND, 422: "A receipt.", 409: "The view has stopped."},
        (_VIEW, Parameter("from", _TEXT, "The first key."), _PAGE, _RECEIVED, _PATIENCE),
    ),
    Operation(
        "row",
        "GET",
        "/views/{view}/{key}",
        "One row of a view.",
        Answer("The row.", {"key": KEY, "row": {"type": "object"}}),
        {**_FOUND, 422: "A key or receipt.", 409: "The view has stopped."},
        (_VIEW, _KEY, _RECEIVED, _PATIENCE),
    ),
    Operation(
        "partitions",
        "GET",
        "/partitions",
        "How far each partition is.",
        Answer("Positions.", {"partitions": _LIST}),
        _READ,
    ),
    Operation(
        "actions",
        "GET",
        "/actions",
        "Actions behind a cursor: a page, or Server-Sent Events, or a WebSocket.",
        Answer("A page.", {"actions": _LIST, "cursor": _TEXT}, also=EVENT_STREAM),
        {**_READ, 422: "The cursor."},
        _FEED,
    ),
    Operation(
        "changes",
        "GET",
        "/changes",
        "States that changed, behind a cursor: a page, or Server-Sent Events, or a WebSocket.",
        Answer("A page.", {"changes": _LIST, "cursor": _TEXT}, also=EVENT_STREAM),
        {**_READ, 422: "The cursor."},
        _FEED,
    ),
)
