"""What tables and columns are called. SQL does not tell capital letters from small ones, we do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.schema import Schema
from holdfast.runtime.exporting.columns import Column, columns_of

TABLES = ("events", "actions", "dead_letters", "partitions")  # beside one for each class of agents
OWN = ("key", "version", "updated")  # columns of every class


def table_names(agents: Iterable[str]) -> dict[str, str]:
    """By table the class it holds: its name in lower case; one that is taken gets a `_` behind."""
    return free_names(agents, TABLES)


def free_names(classes: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    used = set(taken)
    for name in sorted(classes):
        table = _free(name.lower(), used)
        used.add(table)
        found[table] = name
    return found


def class_columns(versions: Sequence[Schema], own: Sequence[str] = OWN) -> list[Column]:
    """A column per field of any version; one whose name is taken gets a `_` behind."""
    used = set(own)
    columns = []
    for column in columns_of(versions, ()):
        name = _free(column.field, used)
        used.add(name.lower())
        columns.append(column._replace(name=name))
    return columns


def _free(name: str, used: set[str]) -> str:
    while name.lower() in used:
        name += "_"
    return name
