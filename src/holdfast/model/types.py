"""The types of fields as plain data, and back: what lets a command read data without user code.

A type tree is JSON:

    "float"
    {"list": "float"}
    {"enum": "Mode", "values": ["flying", "landing"], "names": ["FLYING", "LANDING"]}
    {"struct": "Point", "form": "array", "fields": [["x", "float", true], ["y", "float", true]]}

`describe` makes one from a type, `rebuild` makes an equivalent type from one, and `accepts` says
whether one reads what another wrote. The values of such types are in `values`; whole classes and
their versions are in `schema`.
"""

import datetime
import decimal
import json
import typing
import uuid
from enum import Enum
from typing import Annotated, Literal, TypeAlias, Union

import msgspec
from msgspec import UNSET, UnsetType, inspect

from holdfast.errors import DefinitionError

TypeTree: TypeAlias = str | dict[str, object]

_SCALARS: dict[type[inspect.Type], tuple[str, object]] = {
    inspect.NoneType: ("null", None),
    inspect.BoolType: ("bool", bool),
    inspect.IntType: ("int", int),
    inspect.FloatType: ("float", float),
    inspect.StrType: ("str", str),
    inspect.BytesType: ("bytes", bytes),
    inspect.DateTimeType: ("datetime", datetime.datetime),
    inspect.DateType: ("date", datetime.date),
    inspect.TimeType: ("time", datetime.time),
    inspect.TimeDeltaType: ("timedelta", datetime.timedelta),
    inspect.UUIDType: ("uuid", uuid.UUID),
    inspect.DecimalType: ("decimal", decimal.Decimal),
}
_SCALAR_BY_NAME = dict(_SCALARS.values())
_CONTAINERS: dict[type[inspect.Type], str] = {
    inspect.ListType: "list",
    inspect.SetType: "set",
    inspect.FrozenSetType: "frozenset",
    inspect.VarTupleType: "tuple_of",
}
_RECORDS = (
    inspect.StructType,
    inspect.DataclassType,
    inspect.NamedTupleType,
    inspect.TypedDictType,
)
_AT_LEAST = ("gt", "ge", "min_length")
_AT_MOST = ("lt", "le", "max_length")
_LIMITS = (*_AT_LEAST, *_AT_MOST, "multiple_of", "pattern", "tz")
SUPPORTED = (
    "bool, int, float, str, bytes, datetime, timedelta, UUID, Decimal, an Enum, a Literal, lists, "
    "sets, tuples and dicts of these, or a Struct, dataclass or Event made of them"
)


def describe(kind: object) -> TypeTree:
    """The tree of a type; DefinitionError (without a place) if values of it cannot be stored."""
    try:
        # The decoder refuses unions that could not be told apart when read; type_info does not.
        msgspec.msgpack.Decoder(kind)
        info = inspect.type_info(kind)
    except (TypeError, ValueError, NameError) as error:
        raise DefinitionError(f"{type_name(kind)} cannot be stored: {error}") from error
    return _tree(info, ())


def _tree(info: inspect.Type, inside: tuple[object, ...]) -> TypeTree:
    if isinstance(info, inspect.Metadata):
        return _tree(info.type, inside)
    limits = {name: value for name in _LIMITS if (value := getattr(info, name, None)) is not None}
    tree = _bare_tree(info, inside)
    return {"limited": tree, "by": limits} if limits else tree


def _bare_tree(info: inspect.Type, inside: tuple[object, ...]) -> TypeTree:
    scalar = _SCALARS.get(type(info))
    if scalar is not None:
        return scalar[0]
    container = _CONTAINERS.get(type(info))
    if container is not None:
        item: inspect.Type = getattr(info, "item_type")  # noqa: B009  (four classes, one attribute)
        if container in ("set", "frozenset"):
            _check_hashable(item, container)
        return {container: _tree(item, inside)}
    if isinstance(info, inspect.TupleType):
        return {"tuple": [_tree(item, inside) for item in info.item_types]}
    if isinstance(info, inspect.DictType):
        return {"dict": [_key_tree(info.key_type, inside), _tree(info.value_type, inside)]}
    if isinstance(info, inspect.UnionType):
        # Sorted, so that `int | None` and `None | int` are the same schema.
        return {"union": sorted((_tree(each, inside) for each in info.types), key=canonical)}
    if isinstance(info, inspect.EnumType):
        members = list(info.cls)
        values, names = [each.value for each in members], [each.name for each in members]
        return {"enum": info.cls.__name__, "values": values, "names": names}
    if isinstance(info, inspect.LiteralType):
        return {"literal": sorted(info.values, key=canonical)}
    if isinstance(info, _RECORDS):
        return _record_tree(info, inside)
    raise DefinitionError(f"{_info_name(info)} cannot be stored: use {SUPPORTED}")


