"""Read models (views that users write) as tables: read anew by every query that names one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import UsageError
from holdfast.model.schema import Schema
from holdfast.runtime.exporting.columns import Column, Form
from holdfast.runtime.handle import Handle
from holdfast.runtime.viewing.reading import values_of
from holdfast.runtime.viewing.shelf import names_in
from holdfast.view.sql.names import class_columns, free_names
from holdfast.view.sql.standing import table_of


class Models:
    def __init__(self, live: Handle) -> None:
        self._live = live

    def names(self, taken: Iterable[str]) -> dict[str, str]:
        """By table the view it holds; none where views are kept in a place we cannot know."""
        try:
            folder = self._live.views_folder()
        except UsageError:
            return {}
        return free_names(names_in(folder), taken)

    def table(self, name: str) -> Any:
        """Its rows as of one commit of the view, which may be behind the fleet."""
        found = self._live.stored_view(name).rows()
        columns = _columns(found.schema)
        rows = [
            (key, *(values.get(column.field) for column in columns))
            for key, values in values_of(found)
        ]
        return table_of(_forms(columns), rows)

    def forms(self, name: str) -> dict[str, Form]:
        return _forms(_columns(self._live.stored_view(name).rows().schema))


def _columns(schema: Schema) -> list[Column]:
    return class_columns([schema], ("key",))


def _forms(columns: list[Column]) -> dict[str, Form]:
    return {"key": "text", **{column.name: column.form for column in columns}}
