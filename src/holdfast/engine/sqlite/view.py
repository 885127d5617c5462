"""Committed reads of one partition, from any process, on connections that never block the owner."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import msgspec

from holdfast.engine.port import Change
from holdfast.engine.sqlite.checks import (
    check_of,
    check_structure,
    prove_absent,
    verified,
    verified_frame,
)
from holdfast.engine.sqlite.fates import all_compensations, all_fates, fates_of
from holdfast.engine.sqlite.files import damaged, explained, has_table, open_existing, undone
from holdfast.engine.sqlite.images import Images
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.locks import Witness
from holdfast.engine.sqlite.standing import about, owner_of, read_head
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import (
    Answer,
    Call,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.fates import Fates
from holdfast.stepping.inputs import StoredFrame

STRUCTURE_SECONDS = 60.0
_unpack_notes = msgspec.msgpack.Decoder(list[CommitNote]).decode
_Runs = list[tuple[int, int, float, bytes]]  # first, count, now, frame


class SqliteView:
    def __init__(self, folder: Path, inbox: SqliteInbox) -> None:
        self._path = folder / "state.db"
        self._inbox = inbox
        self._lock = threading.Lock()
        self._connection = open_existing(self._path)
        self._images = Images(self._connection, self._path)
        self._structure_seen: dict[str, float] = {}
        with undone(self._connection.close):
            self._check_witness(Witness(folder / "committed"))

    def _check_witness(self, witness: Witness) -> None:
        with closing(witness):
            seen = witness.seen()  # first, as commits go on
        found = self.head().commits
        if found < seen:
            raise damaged(Path(f"{self._path}-wal"), f"of {seen} commits {found} are left")

    def head(self) -> Head:
        with self._lock, explained(self._path):
            return read_head(self._connection, self._path)[0]

    def inbox_next(self) -> int:
        return self._inbox.head().next

    def urgent_next(self) -> int:
        return self._inbox.head().urgent

    def position_of(self, following: int) -> int:
        return following

    def inbox_first(self) -> int:
        return self._inbox.first_position()

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        return self._inbox.read(first, most)

    def marks(self) -> dict[str, int]:
        return self._inbox.marks()

    def incarnation(self) -> str:
        with self._lock, explained(self._path):
            return about(self._connection)["incarnation"]

    def generation(self) -> int:
        """How new the classes are that have folded here; 0 before the first."""
        with self._lock, explained(self._path):
            return int(about(self._connection)["generation"])

    def is_retired(self) -> bool:
        with self._lock, explained(self._path):
            return "retired" in about(self._connection)

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

    # States.

    def record(self, agent: str, key: str) -> Record | None:
        with self._one_moment():
            found = self._images.record(agent, key)
            if found is None:
                self._check_structure_of("base")
            return found

    def records(self, agent: str | None = None) -> Iterator[Record]:
        """Every agent, as of one commit, in order of class and key."""
        with self._one_moment():
            self._check_structure_of("base")
            return iter(self._images.records(agent))

    def changes(self, since: int) -> Iterator[Change]:
        """From the deltas where all that came behind `since` are still there, else everything."""
        with self._one_moment():
            found = list(self._images.changes(since))
            if found[0].whole:
                self._check_structure_of("base")
            return iter(found)

    def divided(self) -> tuple[list[Record], list[Block]]:
        """Every agent once, as of one commit: some in blocks, the others as rows."""
        with self._one_moment():
            return self._images.divided()

    def everything(self) -> Iterator[Record | Block]:
        """The same as of one commit, in the order of applying, for whoever can do with blocks."""
        with self._one_moment():
            self._check_structure_of("base")
            return self._images.loading()

    # Outputs.

    def actions(self, first: int, most: int) -> list[Issued]:
        return [Issued(*row) for row in self._run("actions", first, most)]

    def journal(self, first: int, most: int) -> list[Journalled]:
        rows = self._run("journal", first, most)
        return [Journalled(first, count, frame) for first, count, _, frame in rows]

    def commits(self, first: int, most: int) -> list[CommitNote]:
        with self._one_moment():
            if not has_table(self._connection, "commits"):
                return []
            self._check_structure_of("commits")
            rows = self._connection.execute(
                "SELECT * FROM commits WHERE first >= coalesce("
                "(SELECT max(first) FROM commits WHERE first <= ?), 0) ORDER BY first LIMIT ?",
                (first, most),
            ).fetchall()
            standing = read_head(self._connection, self._path)
        packed = [verified(self._path, f"notes {row[0]}", row)[3] for row in rows]
        if len(rows) < most:
            packed.append(standing.notes)
        found = [note for run in packed for note in _unpack_notes(cast(bytes, run))]
        notes = [note for note in found if note.number >= first][:most]
        # Retention, and releases that made none, leave out the oldest only.
        start = notes[0].number if notes else 0
        wanted = range(start, min(standing.head.commits + 1, start + most)) if notes else range(0)
        if [note.number for note in notes] != list(wanted):
            raise damaged(self._path, "notes of commits are missing")
        return notes

    def _run(self, table: str, first: int, most: int) -> _Runs:
        """Rows from the one that holds `first` on. Only retention may have taken the oldest."""
        query = (
            f"SELECT first, count, now, frame, sum FROM {table} WHERE first >= "
            f"coalesce((SELECT max(first) FROM {table} WHERE first <= ?), 0) "
            "ORDER BY first LIMIT ?"
        )
        with self._one_moment():
            head = read_head(self._connection, self._path).head
            end = head.actions_next if table == "actions" else head.journal_next
            if first >= end:
                return []
            rows = self._connection.execute(query, (first, most)).fetchall()
            if not rows or cast(int, rows[0][0]) > first:
                self._check_structure_of(table)
        runs: _Runs = []
        reached = first
        for row in rows:
            verified_frame(self._path, f"{table} {row[0]}", row)
            run = cast("tuple[int, int, float, bytes]", row[:4])
            if (runs and run[0] != reached) or run[0] + run[1] <= first:
                raise damaged(self._path, f"some {table} from {reached} on are missing")
            reached = run[0] + run[1]
            runs.append(run)
        if runs and len(runs) < most and reached != end:
            raise damaged(self._path, f"{table} from {reached} to {end} are missing")
        return runs

    def letters(self) -> list[tuple[Letter, bool]]:
        with self._one_moment():
            rows = self._connection.execute("SELECT * FROM letters ORDER BY id").fetchall()
            following = read_head(self._connection, self._path).head.letters_next
        if len(rows) != following - 1:
            raise damaged(self._path, f"of {following - 1} dead letters {len(rows)} are here")
        return [self._letter(row) for row in rows]

    def letter(self, letter_id: int) -> Letter | None:
        """The letter, unless it was redriven already."""
        with self._one_moment():
            query = "SELECT * FROM letters WHERE id=?"
            row = self._connection.execute(query, (letter_id,)).fetchone()
            following = read_head(self._connection, self._path).head.letters_next
        if row is None:
            if 1 <= letter_id < following:
                raise damaged(self._path, f"dead letter {letter_id} is missing")
            return None
        letter, redriven = self._letter(row)
        if letter.id != letter_id:
            raise damaged(self._path, f"dead letter {letter_id} is not where it was")
        return None if redriven else letter

    def _letter(self, row: Sequence[object]) -> tuple[Letter, bool]:
        number, redriven, body, check = cast(tuple[int, int, bytes, int], row)
        if redriven not in (0, 1) or check_of(number, body) + redriven != check:
            raise damaged(self._path, f"dead letter {number} does not match its checksum")
        return msgspec.msgpack.decode(body, type=Letter), bool(redriven)

    def answer(self, position: int) -> Answer | None:
        with self._one_moment():
            query = "SELECT * FROM answers WHERE position=?"
            row = self._connection.execute(query, (position,)).fetchone()
            if row is None:
                prove_absent(self._connection, self._path, "answers", {"position": position})
                self._check_structure_of("answers")
                return None
        found, _, body = verified(self._path, f"the answer at {position}", row)
        if found != position:
            raise damaged(self._path, f"the answer at {position} is not where it was")
        return msgspec.msgpack.decode(cast(bytes, body), type=Answer)

    def calls(self, after: int, most: int) -> list[Call]:
        query = "SELECT * FROM calls WHERE number>? ORDER BY number LIMIT ?"
        with self._one_moment():
            if not has_table(self._connection, "calls"):
                return []  # an older release has written it, and nobody has claimed it since
            self._check_structure_of("calls")
            rows = self._connection.execute(query, (after, most)).fetchall()
        bodies = [verified(self._path, f"call {row[0]}", row)[2] for row in rows]
        return [msgspec.msgpack.decode(cast(bytes, body), type=Call) for body in bodies]

    def fates(self) -> list[Fate]:
        with self._one_moment():
            if has_table(self._connection, "fates"):
                self._check_structure_of("fates")
                return all_fates(self._connection, self._path)
            if not has_table(self._connection, "undone"):
                return []
            self._check_structure_of("undone")
            return all_compensations(self._connection, self._path)

    def fates_of(self, ids: Sequence[str]) -> list[Fate]:
        wanted = list(dict.fromkeys(ids))
        with self._one_moment():
            if has_table(self._connection, "fates"):
                each = (fates_of(self._connection, self._path, id) for id in wanted)
                return [fate for found in each for fate in found]
        older = Fates(self.fates())
        return older.of(wanted)

    def sent_next(self) -> dict[int, int]:
        with self._lock, explained(self._path):
            self._check_structure_of("sent")
            rows = self._connection.execute("SELECT * FROM sent").fetchall()
        pairs = [verified(self._path, "a counter of messages", row) for row in rows]
        return {cast(int, destination): cast(int, number) for destination, number in pairs}

    def outbox(self) -> list[tuple[int, int, int, bytes]]:
        with self._lock, explained(self._path):
            self._check_structure_of("outbox")
            rows = self._connection.execute(
                "SELECT destination, first, count, frame, sum FROM outbox ORDER BY id"
            ).fetchall()
        for row in rows:
            verified_frame(self._path, f"messages {row[1]} to partition {row[0]}", row)
        return cast(list[tuple[int, int, int, bytes]], [row[:4] for row in rows])

    def check(self) -> None:
        """No page of the file has lost its way: for whoever is going to build on it."""
        with self._lock, explained(self._path):
            check_structure(self._connection, self._path)

    def _check_structure_of(self, table: str) -> None:
        """Now and then: it reads the whole table, and what rots does so slowly."""
        now = time.monotonic()
        if now - self._structure_seen.get(table, -STRUCTURE_SECONDS) >= STRUCTURE_SECONDS:
            check_structure(self._connection, self._path, table)
            self._structure_seen[table] = now

    def close(self) -> None:
        with self._lock:
            self._connection.close()
