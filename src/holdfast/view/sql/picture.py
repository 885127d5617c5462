"""The picture: agents of a fleet as tables, each partition as of one commit.

A query wants some classes. Of each partition all that changed since the oldest of their sheets is
read, in one look, so that they are all of that commit afterwards. What a query is given are Arrow
tables, which a later refresh replaces and does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as arrow

from holdfast.engine.port import Engine
from holdfast.errors import Rescaling
from holdfast.model.schema import Schema
from holdfast.runtime.exporting.columns import Column, Form
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Head, Record
from holdfast.view.sql.jailer import Shared
from holdfast.view.sql.names import class_columns
from holdfast.view.sql.rows import Gathering, pieces_of
from holdfast.view.sql.sheets import Misfit, Sheet

ATTEMPTS = 3  # to find the same partitions before and after


class ClassSheets:
    """The sheets of one class: its columns, and one sheet per partition."""

    def __init__(self, agent: str, schemas: Mapping[int, Schema]) -> None:
        self.agent = agent
        self._schemas = schemas
        self._wider: dict[str, Form] = {}
        own = [s for _, s in sorted(schemas.items()) if (s.kind, s.name) == ("state", agent)]
        self._all_columns = class_columns(own)
        self.sheets: dict[int, Sheet] = {}
        self.commits: dict[int, int] = {}  # by partition the commit its sheet is of
        self._shared: tuple[list[Any], Shared] | None = None

    @property
    def columns(self) -> list[Column]:
        return [
            column._replace(form=self._wider.get(column.field, column.form))
            for column in self._all_columns
        ]

    def apply(self, number: int, head: Head, whole: bool, pieces: list[Record | Block]) -> None:
        """Misfit, and nothing is known any more, where a column has to be wider."""
        gathering = Gathering([column.field for column in self._all_columns], self._schemas)
        gathering.add(pieces)
        sheet = None if whole else self.sheets.get(number)
        try:
            if sheet is None:
                sheet = self.sheets[number] = Sheet(self.columns)
            sheet.apply(gathering.rows())
        except Misfit as misfit:
            self._wider |= misfit.forms
            self.forget(())
            raise
        self.commits[number] = head.commits

    def fill(self, heads: Mapping[int, Head], pieces: Mapping[int, list[Record | Block]]) -> None:
        """All partitions at once, of agents that do not change any more."""
        for _ in range(len(self._all_columns) + 1):  # each column may turn out to be wider
            try:
                for number, head in heads.items():
                    self.apply(number, head, True, pieces[number])
                return
            except Misfit:
                continue

    def forget(self, kept: Collection[int]) -> None:
        for number in [each for each in self.sheets if each not in kept]:
            del self.sheets[number]
            self.commits.pop(number, None)

    def __len__(self) -> int:
        return sum(map(len, self.sheets.values()))

    def shared(self) -> Shared:
        """All partitions in one table, for other processes."""
        parts = [sheet.table() for _, sheet in sorted(self.sheets.items())]
        if self._shared is None or not same(self._shared[0], parts):
            table = arrow.concat_tables(parts) if parts else Sheet(self.columns).table()
            self._shared = parts, Shared(table)
        return self._shared[1]


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class Picture:
    """For one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._schemas: dict[int, Schema] = {}
        self._classes: dict[str, ClassSheets] = {}
        self._incarnations: dict[int, str] = {}

    def agents(self) -> list[str]:
        """The classes that the data knows now."""
        found = self._engine.catalog.schemas()
        if found.keys() != self._schemas.keys():
            # A class may have got fields: those that have changed are read anew.
            changed = {s.name for i, s in found.items() if i not in self._schemas}
            self._schemas = found
            self._classes = {n: c for n, c in self._classes.items() if n not in changed}
        return sorted({each.name for each in found.values() if each.kind == "state"})

    def of(self, agent: str) -> ClassSheets:
        if agent not in self._classes:
            self._classes[agent] = ClassSheets(agent, self._schemas)
        return self._classes[agent]

    def refresh(self, agents: Iterable[str]) -> dict[int, Head]:
        """Bring these classes up to date; where each partition stands then."""
        wanted = [self.of(agent) for agent in agents]
        for _ in range(ATTEMPTS):
            layout = self._engine.catalog.layout
            try:
                heads = {number: self._refresh(number, wanted) for number in layout.numbers}
            except Misfit:
                continue  # the class has a wider column now: read it once more
            if self._engine.catalog.layout == layout:
                for each in self._classes.values():
                    each.forget(heads)
                return heads
        raise Rescaling("the partitions change at this moment: ask again")

    def _refresh(self, number: int, wanted: list[ClassSheets]) -> Head:
        view = self._engine.view(number)
        if not wanted:
            return view.head()
        incarnation = view.incarnation()
        if self._incarnations.get(number) != incarnation:
            for each in self._classes.values():
                each.commits.pop(number, None)
            self._incarnations[number] = incarnation
        since = min(each.commits.get(number, -1) for each in wanted)
        changes = view.changes(since)
        first = next(changes)
        assert first.head is not None
        pieces = pieces_of(changes, [each.agent for each in wanted])
        for each in wanted:
            each.apply(number, first.head, first.whole, pieces[each.agent])
        return first.head
