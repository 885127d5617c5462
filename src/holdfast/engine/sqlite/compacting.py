"""Compaction: the newest images of agents move from the deltas of a state file to its base.

Rows are moved as they are. Of compiled classes the owner has the newest image of everything in
its memory, so nothing is merged: it makes the blocks of those buckets anew in which agents have
changed. Of a class that it does not keep in columns, blocks become rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apsw

from holdfast.engine.port import Images
from holdfast.engine.sqlite.blocks import Place, list_blocks, put_blocks, read_block
from holdfast.engine.sqlite.checks import check_of
from holdfast.errors import HoldfastError
from holdfast.stepping.blocks import (
    Block,
    bucket_of,
    buckets_in,
    keys_in,
    records_in,
    split_block,
)
from holdfast.stepping.commit import Record

Name = tuple[str, str]  # class and key
Items = Callable[[], Iterable[Record | Block]]  # of some deltas, from old to new
Changes = list[tuple[Place, Block | None]]


class Compaction:
    """One move, inside a transaction of the owner."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._items: Items = tuple
        self._newest: dict[Name, Record] = {}
        self._listed = set(list_blocks(connection, path))
        self._dirty: dict[str, set[int]] = {}  # buckets of classes that have blocks

    def renew(self, places: Iterable[Place], images: Images) -> bool:
        """Make some blocks anew; the deltas stay. False if the owner has no columns of one."""
        changes: Changes = []
        buckets: dict[str, set[int]] = {}
        for agent, bucket in places:
            buckets.setdefault(agent, set()).add(bucket)
        for agent, some in buckets.items():
            made = images(agent, some)
            if made is None:
                return False
            changes += self._made_anew(agent, some, made)
        put_blocks(self._connection, changes)
        return True

    def move(self, items: Items, images: Images) -> None:
        """All that is in some deltas, which may go then."""
        self._items = items
        self._read()
        changes: Changes = []
        for agent, buckets in self._dirty.items():
            made = images(agent, buckets)
            if made is None:
                changes += self._taken_apart(agent)
            else:
                changes += self._made_anew(agent, buckets, made)
        if changes:
            put_blocks(self._connection, changes)
        self._write_rows()

    def _read(self) -> None:
        in_blocks = {agent for agent, _ in self._listed}
        for item in self._items():
            if isinstance(item, Block):
                self._dirty.setdefault(item.agent, set()).update(buckets_in(item.buckets))
            else:
                self._newest[item.agent, item.key] = item
        in_blocks |= self._dirty.keys()
        for agent, key in self._newest:
            if agent in in_blocks:
                self._dirty.setdefault(agent, set()).add(bucket_of(key))

    def _made_anew(
        self, agent: str, buckets: set[int], made: Iterable[tuple[int, Block | None]]
    ) -> Iterator[tuple[Place, Block | None]]:
        """What is in a block is no row any more, neither in the base nor among those to come."""
        rows = self._rows_by_bucket(agent)
        left = set(buckets)
        for bucket, block in made:
            left.discard(bucket)
            if block is not None and rows.get(bucket):
                for key in rows[bucket].intersection(keys_in(block)):
                    self._newest.pop((agent, key), None)
                    self._delete_row((agent, key))
            if block is not None or (agent, bucket) in self._listed:
                yield (agent, bucket), block
        if left:
            raise HoldfastError(f"{agent}: no image of bucket {min(left)}: it is not compacted")

    def _rows_by_bucket(self, agent: str) -> dict[int, set[str]]:
        query = "SELECT key FROM base WHERE agent=?"
        keys = {row[0] for row in self._connection.execute(query, (agent,))}
        keys |= {key for name, key in self._newest if name == agent}
        found: dict[int, set[str]] = {}
        for key in keys:
            found.setdefault(bucket_of(key), set()).add(key)
        return found

    def _taken_apart(self, agent: str) -> Iterator[tuple[Place, Block | None]]:
        """All that changed becomes rows, and leaves the blocks of the base."""
        changed: dict[str, Record] = {}
        for item in self._items():
            if item.agent == agent:
                records = records_in(item) if isinstance(item, Block) else (item,)
                changed.update((record.key, record) for record in records)
        self._newest.update(((agent, key), record) for key, record in changed.items())
        for bucket in {bucket_of(key) for key in changed}:
            place = (agent, bucket)
            if place in self._listed:
                block = Block.decode(read_block(self._connection, self._path, place))
                yield place, split_block(block, changed.__contains__).get(False)

    def _write_rows(self) -> None:
        rows = [(*r, check_of(*r)) for r in self._newest.values() if not r.gone]
        many = self._connection.executemany
        many("REPLACE INTO base VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for record in self._newest.values():
            if record.gone:
                self._delete_row((record.agent, record.key))

    def _delete_row(self, name: Name) -> None:
        self._connection.execute("DELETE FROM base WHERE agent=? AND key=?", name)
