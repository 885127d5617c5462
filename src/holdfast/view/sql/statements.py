"""Which statements are let through: one SELECT of known tables, with no function that reads more.

DuckDB itself parses; what it says of the statement is walked here. This is not the only wall: the
database that runs the query may open nothing, and is alone in a process with little to take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "json_each", "json_tree"}
ONE_SELECT = "only one SELECT statement can be asked"


class Refused(Exception):
    """Said to whoever asked, in one line."""


class Reference(NamedTuple):
    """A table that a statement names."""

    schema: str
    name: str


def tables_of(serialized: str) -> list[Reference]:
    """The tables of a statement that `json_serialize_sql` has described, each once."""
    described = json.loads(serialized)
    if described["error"]:
        raise Refused(_why(described))
    if len(described["statements"]) != 1:
        raise Refused(f"{ONE_SELECT}, and these are {len(described['statements'])}")
    found: dict[Reference, None] = {}
    own: set[str] = set()
    for node in _nodes(described["statements"]):
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in NODES:
            raise Refused(f"{ONE_SELECT}, and nothing that changes data")
        if kind == "TABLE_FUNCTION":
            _check_function(cast("dict[str, object]", node["function"]))
        elif kind == "BASE_TABLE":
            schema = str(node.get("catalog_name") or "") + str(node.get("schema_name") or "")
            found[Reference(schema, str(node["table_name"]))] = None
        elif kind == "SHOW_REF" and node.get("query") is None:
            raise Refused(f"{ONE_SELECT}: `holdfast query --tables` lists tables and columns")
        elif "cte_map" in node:
            own.update(_names(node["cte_map"]))
    return [each for each in found if each.schema or each.name.lower() not in own]


def unknown(references: Iterable[Reference], tables: Iterable[str]) -> str | None:
    """What to say of the first table that there is not."""
    known = sorted(tables)
    for schema, name in references:
        if schema not in ("", "main") or name.lower() not in known:
            whole = f"{schema}.{name}" if schema else name
            return f"no table {whole!r}: there is {', '.join(known)}"
    return None


def _check_function(function: dict[str, object]) -> None:
    name = str(function.get("function_name")).lower()
    if name not in TABLE_FUNCTIONS:
        raise Refused(
            f"the table function {name} cannot be asked: only {', '.join(sorted(TABLE_FUNCTIONS))}"
        )


def _nodes(root: object) -> Iterator[dict[str, object]]:
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _names(cte_map: object) -> Iterator[str]:
    for entry in cast("dict[str, list[dict[str, str]]]", cte_map).get("map", []):
        yield entry["key"].lower()


def _why(described: dict[str, str]) -> str:
    if described.get("error_type") == "not implemented":
        return ONE_SELECT
    place = described.get("position")
    where = f" (at character {int(place) + 1})" if place and place.isdecimal() else ""
    return f"{described.get('error_message', 'it cannot be read')}{where}"
