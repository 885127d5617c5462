"""What the gateway offers, for machines: OpenAPI 3.1 and AsyncAPI 3.0, with this fleet's classes.

The routes stand in `operations`; here they are put around the classes that the data knows.
"""

from __future__ import annotations

from importlib.metadata import version

from holdfast.gateway.cloudevents import BATCH, STRUCTURED
from holdfast.gateway.envelopes import COLUMNS_JSON, COLUMNS_MSGPACK, JSON, MSGPACK, NDJSON
from holdfast.gateway.jsonschema import Shape, shape_of_class
from holdfast.gateway.operation import Operation
from holdfast.gateway.operations import KEY, OPERATIONS
from holdfast.gateway.problems import PROBLEM
from holdfast.model.fates import MADE_HERE
from holdfast.model.schema import Schema
from holdfast.runtime.untyped import UntypedLive

_NUMBER: Shape = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**62}
_TEXT: Shape = {"type": "string"}
_OPEN: Shape = {"type": "object", "additionalProperties": True}
_SOURCE: Shape = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-}]+$"}
_WHY: Shape = {"type": "string", "minLength": 1, "maxLength": 500}
_IDS: Shape = {"type": "array", "items": _TEXT}
_TIME: Shape = {"type": "number", "format": "double"}


def openapi(live: UntypedLive) -> Shape:
    fleet = live.engine.catalog.fleet
    paths: dict[str, Shape] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Holdfast fleet {fleet}",
            "version": version("holdfast"),
            "description": "Events are acknowledged when they are durable. Every refusal is a "
            "problem document (RFC 9457) of one line.",
        },
        "paths": paths,
        "components": {
            "schemas": _components(live),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def asyncapi(live: UntypedLive) -> Shape:
    """The two feeds, over Server-Sent Events and WebSockets."""
    channels = {}
    operations = {}
    for noun, what in (("Action", "actions"), ("Change", "changes")):
        channels[what] = {
            "address": f"/{what}",
            "messages": {noun: {"payload": {"$ref": f"#/components/schemas/{noun}"}}},
            "bindings": {"ws": {"method": "GET"}},
        }
        operations[f"follow_{what}"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{what}"},
            "summary": f"The {what} behind a cursor, as they come.",
        }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Holdfast fleet {live.engine.catalog.fleet}",
            "version": version("holdfast"),
        },
        "channels": channels,
        "operations": operations,
        "components": {"schemas": _components(live)},
    }


def _operation(operation: Operation) -> Shape:
    refusals = {
        str(status): {
            "description": text,
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, text in operation.refusals.items()
    }
    found: Shape = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [parameter.shape() for parameter in operation.parameters],
        "responses": {"200": operation.answer.shape(), **refusals},
    }
    if operation.body:
        found["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": {"$ref": f"#/components/schemas/{name}"}}
                for media, name in _BODIES[operation.body].items()
            },
        }
    return found


_BODIES = {
    "events": {
        JSON: "Events",
        NDJSON: "Lines",
        MSGPACK: "Events",
        COLUMNS_JSON: "Columns",
        COLUMNS_MSGPACK: "Columns",
        STRUCTURED: "CloudEvent",
        BATCH: "CloudEvents",
    },
    "question": {JSON: "Question", MSGPACK: "Question"},
    "query": {JSON: "Query"},
    "why": {JSON: "Why"},
    "ids": {JSON: "Ids"},
    "failed": {JSON: "Failed"},
    "override": {JSON: "Override"},
}


def _components(live: UntypedLive) -> dict[str, Shape]:
    """Classes have names of their own (`Event.Battery`), so that generated clients have types."""
    agents = live.names.of_kind("state")
    states = live.names.schemas("state")
    events = [s for s in live.names.schemas("event") if s.name not in MADE_HERE]
    names = [schema.name for schema in events]
    return {
        **_one_of("Event", "type", {s.name: _event(s, agents) for s in events}),
        "Events": {"anyOf": [_ref("Event"), {"type": "array", "items": _ref("Event")}]},
        "Lines": {"type": "string", "description": "One Event in JSON per line."},
        "Columns": _columns(agents, names),
        "CloudEvent": _cloud_event(names),
        "CloudEvents": {"type": "array", "items": _ref("CloudEvent")},
        **_one_of("Question", "type", {s.name: _question(s, agents) for s in events}),
        **_one_of("Action", "type", {s.name: _action(s) for s in live.names.schemas("action")}),
        **{f"State.{schema.name}": shape_of_class(schema) for schema in states},
        **_one_of("Agent", "agent", {name: _agent(name) for name in agents}),
        "Change": _change(),
        "Problem": _problem(),
        "Query": _closed({"sql": _TEXT, "at": _TEXT, "since": _TEXT}, "sql"),
        "Why": _closed({"why": _WHY}, "why"),
        "Ids": _closed({"ids": _IDS}, "ids"),
        "Failed": _closed({"ids": _IDS, "why": _WHY}, "ids", "why"),
        **_one_of("Override", "type", {s.name: _override(s) for s in live.names.schemas("action")}),
    }


