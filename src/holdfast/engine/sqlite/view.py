"""Committed reads of one partition, from any process, on connections that never block the owner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from holdfast.engine.sqlite.checks import check_of, verified
from holdfast.engine.sqlite.files import damaged, explained, open_existing
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.state import about, owner_of, read_head
from holdfast.stepping.cell import read_delta
from holdfast.stepping.commit import Answer, Head, Issued, Journalled, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame

T = TypeVar("T")
_Runs = list[tuple[int, int, float, bytes]]  # first, count, now, frame


class SqliteView:
    def __init__(self, folder: Path, inbox: SqliteInbox) -> None:
        self._path = folder / "state.db"
        self._inbox = inbox
        self._lock = threading.Lock()
        self._connection = open_existing(self._path)
        self._deltas: dict[int, dict[tuple[str, str], Record]] = {}

    def head(self) -> Head:
        with self._lock, explained(self._path):
            return read_head(self._connection, self._path)[0]

    def inbox_next(self) -> int:
        return self._inbox.head().next

    def inbox_first(self) -> int:
        return self._inbox.first_position()

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        return self._inbox.read(first, most)

    def marks(self) -> dict[str, int]:
        return self._inbox.marks()

    def incarnation(self) -> str:
        with self._lock, explained(self._path):
            return about(self._connection)["incarnation"]

    def owner(self) -> str:
        with self._lock, explained(self._path):
            owner = owner_of(about(self._connection))
        return f"process {owner.pid}" if owner is not None and owner.alive else ""

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """One read transaction: several queries see the same commit."""
        with self._lock, explained(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("COMMIT")

    # States: deltas first, newest first, then the base; one read transaction for both.

    def record(self, agent: str, key: str) -> Record | None:
        with self._one_moment():
            for delta_id in self._delta_ids(newest_first=True):
                found = self._delta(delta_id).get((agent, key))
                if found is not None:
                    return None if found.gone else found
            row = self._connection.execute(
                "SELECT * FROM base WHERE agent=? AND key=?", (agent, key)
            ).fetchone()
            return None if row is None else self._base_record(row)

    def records(self, agent: str | None = None) -> Iterator[Record]:
        """Every agent, as of one commit, in order of class and key."""
        with self._one_moment():
            changed = self._changed()
            everything = [
                record
                for row in self._connection.execute("SELECT * FROM base")
                if (row[0], row[1]) not in changed
                for record in [self._base_record(row)]
            ]
        everything += [r for r in changed.values() if not r.gone]
        everything.sort(key=lambda r: (r.agent, r.key))
        return iter([r for r in everything if agent in (None, r.agent)])

    def delta_records(self) -> list[Record]:
        """Agents whose newest image is in a delta; gone ones too."""
        with self._one_moment():
            return list(self._changed().values())

    def _changed(self) -> dict[tuple[str, str], Record]:
        changed: dict[tuple[str, str], Record] = {}
        for delta_id in self._delta_ids(newest_first=False):
            changed.update(self._delta(delta_id))
        return changed

    def _delta_ids(self, *, newest_first: bool) -> list[int]:
        order = "DESC" if newest_first else "ASC"
        rows = self._connection.execute(f"SELECT id FROM delta ORDER BY id {order}").fetchall()
        ids = [cast(int, row[0]) for row in rows]
        for stale in self._deltas.keys() - set(ids):
            del self._deltas[stale]
        return ids

    def _delta(self, delta_id: int) -> dict[tuple[str, str], Record]:
        found = self._deltas.get(delta_id)
        if found is None:
            frame = self._connection.execute("SELECT frame FROM delta WHERE id=?", (delta_id,)).get
            records = self._checked(f"delta {delta_id}", frame)
            found = {(r.agent, r.key): r for r in read_delta(records)}
            self._deltas[delta_id] = found
        return found

    def _checked(self, what: str, frame: bytes) -> Frame:
        try:
            return Frame.decode(frame)
        except Exception as error:
            raise damaged(self._path, f"{what}: {error}") from None

    def _base_record(self, row: tuple[object, ...]) -> Record:
        return Record(*verified(self._path, f"the state of {row[0]}/{row[1]}", row))  # type: ignore[arg-type]

    # Outputs.

    def actions(self, first: int, most: int) -> list[Issued]:
        return [Issued(*row) for row in self._run("actions", first, most)]

    def journal(self, first: int, most: int) -> list[Journalled]:
        rows = self._run("journal", first, most)
        return [Journalled(first, count, frame) for first, count, _, frame in rows]

    def _run(self, table: str, first: int, most: int) -> _Runs:
        query = (
            f"SELECT first, count, now, frame FROM {table} WHERE first >= "
            f"coalesce((SELECT max(first) FROM {table} WHERE first <= ?), 0) "
            "ORDER BY first LIMIT ?"
        )
        with self._lock, explained(self._path):
            rows = cast(_Runs, self._connection.execute(query, (first, most)).fetchall())
        return [row for row in rows if row[0] + row[1] > first]

    def letters(self) -> list[tuple[Letter, bool]]:
        with self._lock, explained(self._path):
            rows = cast(
                list[tuple[int, int, bytes, int]],
                self._connection.execute("SELECT * FROM letters ORDER BY id").fetchall(),
            )
        return [
            (self._body(f"dead letter {row[0]}", row[0], row[2], row[3], Letter), bool(row[1]))
            for row in rows
        ]

    def letter(self, letter_id: int) -> Letter | None:
        """The letter, unless it was redriven already."""
        with self._lock, explained(self._path):
            row = self._connection.execute(
                "SELECT id, body, sum FROM letters WHERE id=? AND redriven=0", (letter_id,)
            ).fetchone()
        return row and self._body(f"dead letter {letter_id}", row[0], row[1], row[2], Letter)

    def answer(self, position: int) -> Answer | None:
        with self._lock, explained(self._path):
            row = self._connection.execute(
                "SELECT position, body, sum FROM answers WHERE position=?", (position,)
            ).fetchone()
        return row and self._body(f"the answer at {position}", row[0], row[1], row[2], Answer)

    def _body(self, what: str, number: int, body: bytes, check: int, kind: type[T]) -> T:
        if check_of(number, body) != check:
            raise damaged(self._path, f"{what} does not match its checksum")
        return msgspec.msgpack.decode(body, type=kind)

    def sent_next(self) -> dict[int, int]:
        with self._lock, explained(self._path):
            rows = self._connection.execute("SELECT * FROM sent").fetchall()
        pairs = [verified(self._path, "a counter of messages", row) for row in rows]
        return {cast(int, destination): cast(int, number) for destination, number in pairs}

    def outbox(self) -> list[tuple[int, int, int, bytes]]:
        with self._lock, explained(self._path):
            rows = self._connection.execute(
                "SELECT destination, first, count, frame FROM outbox ORDER BY id"
            ).fetchall()
        return cast(list[tuple[int, int, int, bytes]], rows)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
