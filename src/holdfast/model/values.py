"""Values of described types in their two shapes: on disk, and as people write them.

On disk a nested Event is an array without names, and an Enum is its value. People, `upcast`
functions and JSON use names: `named` goes from disk to people, `positional` goes back. Neither
checks types; `msgspec.convert` does that afterwards, with the rebuilt type.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from holdfast.errors import UsageError
from holdfast.model.types import TypeTree, part, parts, record_fields, values_of


def named(tree: TypeTree, value: object) -> object:
    """A decoded value with names put to the fields of nested records."""
    if isinstance(tree, str):
        if tree == "datetime" and isinstance(value, datetime.datetime):
            # Aware times arrive as objects and naive ones as text: give both the same shape.
            return cast(object, msgspec.to_builtins(value))
        return value
    if "limited" in tree:
        return named(part(tree, "limited"), value)
    if "union" in tree:
        member = _member_on_disk(parts(tree, "union"), value)
        return value if member is None else named(member, value)
    if "struct" in tree:
        return _named_record(tree, value)
    items = _each(tree, value, named)
    if ("set" in tree or "frozenset" in tree) and isinstance(items, list):
        # The order on disk is that of one process's hashes: give every reader the same one.
        items.sort(key=_rank)
    return items


def positional(tree: TypeTree, value: object) -> object:
    """A value as a person gave it, in the shape that the rebuilt type reads."""
    if isinstance(tree, str):
        return value
    if "limited" in tree:
        return positional(part(tree, "limited"), value)
    if "enum" in tree:
        return _enum_value(tree, value)
    if "union" in tree:
        member = _member_by_name(parts(tree, "union"), value)
        return value if member is None else positional(member, value)
    if "struct" in tree:
        return _positional_record(tree, value)
    return _each(tree, value, positional)


def _rank(item: object) -> tuple[int, object]:
    if isinstance(item, str):
        return 0, item
    if isinstance(item, int):
        return 1, item
    return 2, msgspec.msgpack.encode(item)


def _each(
    tree: dict[str, object], value: object, shape: Callable[[TypeTree, object], object]
) -> object:
    """The items of a container, shaped one by one; anything else as it is."""
    for container in ("list", "set", "frozenset", "tuple_of"):
        if container in tree and isinstance(value, (list, tuple, set, frozenset)):
            return [shape(part(tree, container), each) for each in value]
    if "tuple" in tree and isinstance(value, (list, tuple)):
        kinds = parts(tree, "tuple")
        if len(kinds) == len(value):
            return [shape(kind, each) for kind, each in zip(kinds, value, strict=True)]
    if "dict" in tree and isinstance(value, Mapping):
        key, item = parts(tree, "dict")
        return {shape(key, each): shape(item, found) for each, found in value.items()}
    return value


def _named_record(tree: dict[str, object], value: object) -> object:
    fields = record_fields(tree)
    found: dict[str, object] = {}
    if "tag" in tree:
        found[str(tree["tag_field"])] = tree["tag"]
    if isinstance(value, list):
        values = value[1:] if "tag" in tree else value
        for (name, kind, _), each in zip(fields, values, strict=False):
            found[name] = named(kind, each)
    elif isinstance(value, dict):
        kinds = {name: kind for name, kind, _ in fields}
        found |= {name: named(kinds[name], each) for name, each in value.items() if name in kinds}
    else:
        return value
    return found


def _positional_record(tree: dict[str, object], value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    kinds = {name: (kind, required) for name, kind, required in record_fields(tree)}
    tag_field = tree.get("tag_field")
    unknown = [str(name) for name in value if name not in kinds and name != tag_field]
    if unknown:
        raise UsageError(f"{tree['struct']} has no field {unknown[0]!r}: it has {', '.join(kinds)}")
    missing = [
        name
        for name, (_, required) in kinds.items()
        if name not in value and (required or tree["form"] == "array")
    ]
    if missing:
        raise UsageError(f"{tree['struct']} needs the field {missing[0]!r}")
    shaped = {
        name: positional(kind, value[name]) for name, (kind, _) in kinds.items() if name in value
    }
    if tree["form"] == "array":
        return [*([tree["tag"]] if "tag" in tree else []), *shaped.values()]
    return {**({str(tag_field): tree["tag"]} if "tag" in tree else {}), **shaped}


def _enum_value(tree: dict[str, object], value: object) -> object:
    """The value of a member, also when its name was given, as in a command line."""
    values, names = values_of(tree, "values"), values_of(tree, "names")
    if value not in values and value in names:
        return values[names.index(cast(str, value))]
    return value


def _member_on_disk(members: list[TypeTree], value: object) -> TypeTree | None:
    """The type of a union that wrote this value, as far as the shape tells."""
    for each in members:
        bare = _bare(each)
        if isinstance(bare, str):
            if bare == "datetime" and isinstance(value, datetime.datetime):
                return bare
        elif "struct" in bare and "tag" in bare:
            tag_field = str(bare["tag_field"])
            tag = value.get(tag_field) if isinstance(value, dict) else _first(value)
            if tag == bare["tag"]:
                return bare
        elif _fits_container(bare, value):
            return bare
    return None


def _member_by_name(members: list[TypeTree], value: object) -> TypeTree | None:
    """The type of a union that a person meant with this value."""
    for each in members:
        bare = _bare(each)
        if isinstance(bare, str):
            continue
        if "struct" in bare:
            tagged = "tag" not in bare or (
                isinstance(value, Mapping) and value.get(bare["tag_field"]) == bare["tag"]
            )
            if isinstance(value, Mapping) and tagged:
                return bare
        elif ("enum" in bare and isinstance(value, str)) or _fits_container(bare, value):
            return bare
    return None


def _bare(tree: TypeTree) -> TypeTree:
    return part(tree, "limited") if isinstance(tree, dict) and "limited" in tree else tree


def _fits_container(tree: dict[str, object], value: object) -> bool:
    if isinstance(value, Mapping):
        return tree.get("form") == "map" or "dict" in tree
    arrays = ("list", "set", "frozenset", "tuple", "tuple_of")
    is_array = tree.get("form") == "array" or any(each in tree for each in arrays)
    return is_array and isinstance(value, (list, tuple, set, frozenset))


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None
