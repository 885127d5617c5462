"""Stored agents as columns of values, many at a time: of one class, by its stored schemas alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, cast

import msgspec

from holdfast.engine.port import Change
from holdfast.errors import DamagedData
from holdfast.model.schema import Field, Schema, UntypedReader
from holdfast.model.types import TypeTree, part, parts
from holdfast.model.values import named
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Record
from holdfast.stepping.rows import field_names

_unpack = msgspec.msgpack.Decoder(list[list[object]]).decode

Values = list[object]


class Rows(NamedTuple):
    """Agents that are there, each once, as columns; and the keys of those that are gone."""

    keys: list[str]
    columns: list[Values]  # version, updated, then one for each field
    gone: list[str]


class Gathering:
    """Pieces in the order of applying, of which the newest image of each agent counts."""

    def __init__(self, fields: Sequence[str], schemas: Mapping[int, Schema]) -> None:
        self._fields = fields
        self._schemas = schemas
        self._keys: list[str] = []
        self._own: tuple[Values, Values] = [], []  # version, updated
        self._columns: dict[str, Values] = {name: [] for name in fields}
        self._places: dict[str, int] = {}  # by key where its newest image is; -1: it is gone
        self._decode: dict[int, Decoder] = {}

    def add(self, pieces: Iterable[Record | Block]) -> None:
        for schema, group in groupby(pieces, key=_kind):
            if schema is None:
                for block in cast("Iterable[Block]", group):
                    self._add_block(block)
            else:
                self._add_records(schema, list(cast("Iterable[Record]", group)))

    def _add_records(self, schema: int, records: list[Record]) -> None:
        if schema == _GONE:
            self._places.update(dict.fromkeys((r.key for r in records), -1))
            return
        _, keys, versions, _, states, _, updated = zip(*records, strict=True)
        self._put(keys, versions, updated, self._decoder(schema).rows(states))

    def _add_block(self, block: Block) -> None:
        frame = block.frame
        keys, versions, updated = (
            cast(Values, frame.values(name)) for name in ("key", "version", "updated")
        )
        names = field_names(frame, block.schema)
        found = [frame.expand(f"cols.{block.schema}.{name}", frame.count) for name in names]
        columns = self._decoder(block.schema).named(dict(zip(names, found, strict=True)))
        self._put(cast("list[str]", keys), versions, updated, columns)

    def _put(
        self,
        keys: Sequence[str],
        versions: Sequence[object],
        updated: Sequence[object],
        columns: dict[str, Values],
    ) -> None:
        first = len(self._keys)
        self._keys += keys
        self._own[0].extend(versions)
        self._own[1].extend(updated)
        for name, own in self._columns.items():
            own += columns.get(name) or [None] * len(keys)
        self._places.update(zip(keys, range(first, first + len(keys)), strict=True))

    def _decoder(self, schema: int) -> Decoder:
        if schema not in self._decode:
            self._decode[schema] = Decoder(self._schemas[schema])
        return self._decode[schema]

    def rows(self) -> Rows:
        columns = [*self._own, *self._columns.values()]
        gone = [key for key, place in self._places.items() if place < 0]
        if len(self._places) - len(gone) == len(self._keys):
            return Rows(self._keys, columns, gone)
        places = [place for place in self._places.values() if place >= 0]
        picked = [[each[place] for place in places] for each in columns]
        return Rows([self._keys[place] for place in places], picked, gone)


_GONE = -1


def _kind(piece: Record | Block) -> int | None:
    if isinstance(piece, Block):
        return None
    return _GONE if piece.gone else piece.schema


def pieces_of(changes: Iterable[Change], agents: Iterable[str]) -> dict[str, list[Record | Block]]:
    """Changes by the class they are of, as far as they are of these."""
    found: dict[str, list[Record | Block]] = {agent: [] for agent in agents}
    for change in changes:
        piece = change.record if change.record is not None else Block.decode(change.block)
        if (own := found.get(piece.agent)) is not None:
            own.append(piece)
    return found


class Decoder:
    """Packed states of one schema as columns, without a call into Python for each of them."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._shaped: dict[str, Callable[[object], object]] = {
            field.name: _shape(field) for field in schema.fields if not _is_plain(field.type)
        }

    def rows(self, states: Sequence[bytes]) -> dict[str, Values]:
        head = b"\xdd" + len(states).to_bytes(4, "big")
        fields = self._schema.fields
        try:
            rows = _unpack(head + b"".join(states))
            if len(rows) != len(states) or any(len(row) != len(fields) for row in rows):
                raise ValueError("not as many values as fields")
        except (msgspec.DecodeError, ValueError) as error:
            self._find_damaged(states)
            raise DamagedData(f"states of {self._schema.name} cannot be read: {error}") from None
        columns = [list(column) for column in zip(*rows, strict=True)]
        return self.named(dict(zip((field.name for field in fields), columns, strict=True)))

    def named(self, columns: dict[str, Values]) -> dict[str, Values]:
        """Nested values with the names of their fields."""
        for name, shape in self._shaped.items():
            columns[name] = [shape(each) for each in columns[name]]
        return columns

    def _find_damaged(self, states: Sequence[bytes]) -> None:
        reader = UntypedReader(self._schema)
        for state in states:
            reader.row(state)  # says what is wrong with it


def _shape(field: Field) -> Callable[[object], object]:
    return lambda value: named(field.type, value)


def _is_plain(tree: TypeTree) -> bool:
    """Whether its values are the same on disk and for people."""
    if isinstance(tree, str):
        return tree != "datetime"
    if "limited" in tree:
        return _is_plain(part(tree, "limited"))
    if "union" in tree:
        return all(_is_plain(each) for each in parts(tree, "union"))
    return "enum" in tree or "literal" in tree


def by_agent(records: Iterable[Record]) -> dict[str, list[Record | Block]]:
    """Records by class, in their order."""
    found: dict[str, list[Record | Block]] = {}
    for agent, group in groupby(sorted(records, key=attrgetter("agent")), key=attrgetter("agent")):
        found[agent] = list(group)
    return found
