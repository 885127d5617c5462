"""Changing stored data so that every checksum and counter still fits.

What these functions leave behind is no damage that an engine would notice: it is a log, a state or
an output that is well-formed and not true. Works on the copy of a small demo that stopped cleanly.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import apsw
import msgspec

from holdfast.engine.sqlite.checks import frame_check
from holdfast.engine.sqlite.files import open_existing
from holdfast.engine.sqlite.segment import Segment, list_segments
from holdfast.engine.sqlite.standing import put_head, read_head
from holdfast.engine.urls import open_engine
from holdfast.stepping.frame import Frame, integers, rows
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.records import delta_frame
from holdfast.stepping.rows import raw_payload, read_raw_payload, select

Choose = Callable[[Frame], bool]


def copy_of(data: Path, place: Path) -> Path:
    # Without the witnesses of how far the files had come: they would call it damage, and name it.
    shutil.copytree(data, place, ignore=shutil.ignore_patterns("appended", "committed"))
    return place


def external(frame: Frame) -> bool:
    return frame.constant("origin") == "external"


def message(frame: Frame) -> bool:
    return frame.constant("origin") == "message"


class Inbox:
    """All frames of the first partition's inbox, to be edited and written back."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "p000"
        names = list_segments(self._folder / "inbox")
        assert len(names) == 1, "the demo was meant to be small"
        self._segment = Segment(self._folder / "inbox", names[0])
        self.frames = list(self._segment.frames(0, self._segment.head().next))

    def find(self, choose: Choose, rows_min: int = 1) -> int:
        """The index of a frame from the middle of the log on."""
        for index in range(len(self.frames) // 2, len(self.frames)):
            frame = Frame.decode(self.frames[index].frame)
            if frame.count >= rows_min and choose(frame):
                return index
        self._segment.close()
        raise AssertionError(f"no such frame in the second half of {len(self.frames)}")

    def keep(self, index: int, picked: Callable[[int], list[int]]) -> None:
        """Replace a frame by some of its rows, in some order, some perhaps twice, perhaps none."""
        stored = self.frames[index]
        frame = Frame.decode(stored.frame)
        chosen = picked(frame.count)
        kept = []
        if chosen:
            encoded = select(frame, chosen).encode()
            kept = [StoredFrame(stored.first, len(chosen), stored.stamp, encoded)]
        shift = len(chosen) - frame.count
        later = [replace(each, first=each.first + shift) for each in self.frames[index + 1 :]]
        self.frames[index:] = [*kept, *later]
        self._renumber(stored.first, shift)

    def swap_two_of_one_drone(self) -> str:
        """An event of a drone and its next one change places. Returns the drone's key."""
        early = self.find(external)
        frame = Frame.decode(self.frames[early].frame)
        key = str((frame.values("key") or [])[0])
        for late in range(early + 1, len(self.frames)):
            other = Frame.decode(self.frames[late].frame)
            keys = other.values("key") or []
            if external(other) and key in keys:
                self._exchange(early, 0, late, keys.index(key))
                return key
        raise AssertionError(f"{key} sends nothing more")

    def _exchange(self, early: int, i: int, late: int, j: int) -> None:
        tables = [_Table(Frame.decode(self.frames[index].frame)) for index in (early, late)]
        one, other = tables
        one.rows[i], other.rows[j] = other.rows[j], one.rows[i]
        for index, table in zip((early, late), tables, strict=True):
            self.frames[index] = replace(self.frames[index], frame=table.frame().encode())

    def _renumber(self, changed: int, shift: int) -> None:
        """What the state says of positions behind `changed` moves along."""
        state = open_existing(self._folder / "state.db")
        standing = read_head(state, self._folder)
        head = standing.head._replace(position=standing.head.position + shift)
        put_head(state, standing._replace(head=head))
        moved = []
        for first, count, now, encoded in runs_of(state, "journal"):
            frame = Frame.decode(encoded)
            positions = [int(str(p)) for p in frame.values("position") or []]
            frame.columns["position"] = integers(p + shift if p > changed else p for p in positions)
            moved.append((first, count, now, frame.encode()))
        put_runs(state, "journal", moved)
        state.close()

    def write(self) -> None:
        connection = self._segment.connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM frames")
        for stored in self.frames:
            self._segment.put_frame(stored.first, stored.count, stored.stamp, stored.frame)
        last = self.frames[-1]
        self._segment.put_head(self._segment.head()._replace(next=last.first + last.count))
        connection.execute("COMMIT")
        self._segment.close()


class _Table:
    """A frame of events from outside as rows that can be moved to another one."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        keys, seqs = frame.values("key") or [], frame.values("seq") or []
        self.rows = list(zip(keys, seqs, read_raw_payload(frame), strict=True))

    def frame(self) -> Frame:
        columns = {n: c for n, c in self._frame.columns.items() if not n.startswith("rows.")}
        columns["key"] = rows([key for key, _, _ in self.rows])
        columns["seq"] = integers([int(str(seq)) for _, seq, _ in self.rows])
        payload = raw_payload([p[0] for *_, p in self.rows], [p[1] for *_, p in self.rows])
        return Frame(self._frame.count, columns | payload)


Run = tuple[int, int, float, bytes]  # first, count, now, frame


def runs_of(state: apsw.Connection, table: str) -> list[Run]:
    query = f"SELECT first, count, now, frame FROM {table} ORDER BY first"
    return cast(list[Run], state.execute(query).fetchall())


def put_runs(state: apsw.Connection, table: str, runs: list[Run]) -> None:
    state.execute("BEGIN IMMEDIATE")
    state.execute(f"DELETE FROM {table}")
    for run in runs:
        insert(state, table, *run)
    state.execute("COMMIT")


def insert(state: apsw.Connection, table: str, *row: object) -> None:
    """A row that ends with a frame, and with a checksum of both where the table has one."""
    names = [column[1] for column in state.execute(f"PRAGMA table_info({table})")]
    if "sum" in names:
        row = (*row, frame_check(row[:-1], cast(bytes, row[-1])))
    holes = ", ".join("?" * len(row))
    state.execute(f"INSERT INTO {table} VALUES({holes})", cast(tuple[bytes, ...], row))


def keep_of_an_action_frame(data: Path, picked: Callable[[int], list[int]]) -> None:
    """Replace stored actions of one commit by some of them, some perhaps twice."""
    state = open_existing(data / "p000" / "state.db")
    runs = runs_of(state, "actions")
    index = len(runs) // 2
    first, count, now, encoded = runs[index]
    chosen = picked(count)
    shift = len(chosen) - count
    later = [(run[0] + shift, *run[1:]) for run in runs[index + 1 :]]
    kept = []
    if chosen:
        kept = [(first, len(chosen), now, select(Frame.decode(encoded), chosen).encode())]
    runs[index:] = [*kept, *later]
    put_runs(state, "actions", runs)
    standing = read_head(state, data)
    head = standing.head._replace(actions_next=standing.head.actions_next + shift)
    put_head(state, standing._replace(head=head))
    state.close()


def change_state(data: Path, field: str, change: Callable[[object], object]) -> str:
    """Give one drone another value, as if its last commit had said so. Returns the key."""
    engine = open_engine(f"sqlite:{data}", None)
    record = next(r for r in engine.view(0).records("Drone"))
    names = [each.name for each in engine.catalog.schemas()[record.schema].fields]
    engine.close()
    values = msgspec.msgpack.decode(record.state)
    values[names.index(field)] = change(values[names.index(field)])
    changed = record._replace(state=msgspec.msgpack.encode(values))
    state = open_existing(data / "p000" / "state.db")
    _add_delta(state, delta_frame([changed]).encode())
    state.close()
    return record.key


def _add_delta(state: apsw.Connection, frame: bytes) -> None:
    standing = read_head(state, Path("state.db"))
    head = standing.head._replace(commits=standing.head.commits + 1)
    state.execute("BEGIN IMMEDIATE")
    insert(state, "delta", head.commits, frame)
    put_head(state, standing._replace(head=head, deltas=standing.deltas + 1))
    state.execute("COMMIT")