def _one_of(noun: str, told_by: str, variants: dict[str, Shape]) -> dict[str, Shape]:
    """A component for each variant, and one for any of them, told apart by a property."""
    named = {f"{noun}.{name}": shape for name, shape in variants.items()}
    if not named:
        return {noun: _OPEN}
    mapping = {name: f"#/components/schemas/{noun}.{name}" for name in variants}
    any_of_them: Shape = {
        "oneOf": [_ref(name) for name in named],
        "discriminator": {"propertyName": told_by, "mapping": mapping},
    }
    return {noun: any_of_them, **named}


def _or_null(shape: Shape) -> Shape:
    return {"anyOf": [shape, {"type": "null"}]}


def _ref(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


def _closed(properties: dict[str, Shape], *required: str) -> Shape:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _is(text: str) -> Shape:
    return {"type": "string", "const": text}


def _some(texts: list[str]) -> Shape:
    return {"type": "string", "enum": texts}


def _addressed(schema: Schema, agents: list[str]) -> dict[str, Shape]:
    return {
        "agent": _some(agents),
        "key": KEY,
        "type": _is(schema.name),
        "data": shape_of_class(schema),
    }


def _required(schema: Schema) -> tuple[str, ...]:
    needs_data = any(field.required for field in schema.fields)
    return ("agent", "key", "type", "data") if needs_data else ("agent", "key", "type")


def _event(schema: Schema, agents: list[str]) -> Shape:
    numbers = {
        "source": _or_null(_SOURCE),
        "seq": _or_null(_NUMBER),
        "previous": _or_null(_NUMBER),
        "event_time": _or_null(_TIME),
        "traceparent": _or_null(_TEXT),
    }
    shape = _closed({**_addressed(schema, agents), **numbers}, *_required(schema))
    return {
        **shape,
        "dependentRequired": {"source": ["seq"], "seq": ["source"], "previous": ["seq"]},
    }


def _question(schema: Schema, agents: list[str]) -> Shape:
    timeout: Shape = {**_TIME, "minimum": 0, "maximum": 60}
    return _closed({**_addressed(schema, agents), "timeout": timeout}, *_required(schema))


def _columns(agents: list[str], events: list[str]) -> Shape:
    properties: dict[str, Shape] = {
        "agent": _some(agents),
        "type": _some(events),
        "keys": {"type": "array", "items": KEY, "minItems": 1},
        "columns": {**_OPEN, "description": "Per field one value for each key, or one."},
        "source": _or_null(_SOURCE),
        "first_seq": _or_null(_NUMBER),
        "event_times": _or_null({"type": "array", "items": _TIME}),
    }
    return _closed(properties, "agent", "type", "keys")


def _cloud_event(events: list[str]) -> Shape:
    return {
        "type": "object",
        "properties": {
            "specversion": _is("1.0"),
            "id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "minLength": 1},
            "type": _some(events),
            "subject": {"type": "string", "description": "AGENT/KEY"},
            "time": _or_null({"type": "string", "format": "date-time"}),
            "sequence": _or_null(
                {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, {"type": "integer"}]}
            ),
            "traceparent": _or_null(_TEXT),
            "data": _OPEN,
        },
        "required": ["specversion", "id", "source", "type", "subject"],
    }


def _action(schema: Schema) -> Shape:
    return {
        "type": "object",
        "properties": {
            "id": _TEXT,
            "agent": _TEXT,
            "key": KEY,
            "type": _is(schema.name),
            "data": shape_of_class(schema),
            "now": _TIME,
            "expires_at": {**_TIME, "type": ["number", "null"]},
            "undoes": {"type": ["string", "null"]},
            "why": {"type": ["string", "null"]},
            "traceparent": {"type": ["string", "null"]},
            "priority": _some(["normal", "urgent"]),
        },
        "required": ["id", "agent", "key", "type", "data", "now", "priority"],
    }


def _override(schema: Schema) -> Shape:
    properties: dict[str, Shape] = {
        "type": _is(schema.name),
        "why": _WHY,
        "data": shape_of_class(schema),
        "hold": {"type": "boolean"},
    }
    return _closed(properties, "type", "why")


def _agent(name: str) -> Shape:
    properties: dict[str, Shape] = {
        "agent": _is(name),
        "key": KEY,
        "version": _NUMBER,
        "updated": _TIME,
        "state": _ref(f"State.{name}"),
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _change() -> Shape:
    return {
        "type": "object",
        "properties": {
            "agent": _TEXT,
            "key": KEY,
            "version": _NUMBER,
            "updated": _TIME,
            "state": _OPEN,
            "gone": {"type": "boolean", "const": True},
        },
        "required": ["agent", "key"],
    }


def _problem() -> Shape:
    properties: dict[str, Shape] = {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
    }
    return {"type": "object", "properties": properties, "required": list(properties)}
