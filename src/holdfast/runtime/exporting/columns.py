"""Columns of tables and Parquet files: their kinds, and values as those kinds have them.

Events and actions have fixed columns. A class of agents has a column per field of any of its stored
versions: typed where the type is plain, JSON otherwise. A value that does not fit its column widens
it: integers past 64 bits become decimals, times without a zone become text, the rest JSON.
"""

from __future__ import annotations

import decimal
import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from functools import reduce
from typing import Literal, NamedTuple, TypeAlias, cast

from holdfast.model.schema import Schema
from holdfast.model.types import TypeTree, part, parts, values_of
from holdfast.runtime.exporting.payloads import json_text
from holdfast.runtime.exporting.target import Kind

Form: TypeAlias = Literal[
    "bool",
    "int",
    "number",
    "float",
    "decimal",
    "text",
    "bytes",
    "moment",
    "date",
    "uuid",
    "json",
    "payload",  # JSON that is written already
]
INT_LARGEST = 2**63 - 1
DECIMAL_DIGITS = 10_000  # before or behind the point; PostgreSQL has at least 16,383

FIXED: dict[Kind, dict[str, Form]] = {
    "events": {
        "partition": "int",
        "position": "int",
        "fired": "int",
        "stamp": "moment",
        "event_time": "moment",
        "origin": "text",
        "agent": "text",
        "key": "text",
        "type": "text",
        "source": "text",
        "seq": "int",
        "sender": "text",
        "payload": "payload",
    },
    "actions": {
        "id": "text",
        "partition": "int",
        "number": "int",
        "agent": "text",
        "key": "text",
        "type": "text",
        "issued": "moment",
        "expires_at": "moment",
        "priority": "text",
        "undoes": "text",
        "why": "text",
        "payload": "payload",
    },
    # The fields of a class follow.
    "states": {
        "agent": "text",
        "key": "text",
        "version": "int",
        "updated": "moment",
        "gone": "bool",
    },
}
_PLAIN: dict[str, Form] = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "text",
    "bytes": "bytes",
    "datetime": "moment",
    "date": "date",
    "time": "text",
    "timedelta": "text",
    "uuid": "uuid",
    "decimal": "decimal",
}
_TEXTS = {"text", "moment", "date", "uuid"}


class Column(NamedTuple):
    name: str
    field: str
    form: Form


# ---------------------------------------------------------------- which columns


def columns_of(versions: Iterable[Schema], taken: Collection[str]) -> list[Column]:
    """A column per field of any version of a class; one whose name is taken gets a `_` behind."""
    forms: dict[str, Form] = {}
    for schema in versions:
        for field in schema.fields:
            form = form_of(field.type)
            forms[field.name] = widened(forms.get(field.name, form), form)
    used = {*taken, *forms}
    columns = []
    for field_name, form in forms.items():
        name = field_name
        if name in taken:
            while name in used:
                name += "_"
            used.add(name)
        columns.append(Column(name, field_name, form))
    return columns


def form_of(tree: TypeTree) -> Form:
    if isinstance(tree, str):
        return _PLAIN.get(tree, "json")
    if "limited" in tree:
        return form_of(part(tree, "limited"))
    if "union" in tree:
        forms = [form_of(each) for each in parts(tree, "union") if each != "null"]
        return reduce(widened, forms) if forms else "json"
    for choices in ("enum", "literal"):
        if choices in tree:
            return _form_of_values(values_of(tree, "values" if choices == "enum" else choices))
    return "json"


def _form_of_values(values: Sequence[object]) -> Form:
    kinds = {type(each) for each in values} - {type(None)}
    if kinds == {str}:
        return "text"
    return "int" if kinds == {int} else "json"


def widened(one: Form, other: Form) -> Form:
    """A form that holds the values of both."""
    both = {one, other}
    if len(both) == 1:
        return one
    if both <= {"int", "float"}:
        return "float"
    if both <= {"int", "number"}:
        return "number"
    if both <= {"int", "number", "decimal"}:
        return "decimal"
    return "text" if both <= _TEXTS else "json"


def short_name(text: str, bytes_max: int) -> str:
    """The name, or where it is too long its beginning and a hash of the whole."""
    if len(text.encode()) <= bytes_max:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text.encode()[: bytes_max - 9].decode(errors="ignore") + "_" + mark


# ---------------------------------------------------------------- values in them


def fitting(form: Form, values: Iterable[object]) -> Form:
    """The form itself, or the wider one that all these values need."""
    wider = _WIDER.get(form)
    if wider is not None:
        misfits, instead = wider
        if any(each is not None and misfits(each) for each in values):
            return fitting(instead, values)
    return form


def _past_64_bits(value: object) -> bool:
    return isinstance(value, int) and value > INT_LARGEST


def _no_number(value: object) -> bool:
    if isinstance(value, int):
        return False
    found = decimal.Decimal(str(value))
    if found.is_nan():
        return str(value) != "NaN"  # a sign, a signal or a diagnostic
    if found.is_infinite():
        return False
    exponent = cast(int, found.as_tuple().exponent)
    return found.adjusted() > DECIMAL_DIGITS or exponent < -DECIMAL_DIGITS


_WIDER: dict[Form, tuple[Callable[[object], bool], Form]] = {
    "int": (_past_64_bits, "number"),
    "float": (lambda value: isinstance(value, int) and float(value) != value, "json"),
    "decimal": (_no_number, "text"),
    # Times with a zone are exact moments; what has none is whatever its writer meant.
    "moment": (lambda value: isinstance(value, str) and moment_of_text(value) is None, "text"),
    # PostgreSQL has no zero byte in a text, but an escape for it in JSON.
    "text": (lambda value: "\0" in str(value), "json"),
}


def moment(seconds: object) -> datetime | None:
    """A time as a date, or None: not every number is one."""
    try:
        return datetime.fromtimestamp(cast(float, seconds), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def moment_of_text(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def values_as(form: Form, values: Sequence[object]) -> list[object]:
    """Values of a field or a fixed column, as a column of that form has them."""
    if form == "json":
        return [None if each is None else json_text(each).decode() for each in values]
    if form == "payload":
        return [None if each is None else cast(bytes, each).decode() for each in values]
    if form == "moment":
        known: dict[object, object] = {each: _moment(each) for each in set(values)}
        return [known[each] for each in values]
    if form == "float":
        return [None if each is None else float(cast(float, each)) for each in values]
    if form == "date":
        return [None if each is None else date.fromisoformat(str(each)) for each in values]
    return list(values)


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    return moment_of_text(value) if isinstance(value, str) else moment(value)