def _record_tree(
    info: inspect.StructType
    | inspect.DataclassType
    | inspect.NamedTupleType
    | inspect.TypedDictType,
    inside: tuple[object, ...],
) -> TypeTree:
    name = type_name(info.cls)
    if info.cls in inside:
        raise DefinitionError(f"{name} contains itself: give a field the key or id of the other")
    nested = (*inside, info.cls)
    fields = [[each.encode_name, _tree(each.type, nested), each.required] for each in info.fields]
    as_array = isinstance(info, inspect.NamedTupleType) or getattr(info, "array_like", False)
    tree: dict[str, object] = {
        "struct": name,
        "form": "array" if as_array else "map",
        "fields": fields,
    }
    if isinstance(info, inspect.StructType) and info.tag is not None:
        tree |= {"tag": info.tag, "tag_field": info.tag_field}
    return tree


def _key_tree(info: inspect.Type, inside: tuple[object, ...]) -> TypeTree:
    tree = _tree(info, inside)
    bare = tree["limited"] if isinstance(tree, dict) and "limited" in tree else tree
    if bare in ("str", "int") or (isinstance(bare, dict) and ("enum" in bare or "literal" in bare)):
        return tree
    raise DefinitionError(
        f"{_info_name(info)} cannot be the key of a dict: use str, int or an Enum"
    )


def _check_hashable(info: inspect.Type, container: str) -> None:
    frozen = isinstance(info, inspect.StructType) and info.cls.__struct_config__.frozen
    loose = isinstance(
        info, (inspect.ListType, inspect.SetType, inspect.DictType, inspect.TypedDictType)
    )
    if loose or (isinstance(info, inspect.StructType) and not frozen):
        raise DefinitionError(
            f"a {container} cannot hold {_info_name(info)}: use a list or a tuple"
        )


def _info_name(info: inspect.Type) -> str:
    cls = getattr(info, "cls", None)
    return type_name(cls) if cls is not None else f"a value of {type(info).__name__[:-4]} type"


def type_name(kind: object) -> str:
    """A type as a person would write it."""
    if isinstance(kind, type) and typing.get_origin(kind) is None:
        return kind.__name__
    return str(kind).replace("typing.", "")


def canonical(tree: object) -> str:
    """One text for equal trees; fingerprints are made of it."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


# ---------------------------------------------------------------- parts of a tree


def part(tree: dict[str, object], name: str) -> TypeTree:
    return typing.cast(TypeTree, tree[name])


def parts(tree: dict[str, object], name: str) -> list[TypeTree]:
    return typing.cast("list[TypeTree]", tree[name])


def values_of(tree: dict[str, object], name: str) -> list[str | int]:
    """The values of an enum or literal, or the names of an enum's members."""
    return typing.cast("list[str | int]", tree[name])


def record_fields(tree: dict[str, object]) -> list[tuple[str, TypeTree, bool]]:
    """Name, type and whether required, in the order of the fields."""
    return typing.cast("list[tuple[str, TypeTree, bool]]", tree["fields"])


def limits_of(tree: dict[str, object]) -> dict[str, typing.Any]:
    return typing.cast("dict[str, typing.Any]", tree["by"])


# ---------------------------------------------------------------- from a tree to a type


