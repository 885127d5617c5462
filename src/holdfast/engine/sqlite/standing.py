"""What a state file says of itself: its tables, its head, its owner and other facts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import apsw
import msgspec

from holdfast.engine.sqlite.checks import check_of, verified
from holdfast.engine.sqlite.fates import FATES, PUT_FATE, all_compensations, fate_row
from holdfast.engine.sqlite.files import (
    STATE_FORMAT,
    create,
    damaged,
    explained,
    extend,
    has_table,
    open_existing,
)
from holdfast.engine.sqlite.locks import ProcessIdentity
from holdfast.stepping.commit import Head

_HEAD = """
CREATE TABLE head(
    one INTEGER PRIMARY KEY CHECK(one = 1), position INTEGER, now REAL, actions_next INTEGER,
    letters_next INTEGER, journal_next INTEGER, commits INTEGER, calls_next INTEGER,
    ground_stop TEXT, urgent INTEGER, epoch INTEGER, deltas INTEGER, notes BLOB, sum INTEGER
);
"""
_CALLS = """
CREATE TABLE calls(number INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB NOT NULL, sum INTEGER);
"""
_TABLES = """
CREATE TABLE about(name TEXT PRIMARY KEY, value NOT NULL, sum INTEGER) WITHOUT ROWID;
CREATE TABLE base(
    agent TEXT, key TEXT, version INTEGER, schema INTEGER, state BLOB, extras BLOB, updated REAL,
    sum INTEGER, PRIMARY KEY(agent, key)
) WITHOUT ROWID;
CREATE TABLE delta(id INTEGER PRIMARY KEY, frame BLOB NOT NULL, sum INTEGER);
CREATE TABLE sent(destination INTEGER PRIMARY KEY, next INTEGER NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE outbox(
    id INTEGER PRIMARY KEY, destination INTEGER NOT NULL, first INTEGER NOT NULL,
    count INTEGER NOT NULL, frame BLOB NOT NULL, sum INTEGER
);
CREATE TABLE actions(
    first INTEGER PRIMARY KEY, count INTEGER, now REAL, frame BLOB NOT NULL, sum INTEGER
);
CREATE TABLE journal(
    first INTEGER PRIMARY KEY, count INTEGER, now REAL, frame BLOB NOT NULL, sum INTEGER
);
CREATE TABLE letters(id INTEGER PRIMARY KEY, redriven INTEGER NOT NULL, body BLOB, sum INTEGER);
CREATE TABLE answers(position INTEGER PRIMARY KEY, now REAL, body BLOB NOT NULL, sum INTEGER);
"""
_COMMITS = """
CREATE TABLE commits(first INTEGER PRIMARY KEY, count INTEGER, now REAL, notes BLOB, sum INTEGER);
"""
_BLOCKS = """
CREATE TABLE blocks(
    agent TEXT, bucket INTEGER, frame BLOB NOT NULL, sum INTEGER, PRIMARY KEY(agent, bucket)
);
"""
_NO_NOTES = msgspec.msgpack.encode([])


class Standing(NamedTuple):
    """The head as stored: beside where the partition stands, who may move it."""

    head: Head
    epoch: int
    deltas: int  # so many rows of deltas there are: a lost one is missed
    notes: bytes = _NO_NOTES  # of the newest commits: here they cost no page of their own


def put_head(connection: apsw.Connection, standing: Standing) -> None:
    values = (1, *standing.head, standing.epoch, standing.deltas, standing.notes)
    row = (*values, check_of(*values))
    connection.execute("REPLACE INTO head VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def read_head(connection: apsw.Connection, path: Path) -> Standing:
    row = connection.execute("SELECT * FROM head").fetchone()
    if row is None:
        raise damaged(path, "the head is missing")
    values = verified(path, "the head", row)
    if not isinstance(values[-1], bytes):
        values = (*values, _NO_NOTES)  # of an older release
    *head, epoch, deltas = cast(tuple[int, ...], values[1:-1])
    # Of an older release: defaults for the rest.
    return Standing(Head(*head), epoch, deltas, cast(bytes, values[-1]))  # type: ignore[arg-type]


def bring_up_to_date(connection: apsw.Connection, path: Path) -> None:
    """Give the file of an older release the tables it lacks, inside the transaction of a claim."""
    if "urgent" in columns_of(connection, "head"):
        return
    standing = read_head(connection, path)
    later = {"calls": _CALLS, "commits": _COMMITS, "blocks": _BLOCKS, "fates": FATES}
    lacking = [script for table, script in later.items() if not has_table(connection, table)]
    known = has_table(connection, "undone")
    compensated = all_compensations(connection, path) if known else []
    gone = "DROP TABLE head;" + ("DROP TABLE undone;" if known else "")
    extend(connection, gone + _HEAD + "".join(lacking), STATE_FORMAT)
    connection.executemany(PUT_FATE, map(fate_row, compensated))
    put_head(connection, standing)


def columns_of(connection: apsw.Connection, table: str) -> list[str]:
    rows = connection.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall()
    return [cast(str, row[0]) for row in rows]


def put_about(connection: apsw.Connection, facts: dict[str, str | int]) -> None:
    rows = [(name, value, check_of(name, value)) for name, value in facts.items()]
    connection.executemany("REPLACE INTO about VALUES(?, ?, ?)", rows)


def about(connection: apsw.Connection) -> dict[str, str]:
    path = Path(connection.filename)
    with explained(path):
        rows = connection.execute("SELECT * FROM about").fetchall()
    pairs = [verified(path, "a row of about", row) for row in rows]
    facts = {cast(str, name): cast(str, value) for name, value in pairs}
    if not {"incarnation", "generation", "owner", "claimed"} <= facts.keys():
        raise damaged(path, "a row of about is missing")
    return facts


def begin_state(
    path: Path, incarnation: str, generation: int = 0, head: Head | None = None
) -> apsw.Connection:
    """A new state file, to be filled and published."""
    connection = create(path, _TABLES + _HEAD + _CALLS + _COMMITS + _BLOCKS + FATES)
    facts: dict[str, str | int] = {
        "incarnation": incarnation,
        "generation": generation,
        "owner": "",
        "claimed": "",
    }
    put_about(connection, facts)
    put_head(connection, Standing(head or Head(), epoch=0, deltas=0))
    return connection


def is_unclaimed(path: Path, *, empty: bool) -> bool:
    """Whether nobody has ever claimed this state, and with `empty`, it has inherited nothing."""
    connection = open_existing(path)
    try:
        standing = read_head(connection, path)
        return standing.epoch == 0 and (standing.head == Head() or not empty)
    finally:
        connection.close()


def owner_of(facts: dict[str, str]) -> ProcessIdentity | None:
    parts = facts.get("owner", "").split(" ")
    if len(parts) != 3 or not parts[0].isdigit():
        return None
    return ProcessIdentity(int(parts[0]), int(parts[1]), parts[2])
