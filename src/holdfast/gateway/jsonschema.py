"""The types of fields as JSON Schema (2020-12), from the schemas stored with the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from holdfast.model.schema import Schema
from holdfast.model.types import TypeTree, limits_of, part, parts, record_fields, values_of

Shape = dict[str, object]

_SCALARS: dict[str, Shape] = {
    "null": {"type": "null"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "minimum": -(2**63), "maximum": 2**64 - 1},
    "float": {"type": "number", "format": "double"},  # else some generators take half of it
    "str": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "uuid": {"type": "string", "format": "uuid"},
    "decimal": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
}
_LIMITS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}


def shape_of_class(schema: Schema) -> Shape:
    """An object with the fields of a class; those without a default are required."""
    defaults = cast("Mapping[str, object]", schema.options.get("defaults", {}))
    properties = {}
    for field in schema.fields:
        shape = shape_of(field.type)
        if field.name in defaults:
            shape = {**shape, "default": defaults[field.name]}
        properties[field.name] = shape
    return _object(properties, [field.name for field in schema.fields if field.required])


def shape_of(tree: TypeTree) -> Shape:
    if isinstance(tree, str):
        return dict(_SCALARS[tree])
    if "limited" in tree:
        return _limited(shape_of(part(tree, "limited")), limits_of(tree))
    if "enum" in tree or "literal" in tree:
        return _one_of(values_of(tree, "values" if "enum" in tree else "literal"))
    if "union" in tree:
        return {"anyOf": [shape_of(each) for each in parts(tree, "union")]}
    if "struct" in tree:
        fields = record_fields(tree)
        properties = {name: shape_of(kind) for name, kind, _ in fields}
        required = [name for name, _, needed in fields if needed]
        if "tag_field" in tree:
            name = str(tree["tag_field"])
            properties[name] = {"const": tree["tag"]}
            required.append(name)
        return _object(properties, required)
    if "tuple" in tree:
        items = [shape_of(each) for each in parts(tree, "tuple")]
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
    if "dict" in tree:
        return {"type": "object", "additionalProperties": shape_of(parts(tree, "dict")[1])}
    (container,) = tree.keys() & {"list", "set", "frozenset", "tuple_of"}
    return {"type": "array", "items": shape_of(part(tree, container))}


def _one_of(values: Sequence[object]) -> Shape:
    """With their type, where they have one: generated clients then have an enumeration."""
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return {"type": "string", "enum": values}
    return {"type": "integer", "enum": values} if kinds == {int} else {"enum": values}


def _limited(shape: Shape, limits: Mapping[str, object]) -> Shape:
    kind = {"string": "Length", "array": "Items", "object": "Properties"}.get(
        str(shape.get("type"))
    )
    for name, value in limits.items():
        if name in _LIMITS:
            shape[_LIMITS[name]] = value
        elif name in ("min_length", "max_length") and kind is not None:
            shape[name[:3] + kind] = value
    return shape


def _object(properties: Mapping[str, Shape], required: list[str]) -> Shape:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
