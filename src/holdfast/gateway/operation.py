"""One route as a description tells it: its parameters, its answer, its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.gateway.jsonschema import Shape


def component(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(name: str) -> Shape:
    return {"type": "array", "items": component(name)}


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
    component: str = ""  # instead of properties

    def shape(self) -> Shape:
        schema: Shape = {"type": "object", "properties": dict(self.properties)}
        schema["required"] = list(self.properties)
        if self.component:
            schema = component(self.component)
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
