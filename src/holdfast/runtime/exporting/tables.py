"""Tables in PostgreSQL: made if they are missing, widened where states outgrew them, and checked.

Names are kept as they are and quoted. PostgreSQL cuts names at 63 bytes: longer ones end in a hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from holdfast.errors import UsageError
from holdfast.runtime.exporting.columns import Form, short_name, widened
from holdfast.runtime.exporting.target import Kind

NAME_BYTES = 63
SYSTEM_COLUMNS = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")

_TYPES: dict[Form, LiteralString] = {
    "bool": "boolean",
    "int": "bigint",
    "number": "numeric",
    "float": "double precision",
    "decimal": "numeric",
    "text": "text",
    "bytes": "bytea",
    "moment": "timestamp with time zone",
    "date": "date",
    "uuid": "uuid",
    # Not jsonb: that has no zero byte in texts, and no sign on zero.
    "json": "json",
    "payload": "json",
}
# What somebody may have made instead.
_ALSO: dict[Form, tuple[str, ...]] = {
    "int": ("numeric",),
    "text": ("character varying",),
    "json": ("jsonb",),
    "payload": ("jsonb",),
}
_FORMS: dict[str, Form] = {kind: form for form, kind in reversed(_TYPES.items())}


def table_name(fleet: str, kind: Kind, agent: str = "") -> str:
    return short_name("_".join(filter(None, (fleet, kind, agent))), NAME_BYTES)


def column_name(name: str) -> str:
    return short_name(name, NAME_BYTES)


class Table:
    """One table and the columns it has."""

    def __init__(self, connection: psycopg.Connection[Any], name: str, owner: str) -> None:
        self._connection = connection
        self.name = name
        self._owner = owner  # what its comment says, so that no two exports share a table
        self.identifier = sql.Identifier(name)
        self._types: dict[str, str] = {}

    def prepare(self, wanted: dict[str, Form], key: Sequence[str] = ()) -> dict[str, Form]:
        """See to it that the columns are there; the forms that they have now."""
        if not self._types:
            self._look()
        if not self._types:
            self._create(wanted, key)
            self._look()
        have: dict[str, Form] = {}
        for name, form in wanted.items():
            have[name] = self._column(name, form, fixed=not key)
        return have

    def _look(self) -> None:
        """Types by column; none if there is no such table."""
        query = """
            SELECT attname, format_type(atttypid, NULL), obj_description(attrelid, 'pg_class')
            FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
        """
        name = self.identifier.as_string(self._connection)
        rows = self._connection.execute(query, (name,)).fetchall()
        self._types = {column: kind for column, kind, _ in rows}
        comment = rows[0][2] if rows else None
        if comment is not None and comment.startswith("holdfast ") and comment != self._owner:
            raise UsageError(
                f"table {name} belongs to another export ({comment}): use another database or "
                "schema"
            )

    def _create(self, wanted: dict[str, Form], key: Sequence[str]) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_TYPES[form]))
            for name, form in wanted.items()
        ]
        if key:
            names = sql.SQL(", ").join(map(sql.Identifier, key))
            columns.append(sql.SQL("PRIMARY KEY ({})").format(names))
        self._change("CREATE TABLE {} ({})", sql.SQL(", ").join(columns))
        self._change("COMMENT ON TABLE {} IS {}", sql.Literal(self._owner))

    def _column(self, name: str, form: Form, *, fixed: bool) -> Form:
        kind = self._types.get(name)
        column = sql.Identifier(name)
        if kind is None:
            self._change("ALTER TABLE {} ADD COLUMN {} {}", column, sql.SQL(_TYPES[form]))
            self._types[name] = _TYPES[form]
            return form
        if kind == _TYPES[form] or kind in _ALSO.get(form, ()):
            return form
        now = _FORMS.get(kind if kind != "jsonb" else "json")
        if fixed or now is None:
            raise UsageError(
                f"column {name} of table {self.name} is {kind}, an export needs {_TYPES[form]}: "
                "alter it, or drop the table"
            )
        wider = widened(now, form)
        if wider != now:
            self._widen(column, wider)
            self._types[name] = _TYPES[wider]
        return wider

    def _widen(self, column: sql.Identifier, form: Form) -> None:
        value = sql.SQL("{}::" + _TYPES[form]).format(column)
        if form == "json":
            value = sql.SQL("to_json({})").format(column)
        elif form == "text":
            value = sql.SQL("to_json({}) #>> '{{}}'").format(column)  # as JSON spells it
        change = "ALTER TABLE {} ALTER COLUMN {} TYPE {} USING {}"
        self._change(change, column, sql.SQL(_TYPES[form]), value)

    def _change(self, text: LiteralString, *parts: sql.Composable) -> None:
        self._connection.execute(sql.SQL(text).format(self.identifier, *parts))

    def copy(self, columns: dict[str, list[object]]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("COPY {} ({}) FROM STDIN").format(self.identifier, names)
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)

    def remove(self, keys: Sequence[object]) -> None:
        query = sql.SQL("DELETE FROM {} WHERE key = ANY(%s)").format(self.identifier)
        self._connection.execute(query, (list(cast("Sequence[str]", keys)),))

    def empty(self) -> None:
        self._look()
        if self._types:
            self._connection.execute(sql.SQL("DELETE FROM {}").format(self.identifier))
