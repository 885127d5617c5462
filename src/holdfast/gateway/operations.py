"""The routes of a gateway as its descriptions tell them. A test compares them with those it has."""

from __future__ import annotations

from holdfast.gateway.following import WAIT_SECONDS_MAX
from holdfast.gateway.jsonschema import Shape
from holdfast.gateway.operation import Answer, Operation, Parameter, list_of
from holdfast.gateway.settings import Bounds
from holdfast.gateway.streaming import EVENT_STREAM

KEY: Shape = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"}
_TEXT: Shape = {"type": "string"}
_SECONDS: Shape = {"type": "number", "format": "double", "minimum": 0}
_MOST: Shape = {"type": "integer", "minimum": 1, "maximum": Bounds().rows_per_page_max}


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
_COMMAND = {**_BODY, 422: "The id, the agent or the reason cannot be taken."}
_LIST: Shape = {"type": "array", "items": {"type": "object", "additionalProperties": True}}
_RECEIPT: dict[str, Shape] = {"receipt": _TEXT}
_OBJECT = Answer("A JSON document.")
_FEED = (
    _AFTER,
    _PAGE,
    Parameter(
        "wait",
        {**_SECONDS, "maximum": WAIT_SECONDS_MAX},
        "Seconds to wait for the first row.",
    ),
    Parameter("agent", _TEXT, "Only of this class."),
    Parameter("key", KEY, "Only of this agent; with agent."),
    Parameter("Last-Event-ID", _TEXT, "The cursor, of a stream that goes on.", "header"),
)
_PENDING = Parameter("pending", {"type": "boolean"}, "Only those that are to be carried out now.")
_TRACE = Parameter("traceparent", _TEXT, "The trace that it belongs to (W3C).", "header")
_SETTLED: dict[str, Shape] = {"settled": {"type": "integer"}, "refused": {"type": "object"}}
_STANDS = {409: "Something else stands: the detail says what."}
_GROUNDED: dict[str, Shape] = {"in_force": {"type": "boolean"}, "partitions": {"type": "object"}}

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
    Operation(
        "metrics",
        "GET",
        "/metrics",
        "What is measured, for Prometheus.",
        Answer("In its text format.", media="text/plain"),
        _READ,
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
            _TRACE,
        ),
        "events",
    ),
    Operation(
        "ask",
        "POST",
        "/ask",
        "Send an event and wait for the reply of its handler.",
        Answer(
            "What the handler replied.",
            {"type": _TEXT, "data": {"type": "object", "additionalProperties": True}},
        ),
        {**_BODY, 409: "The agent gave no reply, and will not."},
        (_TRACE,),
        "question",
    ),
    Operation(
        "agents",
        "GET",
        "/agents/{agent}",
        "The states of a class, by key.",
        Answer(
            "A page of states.", {"agents": list_of("Agent"), "next": {"type": ["string", "null"]}}
        ),
        _FOUND,
        (_AGENT, Parameter("from", _TEXT, "The first key."), _PAGE),
    ),
    Operation(
        "state",
        "GET",
        "/agents/{agent}/{key}",
        "The committed state of one agent; its version is the ETag.",
        Answer("The state.", component="Agent"),
        {**_FOUND, 304: "It has the version of If-None-Match.", 422: "A key, receipt or time."},
        (
            _AGENT,
            _KEY,
            Parameter("after", _TEXT, "A receipt: the state has those events in it."),
            Parameter(
                "timeout",
                {**_SECONDS, "maximum": 60},
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
        Answer("A page.", {"actions": list_of("Action"), "cursor": _TEXT}, also=EVENT_STREAM),
        {**_READ, 422: "The cursor."},
        (*_FEED, _PENDING),
    ),
    Operation(
        "changes",
        "GET",
        "/changes",
        "States that changed, behind a cursor: a page, or Server-Sent Events, or a WebSocket.",
        Answer("A page.", {"changes": list_of("Change"), "cursor": _TEXT}, also=EVENT_STREAM),
        {**_READ, 422: "The cursor."},
        _FEED,
    ),
    Operation(
        "life",
        "GET",
        "/actions/{id}",
        "What became of an action. The id is part of the path as it is, slashes and all.",
        Answer("Its life.", {"id": _TEXT, "status": _TEXT, "fates": _LIST}),
        _FOUND,
        (_ID,),
    ),
    Operation(
        "ack",
        "POST",
        "/actions/{id}/ack",
        "An action was carried out. Again is a no-op.",
        Answer("It is recorded.", _SETTLED),
        {**_COMMAND, **_STANDS},
        (_ID,),
    ),
    Operation(
        "fail",
        "POST",
        "/actions/{id}/fail",
        "An action cannot be carried out.",
        Answer("It is recorded.", _SETTLED),
        {**_COMMAND, **_STANDS},
        (_ID,),
        "why",
    ),
    Operation(
        "ack_many",
        "POST",
        "/actions/ack",
        "Actions were carried out.",
        Answer("Those that are not refused are recorded.", _SETTLED),
        {**_COMMAND, **_STANDS},
        (),
        "ids",
    ),
    Operation(
        "fail_many",
        "POST",
        "/actions/fail",
        "Actions cannot be carried out.",
        Answer("Those that are not refused are recorded.", _SETTLED),
        {**_COMMAND, **_STANDS},
        (),
        "failed",
    ),
    Operation(
        "override",
        "POST",
        "/agents/{agent}/{key}/override",
        "Have an action issued for an agent, because an operator says so.",
        Answer("It is issued.", {"id": _TEXT}),
        {**_COMMAND, 404: "There is no such class."},
        (_AGENT, _KEY),
        "override",
    ),
    Operation(
        "pause",
        "POST",
        "/agents/{agent}/{key}/pause",
        "Hold an agent's events back.",
        Answer("It is durable.", _RECEIPT),
        {**_COMMAND, 404: "There is no such class."},
        (_AGENT, _KEY),
        "why",
    ),
    Operation(
        "resume",
        "POST",
        "/agents/{agent}/{key}/resume",
        "Let a paused agent go on.",
        Answer("It is durable.", _RECEIPT),
        {**_COMMAND, 404: "There is no such class."},
        (_AGENT, _KEY),
    ),
    Operation(
        "grounded",
        "GET",
        "/ground-stop",
        "Whether a ground stop is in force.",
        Answer("By partition.", _GROUNDED),
        _READ,
    ),
    Operation(
        "ground_stop",
        "POST",
        "/ground-stop",
        "From now on the fleet issues no actions but those declared for it.",
        Answer("It is in force.", _GROUNDED),
        _COMMAND,
        (),
        "why",
    ),
    Operation(
        "lift",
        "POST",
        "/ground-stop/lift",
        "Let the fleet issue actions again.",
        Answer("It is lifted.", _GROUNDED),
        _COMMAND,
        (),
        "why",
    ),
    Operation(
        "query",
        "POST",
        "/query",
        "One SELECT over what is committed.",
        Answer(
            "The rows, and by partition the position they are of.",
            {
                "columns": _LIST,
                "rows": {"type": "array", "items": {"type": "array"}},
                "positions": {"type": "object"},
                "truncated": {"type": "boolean"},
                "notes": {"type": "array", "items": _TEXT},
            },
        ),
        {**_BODY, 422: "The SQL cannot be asked, or needs too much."},
        (),
        "query",
    ),
)
