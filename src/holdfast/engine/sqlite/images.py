"""States as they are read from a state file: deltas over the base, by whoever holds a transaction.

The base is a row per agent, and of compiled classes a block per bucket. A delta is one frame with
rows and blocks. Blocks are taken apart only for whoever asks for agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import apsw

from holdfast.engine.port import Change
from holdfast.engine.sqlite.blocks import list_blocks, read_block
from holdfast.engine.sqlite.checks import prove_absent, verified, verified_frame
from holdfast.engine.sqlite.files import damaged
from holdfast.engine.sqlite.standing import read_head
from holdfast.stepping.blocks import Block, bucket_of, newest_of, record_in, split_block
from holdfast.stepping.commit import Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.records import blocks_in, encoded_blocks, rows_in

Name = tuple[str, str]  # class and key


class Delta(NamedTuple):
    """What is kept in memory of a delta: its rows, and the keys of its blocks by class."""

    rows: dict[Name, Record]
    keys: dict[str, bytes]


def read_deltas(connection: apsw.Connection, path: Path) -> Iterator[tuple[int, Frame]]:
    """From old to new."""
    for row in connection.execute("SELECT * FROM delta ORDER BY id"):
        yield cast(int, row[0]), _frame(path, row)


def _frame(path: Path, row: Sequence[object]) -> Frame:
    verified_frame(path, f"delta {row[0]}", row)
    return Frame.decode(cast(bytes, row[1]))


class Images:
    """The newest image of each agent. Every call is inside a transaction of its caller."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._deltas: dict[int, Delta] = {}

    def record(self, agent: str, key: str) -> Record | None:
        """Deltas first, newest first, then the base. None also for one that is gone."""
        for delta_id in reversed(self._delta_ids()):
            delta = self._delta(delta_id)
            found = delta.rows.get((agent, key))
            if found is not None:
                return None if found.gone else found
            if key.encode() in delta.keys.get(agent, b""):
                found = self._in_delta(delta_id, agent, key)
                if found is not None:
                    return found
        row = self._connection.execute(
            "SELECT * FROM base WHERE agent=? AND key=?", (agent, key)
        ).fetchone()
        if row is not None:
            return self._base_record(row, (agent, key))
        place = (agent, bucket_of(key))
        if place in list_blocks(self._connection, self._path):
            block = Block.decode(read_block(self._connection, self._path, place))
            found = record_in(block, key)
            if found is not None:
                return found
        prove_absent(self._connection, self._path, "base", {"agent": agent, "key": key})
        return None

    def records(self, agent: str | None = None) -> list[Record]:
        """Every agent, in order of class and key."""
        newest = newest_of(each for each in self.everything() if agent in (None, each.agent))
        found = [record for record in newest.values() if not record.gone]
        found.sort(key=lambda r: (r.agent, r.key))
        return found

    def changes(self, since: int) -> Iterator[Change]:
        """Compaction takes the oldest deltas first: none is missing where an older one is left."""
        head = read_head(self._connection, self._path).head
        ids = self._delta_ids()
        later = [delta_id for delta_id in ids if delta_id > since]
        kept = len(later) < len(ids) or len(later) == head.commits - since
        whole = not (0 <= since <= head.commits and kept)
        yield Change(head=head, whole=whole)
        for each in self._everything() if whole else self._changes(later):
            yield Change(block=each) if isinstance(each, bytes) else Change(record=each)

    def everything(self) -> Iterator[Record | Block]:
        """All there is, in the order of applying: later ones win, and gone ones remove."""
        return map(_decoded, self._everything())

    def _everything(self) -> Iterator[Record | bytes]:
        yield from self._base_rows()
        yield from self._base_blocks()
        yield from self._changes(self._delta_ids())

    def _base_rows(self) -> Iterator[Record]:
        for row in self._connection.execute("SELECT * FROM base"):
            yield self._base_record(row, row[:2])

    def _base_blocks(self) -> Iterator[bytes]:
        for place in list_blocks(self._connection, self._path):
            yield read_block(self._connection, self._path, place)

    def _changes(self, delta_ids: Sequence[int]) -> Iterator[Record | bytes]:
        """What is in these deltas."""
        for delta_id in delta_ids:
            delta = self._delta(delta_id)
            if delta.keys:
                yield from encoded_blocks(self._read_delta(delta_id))
            yield from delta.rows.values()

    def divided(self) -> tuple[list[Record], list[Block]]:
        """Every agent once: in a block of the base if it has not changed since, else as a row."""
        changed = newest_of(map(_decoded, self._changes(self._delta_ids())))
        rows = {(r.agent, r.key): r for r in self._base_rows()} | changed
        blocks = []
        for block in map(Block.decode, self._base_blocks()):
            touched = {key for agent, key in changed if agent == block.agent}
            left = split_block(block, touched.__contains__).get(False) if touched else block
            blocks += [] if left is None else [left]
        return [row for row in rows.values() if not row.gone], blocks

    def loading(self) -> Iterator[Record | Block]:
        """All there is, for whoever reads after this transaction. Decoded one by one."""
        if not list_blocks(self._connection, self._path) and not any(
            self._delta(delta_id).keys for delta_id in self._delta_ids()
        ):
            return iter(self.records())
        return _given_out(deque(self._everything()))

    def _delta_ids(self) -> list[int]:
        rows = self._connection.execute("SELECT id FROM delta ORDER BY id").fetchall()
        ids = [cast(int, row[0]) for row in rows]
        if len(ids) != read_head(self._connection, self._path).deltas:
            raise damaged(self._path, "a delta of states is missing")
        for stale in self._deltas.keys() - set(ids):
            del self._deltas[stale]
        return ids

    def _delta(self, delta_id: int) -> Delta:
        found = self._deltas.get(delta_id)
        if found is None:
            frame = self._read_delta(delta_id)
            rows = {(r.agent, r.key): r for r in rows_in(frame)}
            keys = {block.agent: block.frame.opaque("key") for block in blocks_in(frame)}
            found = self._deltas[delta_id] = Delta(rows, keys)
        return found

    def _read_delta(self, delta_id: int) -> Frame:
        row = self._connection.execute("SELECT * FROM delta WHERE id=?", (delta_id,)).fetchone()
        if row is None or row[0] != delta_id:
            raise damaged(self._path, f"delta {delta_id} cannot be found")
        return _frame(self._path, row)

    def _in_delta(self, delta_id: int, agent: str, key: str) -> Record | None:
        for block in blocks_in(self._read_delta(delta_id)):
            if block.agent == agent:
                return record_in(block, key)
        return None

    def _base_record(self, row: Sequence[object], name: Sequence[object]) -> Record:
        if tuple(row[:2]) != tuple(name):  # a search in a damaged tree may end at any row
            raise damaged(self._path, f"the state of {name[0]}/{name[1]} is not where it was")
        return Record(*verified(self._path, f"the state of {row[0]}/{row[1]}", row))  # type: ignore[arg-type]


def _given_out(waiting: deque[Record | bytes]) -> Iterator[Record | Block]:
    """Each is let go of once it was given out: together they may be large."""
    while waiting:
        yield _decoded(waiting.popleft())


def _decoded(each: Record | bytes) -> Record | Block:
    return Block.decode(each) if isinstance(each, bytes) else each
