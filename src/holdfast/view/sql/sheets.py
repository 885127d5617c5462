"""A sheet: the agents of one class in one partition as an Arrow table, brought up to date by what
changed.

Most agents lie in the *base*, a table with a place for each key. Those that changed since lie over
it, and their places are crossed out. When many have changed, both become a new base. So a refresh
costs what has changed, and one copy of the columns, whatever the fleet has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as arrow

from holdfast.runtime.exporting.arrays import TYPES, array_of
from holdfast.runtime.exporting.columns import INT_LARGEST, Column, Form, fitting
from holdfast.view.sql.names import OWN
from holdfast.view.sql.rows import Rows

OVER_MAX = 4_096  # agents over the base, or a quarter of it
_OWN_FORMS: tuple[Form, ...] = ("text", "int", "moment")


class Misfit(Exception):
    """Values that a column cannot hold: it has to be of a wider form."""

    def __init__(self, forms: dict[str, Form]) -> None:
        super().__init__(f"wider forms: {forms}")
        self.forms = forms  # by field


class Sheet:
    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = [
            *(Column(name, name, form) for name, form in zip(OWN, _OWN_FORMS, strict=True)),
            *columns,
        ]
        self._over: dict[str, tuple[object, ...]] = {}
        self._set_base(self._table([[] for _ in self._columns]))

    def _set_base(self, table: Any) -> None:
        self._base = table
        self._places = {key: at for at, key in enumerate(table.column(0).to_pylist())}
        self._alive = bytearray(b"\xff" * ((len(table) + 7) // 8))
        self._made: Any = table

    def __len__(self) -> int:
        return len(self._places) + len(self._over)

    def apply(self, rows: Rows) -> None:
        values: list[list[object]] = [list(rows.keys), *rows.columns]
        self._check(values)
        for key in rows.gone:
            self._cross_out(key)
            self._over.pop(key, None)
        for key in rows.keys:
            self._cross_out(key)
        if len(rows.keys) + len(self._over) > max(OVER_MAX, len(self._places) // 4):
            for key in rows.keys:
                self._over.pop(key, None)
            whole = [self._kept(), self._table_of_over(), self._table(values)]
            self._over = {}
            self._set_base(arrow.concat_tables(whole).combine_chunks())
            return
        self._over.update(zip(rows.keys, zip(*values, strict=True), strict=True))
        if rows.keys or rows.gone:
            self._made = None

    def _cross_out(self, key: str) -> None:
        at = self._places.pop(key, None)
        if at is not None:
            self._alive[at >> 3] &= ~(1 << (at & 7))

    def _check(self, values: list[list[object]]) -> None:
        """Columns are widened for the whole class, so whoever has its sheets does it."""
        wider = {}
        for column, each in zip(self._columns, values, strict=True):
            form = column.form if _fits(column.form, each) else fitting(column.form, each)
            if form != column.form:
                wider[column.field] = form
        if wider:
            raise Misfit(wider)

    def table(self) -> Any:
        """All agents. It is not changed any more, whatever comes."""
        if self._made is None:
            self._made = arrow.concat_tables([self._kept(), self._table_of_over()])
        return self._made

    def _kept(self) -> Any:
        if len(self._places) == len(self._base):
            return self._base
        bits = arrow.py_buffer(bytes(self._alive))
        alive = arrow.Array.from_buffers(arrow.bool_(), len(self._base), [None, bits])
        return self._base.filter(alive)

    def _table_of_over(self) -> Any:
        rows = list(self._over.values())
        return self._table([list(each) for each in zip(*rows, strict=True)] if rows else None)

    def _table(self, values: list[list[object]] | None) -> Any:
        arrays = {}
        for place, column in enumerate(self._columns):
            array = array_of(column.form, [] if values is None else values[place])
            arrays[column.name] = marked(column.form, array)
        return arrow.table(arrays)


def _fits(form: Form, values: list[object]) -> bool:
    """Whether it is plain that they do, without a call into Python for each of them."""
    kinds = set(map(type, values)) - {type(None)}
    if form == "float":
        return kinds <= {float}
    if form == "int" and kinds == {int}:
        return max(filter(None, cast("list[int]", values)), default=0) <= INT_LARGEST
    if form == "text" and kinds == {str}:
        return "\0" not in "".join(filter(None, cast("list[str]", values)))
    return not kinds


def marked(form: Form, array: Any) -> Any:
    """JSON says that it is some."""
    if form in ("json", "payload"):
        return arrow.ExtensionArray.from_storage(arrow.json_(), array)
    return array


def empty_table(columns: Sequence[tuple[str, Form]]) -> Any:
    return arrow.table({name: marked(form, array_of(form, [])) for name, form in columns})


def arrow_type(form: Form) -> Any:
    return arrow.json_() if form in ("json", "payload") else TYPES[form]