def rebuild(tree: TypeTree) -> object:
    """A type that reads and writes the same bytes as the one the tree was made from."""
    if isinstance(tree, str):
        return _SCALAR_BY_NAME[tree]
    if "limited" in tree:
        return Annotated[rebuild(part(tree, "limited")), msgspec.Meta(**limits_of(tree))]
    if "list" in tree:
        return list[rebuild(part(tree, "list"))]  # type: ignore[misc]
    if "set" in tree:
        return set[rebuild(part(tree, "set"))]  # type: ignore[misc]
    if "frozenset" in tree:
        return frozenset[rebuild(part(tree, "frozenset"))]  # type: ignore[misc]
    if "tuple_of" in tree:
        return tuple[rebuild(part(tree, "tuple_of")), ...]  # type: ignore[misc]
    if "tuple" in tree:
        return tuple[tuple(rebuild(each) for each in parts(tree, "tuple"))]  # type: ignore[misc]
    if "dict" in tree:
        key, value = parts(tree, "dict")
        return dict[rebuild(key), rebuild(value)]  # type: ignore[misc]
    if "union" in tree:
        return Union[tuple(rebuild(each) for each in parts(tree, "union"))]  # noqa: UP007
    if "literal" in tree:
        return Literal[tuple(values_of(tree, "literal"))]
    if "enum" in tree:
        members = zip(values_of(tree, "names"), values_of(tree, "values"), strict=True)
        return Enum(str(tree["enum"]), list(members))
    return _rebuild_record(tree)


def _rebuild_record(tree: dict[str, object]) -> object:
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for name, kind, required in record_fields(tree):
        # What its default was is not known here; a field that is left out stays left out.
        if required:
            fields.append((name, rebuild(kind)))
        else:
            fields.append((name, Union[rebuild(kind), UnsetType], UNSET))  # noqa: UP007
    return msgspec.defstruct(
        str(tree["struct"]),
        fields,
        array_like=tree["form"] == "array",
        kw_only=True,
        frozen=True,
        tag=typing.cast("str | int | None", tree.get("tag")),
        tag_field=typing.cast("str | None", tree.get("tag_field")),
    )


# ---------------------------------------------------------------- compatibility


def accepts(new: TypeTree, old: TypeTree) -> bool:
    """Whether every value written as `old` reads as `new` and means the same."""
    if new == old:
        return True
    if isinstance(old, dict) and "union" in old:
        return all(accepts(new, each) for each in parts(old, "union"))
    if isinstance(new, dict) and "union" in new:
        return any(accepts(each, old) for each in parts(new, "union"))
    if isinstance(new, dict) and "limited" in new:
        bare, limits = (old, {}) if isinstance(old, str) else _unlimited(old)
        return _limits_accept(limits_of(new), limits) and accepts(part(new, "limited"), bare)
    if isinstance(old, dict) and "limited" in old:
        return accepts(new, part(old, "limited"))
    if isinstance(new, str) or isinstance(old, str):
        return new == "float" and old == "int"
    return _structures_accept(new, old)


def _structures_accept(new: dict[str, object], old: dict[str, object]) -> bool:
    for container in ("list", "set", "frozenset", "tuple_of"):
        if container in new and container in old:
            return accepts(part(new, container), part(old, container))
    for several in ("tuple", "dict"):
        if several in new and several in old:
            ours, theirs = parts(new, several), parts(old, several)
            return len(ours) == len(theirs) and all(map(accepts, ours, theirs))
    for choices in ("enum", "literal"):
        if choices in new and choices in old:
            listed = "values" if choices == "enum" else "literal"
            known = {canonical(each) for each in values_of(new, listed)}
            return all(canonical(each) in known for each in values_of(old, listed))
    return "struct" in new and "struct" in old and _records_accept(new, old)


def _records_accept(new: dict[str, object], old: dict[str, object]) -> bool:
    if any(new.get(each) != old.get(each) for each in ("form", "tag", "tag_field")):
        return False
    ours, theirs = record_fields(new), record_fields(old)
    names, old_names = [each[0] for each in ours], [each[0] for each in theirs]
    if new["form"] == "array" and names[: len(old_names)] != old_names:
        return False
    kinds = {name: kind for name, kind, _ in theirs}
    return set(old_names) <= set(names) and all(
        accepts(kind, kinds[name]) if name in kinds else not required
        for name, kind, required in ours
    )


def _unlimited(tree: dict[str, object]) -> tuple[TypeTree, dict[str, object]]:
    return (part(tree, "limited"), limits_of(tree)) if "limited" in tree else (tree, {})


def _limits_accept(new: dict[str, object], old: dict[str, object]) -> bool:
    for name, bound in new.items():
        if name not in old:
            return False
        ours, theirs = typing.cast(float, bound), typing.cast(float, old[name])
        fits = (ours <= theirs) if name in _AT_LEAST else (ours >= theirs)
        if bound != old[name] and not (fits and name in (*_AT_LEAST, *_AT_MOST)):
            return False
    return True
