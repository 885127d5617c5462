"""The state file of a partition: claims, commits and compaction. Written by its owner alone.

States are a base (a row per agent, blocks of compiled ones) and a bounded run of deltas (a frame
per commit). A commit adds one delta; compaction, outside any commit, moves the newest image of each
changed agent to the base.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import apsw
import msgspec

from holdfast.engine.deaths import Deaths
from holdfast.engine.faults import FaultPoints
from holdfast.engine.port import Claim, Images, no_images
from holdfast.engine.sqlite.blocks import sizes_of_blocks
from holdfast.engine.sqlite.checks import check_of, frame_check
from holdfast.engine.sqlite.compacting import Compaction
from holdfast.engine.sqlite.deltas import DeltaRun
from holdfast.engine.sqlite.fates import PUT_FATE, fate_row
from holdfast.engine.sqlite.files import (
    BUSY_MILLISECONDS,
    damaged,
    explained,
    open_existing,
    transaction,
    undone,
)
from holdfast.engine.sqlite.images import read_deltas
from holdfast.engine.sqlite.locks import ProcessIdentity, Witness
from holdfast.engine.sqlite.standing import (
    Standing,
    about,
    bring_up_to_date,
    owner_of,
    put_about,
    put_head,
    read_head,
)
from holdfast.errors import Fenced, HoldfastError, OutdatedCode
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Call, Commit, CommitNote, Head, Record
from holdfast.stepping.records import blocks_in, rows_in

LEASE_SECONDS = 1.0  # a transaction held longer than this belongs to a worker that hangs
FORGET_ROWS = 1_000  # deleted in one transaction: a commit may wait for it
ANSWER_SECONDS = 600.0  # nobody waits longer for the answer to an ask

NOTES_PER_ROW = 32  # more make every commit rewrite more, fewer write pages of notes more often
Rows = list[tuple[object, ...]]
_log = logging.getLogger("holdfast.engine")
_pack = msgspec.msgpack.Encoder().encode
_unpack_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class SqliteState:
    """The owner's side. Readers have connections of their own (view.py)."""

    def __init__(self, folder: Path, faults: FaultPoints) -> None:
        self.path = folder / "state.db"
        self._faults = faults
        self._lock = threading.Lock()
        self._connection = open_existing(self.path)
        with undone(self._connection.close), explained(folder):
            self._witness = Witness(folder / "committed")
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            with undone(self._witness.close):
                self._marker = os.open(folder / "folding", flags, 0o644)
        self._deltas = DeltaRun()
        self.predecessor: ProcessIdentity | None = None  # who owned it before the claim

    # Claiming.

    def claim(self, partition: int, generation: int, prepare: Callable[[], None]) -> Claim:
        """Take the partition over. Whoever held it before is refused at its next commit.

        `prepare` runs while nobody else can claim it, rescale it or commit to it.
        """
        with self._lock, explained(self.path):
            self._begin_or_end_the_holder()
            with transaction(self._connection):
                claim = self._claim(partition, generation, prepare)
            self._count_deltas()
        self.folding(None)
        return claim

    def _begin_or_end_the_holder(self) -> None:
        """A transaction held past the lease is a hung worker's: end it by pid and start time."""
        self._connection.set_busy_timeout(int(LEASE_SECONDS * 1000))
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            owner = owner_of(about(self._connection))
            if owner is None or owner == ProcessIdentity.own():
                raise
            owner.end()
            self._connection.execute("BEGIN IMMEDIATE")
        finally:
            self._connection.set_busy_timeout(BUSY_MILLISECONDS)

    def _claim(self, partition: int, generation: int, prepare: Callable[[], None]) -> Claim:
        facts = about(self._connection)
        self.predecessor = owner_of(facts)
        stored_generation = int(facts["generation"])
        if stored_generation > generation:
            raise OutdatedCode(
                f"{self.path}: newer classes have folded here (schema generation "
                f"{stored_generation}, this program has {generation}): run the newer program"
            )
        standing = read_head(self._connection, self.path)
        head = standing.head
        if head.commits < self._witness.seen():
            wal = Path(f"{self.path}-wal")
            raise damaged(wal, f"of {self._witness.seen()} commits {head.commits} are left")
        prepare()
        bring_up_to_date(self._connection, self.path)
        before = Deaths(*map(int, facts["claimed"].split()))
        deaths = before.found(self._marked(), head.position, head.urgent)
        epoch = standing.epoch + 1
        put_head(self._connection, standing._replace(epoch=epoch))
        claimed: dict[str, str | int] = {
            "generation": generation,
            "owner": " ".join(map(str, ProcessIdentity.own())),
            "claimed": " ".join(map(str, deaths)),
        }
        put_about(self._connection, claimed)
        told = (deaths.attempts, deaths.alone, deaths.urgent)
        return Claim(partition, epoch, facts["incarnation"], *told)

    def folding(self, position: int | None) -> None:
        """Not synced: it has to outlive the process, not the machine."""
        try:
            os.pwrite(self._marker, f"{'' if position is None else position:<20}".encode(), 0)
        except OSError:
            pass  # on a full disk deaths stay uncounted; folding must not fail for that

    def _marked(self) -> int | None:
        text = os.pread(self._marker, 20, 0).strip()
        return int(text) if text.isdigit() else None

    # Rescaling.

    @contextmanager
    def held(self, claim: Claim) -> Iterator[None]:
        """Nobody claims or commits meanwhile. Fenced if somebody did before."""
        with self._lock, explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_epoch(claim)
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def retire(self) -> None:
        """While it is held: no claim is good any more, and there will be none."""
        with explained(self.path):
            standing = read_head(self._connection, self.path)
            put_head(self._connection, standing._replace(epoch=standing.epoch + 1))
            put_about(self._connection, {"retired": 1})
            self._connection.execute("COMMIT")

    # Committing.

    def commit(self, claim: Claim, commit: Commit) -> None:
        """1 begin, 2 check the fence, 3 write everything, 4 make it durable."""
        letters: Rows = [
            (x.id, 0, body, check_of(x.id, body)) for x in commit.letters if (body := _pack(x))
        ]
        answers: Rows = [
            (a.position, a.now, body, check_of(a.position, a.now, body))
            for a in commit.answers
            if (body := _pack(a))
        ]
        calls: Rows = [call_row(call) for call in commit.calls]
        with self._lock, explained(self.path):
            self._faults("commit.before")
            with transaction(self._connection):
                standing = self._check_epoch(claim)
                if self._is_done(standing.head, commit):
                    return
                self._write(commit, letters, answers)
                self._write_calls(commit.closed, calls)
                notes = self._noted(standing.notes, commit.note)
                count = self._deltas.count + bool(commit.delta)
                put_head(self._connection, Standing(commit.head, claim.epoch, count, notes))
                self._faults("commit.inside")
            self._witness.note(commit.head.commits)
            self._faults("commit.after")
            self._deltas.add(commit)

    def _is_done(self, head: Head, commit: Commit) -> bool:
        """True for a commit that stands already."""
        if head == commit.before:
            return False
        if head == commit.head:
            self._count_deltas()  # it was durable although it raised: nobody counted its delta
            return True
        raise damaged(self.path, f"the head is {head}, the commit expects {commit.before}")

    def _noted(self, packed: bytes, note: CommitNote | None) -> bytes:
        """The newest notes are in the head; enough of them together become a row."""
        if note is None:
            return packed
        notes = [*_unpack_raw(packed), msgspec.Raw(_pack(note))]
        if len(notes) < NOTES_PER_ROW:
            return _pack(notes)
        row = (note.number + 1 - len(notes), len(notes), note.now, _pack(notes))
        sql = "INSERT INTO commits VALUES(?, ?, ?, ?, ?)"
        self._connection.execute(sql, (*row, check_of(*row)))
        return _pack([])

    def _check_epoch(self, claim: Claim) -> Standing:
        standing = read_head(self._connection, self.path)
        if standing.epoch != claim.epoch:
            raise Fenced(
                f"{self.path}: epoch {standing.epoch} owns this partition, we have {claim.epoch}: "
                "another worker took over; this one stops"
            )
        return standing

    def _write(self, commit: Commit, letters: Rows, answers: Rows) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        if commit.delta:
            number = commit.head.commits
            row = (number, commit.delta, frame_check((number,), commit.delta))
            execute("INSERT INTO delta VALUES(?, ?, ?)", row)
        self._write_outputs(commit)
        if letters:
            many("INSERT INTO letters VALUES(?, ?, ?, ?)", letters)
        if commit.redriven:
            # The flag is part of the checksum, by the simplest of sums.
            again = "UPDATE letters SET redriven=1, sum=sum+1 WHERE id=? AND redriven=0"
            many(again, [(letter_id,) for letter_id in commit.redriven])
        if commit.fates:
            many(PUT_FATE, map(fate_row, commit.fates))
        if answers:
            many("REPLACE INTO answers VALUES(?, ?, ?, ?)", answers)

    def _write_calls(self, closed: list[str], calls: Rows) -> None:
        if calls:
            self._connection.executemany("INSERT INTO calls VALUES(?, ?, ?, ?)", calls)
        for call_id in closed:
            self._connection.execute("DELETE FROM calls WHERE id=?", (call_id,))
            if self._connection.changes() != 1:  # left behind, it would be run for ever
                raise damaged(self.path, f"call {call_id} is not where it was")

    def _write_outputs(self, commit: Commit) -> None:
        execute = self._connection.execute
        for out in commit.outgoing:
            columns = (out.destination, out.first, out.count)
            execute(
                "INSERT INTO outbox(destination, first, count, frame, sum) VALUES(?, ?, ?, ?, ?)",
                (*columns, out.frame, frame_check(columns, out.frame)),
            )
        for destination, number in commit.sent_next.items():
            sent = (destination, number, check_of(destination, number))
            execute("REPLACE INTO sent VALUES(?, ?, ?)", sent)
        for relayed in commit.relayed.items():
            execute("DELETE FROM outbox WHERE destination=? AND first<=?", relayed)
        if commit.issued is not None:
            one = commit.issued
            issued = (one.first, one.count, one.now)
            row = (*issued, one.frame, frame_check(issued, one.frame))
            execute("INSERT INTO actions VALUES(?, ?, ?, ?, ?)", row)
        if commit.journalled is not None:
            fired = commit.journalled
            journalled = (fired.first, fired.count, commit.head.now)
            row = (*journalled, fired.frame, frame_check(journalled, fired.frame))
            execute("INSERT INTO journal VALUES(?, ?, ?, ?, ?)", row)

    # Compaction: bounded work, on the owner's thread, between commits.

    def _count_deltas(self) -> None:
        row = self._connection.execute(
            "SELECT count(*), coalesce(sum(length(frame)), 0) FROM delta"
        ).fetchone()
        self._deltas.start(*cast(tuple[int, int], row), sizes_of_blocks(self._connection))

    @property
    def wants_compaction(self) -> bool:
        return self._deltas.full

    def try_to_compact(self, claim: Claim, images: Images) -> None:
        """The commit stands, so whoever made it must not hear of a compaction that cannot be.

        Not even that it is fenced: it hears that at its next commit.
        """
        try:
            self.compact(claim, images)
        except HoldfastError as trouble:
            _log.warning("compaction waits for the next commit: %s", trouble)

    def compact(self, claim: Claim, images: Images = no_images) -> None:
        """Move images from the oldest deltas to the base, or some of them: it is called again."""
        with self._lock, explained(self.path):
            part = self._deltas.next_part(self._read_all)
            with transaction(self._connection):
                standing = self._check_epoch(claim)
                compaction = Compaction(self._connection, self.path)
                if part.places and not compaction.renew(part.places, images):
                    self._deltas.obscure()
                    part = self._deltas.next_part(self._read_all)
                if not part.places:
                    compaction.move(part.items, images)
                if part.deltas:
                    self._connection.execute("DELETE FROM delta WHERE id<=?", (part.last_id,))
                    left = standing.deltas - part.deltas
                    put_head(self._connection, standing._replace(deltas=left))
                sizes = sizes_of_blocks(self._connection)
                self._faults("compact.inside")
            self._deltas.moved(part, sizes)

    def _read_all(self) -> Iterator[Record | Block]:
        for _, frame in read_deltas(self._connection, self.path):
            yield from blocks_in(frame)
            yield from rows_in(frame)

    def forget_before(self, claim: Claim, wall: float) -> None:
        """Retention of outputs that subscribers had their time to read, the oldest first."""
        with self._lock, explained(self.path):
            now = read_head(self._connection, self.path).head.now
        asked = max(wall, now - ANSWER_SECONDS)
        for table, key, oldest in (
            ("actions", "first", wall),
            ("journal", "first", wall),
            ("commits", "first", wall),
            ("fates", "number", wall),
            ("answers", "position", asked),
        ):
            while self._forget_some(claim, table, key, oldest) == FORGET_ROWS:
                pass  # commits have their turn in between

    def _forget_some(self, claim: Claim, table: str, key: str, oldest: float) -> int:
        """Times grow with the keys, so the oldest rows are found without looking at the others."""
        some = f"SELECT {key} FROM {table} ORDER BY {key} LIMIT {FORGET_ROWS}"
        with self._lock, explained(self.path), transaction(self._connection):
            if read_head(self._connection, self.path).epoch != claim.epoch:
                return 0
            query = f"DELETE FROM {table} WHERE {key} IN ({some}) AND now<?"
            self._connection.execute(query, (oldest,))
            return self._connection.changes()

    def finish_checkpoint(self, cut: bool) -> None:
        """The last few pages, between two commits.

        SQLite begins a WAL anew only when it finds all of it checkpointed, which never happens
        beside a busy worker, and the file would grow without end. It is not cut unless it has to
        be: writing over a file costs a sync less than making it longer.
        """
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if cut else apsw.SQLITE_CHECKPOINT_PASSIVE
        with self._lock, explained(self.path):
            self._connection.set_busy_timeout(0)
            try:
                self._connection.wal_checkpoint(mode=mode)
            except apsw.BusyError:
                pass  # somebody reads what is in it; upkeep comes again
            finally:
                self._connection.set_busy_timeout(BUSY_MILLISECONDS)

    def release(self, claim: Claim) -> None:
        """A clean end: nobody died here, so nothing counts as an attempt."""
        self.folding(None)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._witness.close()
            os.close(self._marker)


def call_row(call: Call) -> tuple[object, ...]:
    body = _pack(call)
    return call.number, call.id, body, check_of(call.number, call.id, body)


def checkpoint(path: Path) -> None:
    """Move the WAL of a state file into it, from a connection of its own, waiting for nobody."""
    with closing(open_existing(path)) as connection, explained(path):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
