"""A small fleet's directory with one of everything in it, for tests that damage copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.schema import Field, Schema
from holdfast.stepping.commit import Fate, Issued, Journalled, Outgoing
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance.blocks import Keeper, block_of
from holdfast.testing.conformance.commits import ANSWER, call, framed, letter
from holdfast.testing.conformance.workbench import (
    FLEET,
    HandClock,
    Owner,
    append,
    messages,
    numbered,
    parcel,
    record,
)

SOURCES = [*(f"source-{n:02}" for n in range(10)), *(f"~request-{n:02}" for n in range(10))]
AGENTS = 150  # of each of two classes: one in rows, one in blocks
STATES = 2 * AGENTS
LIMITS = Limits(segment_bytes=50_000_000, disk_reserve_bytes=1)


def make(root: Path, *, settled: bool = True) -> None:
    """Two sealed segments and an open one; states in base and deltas; every kind of output."""
    SqliteEngine.create(root, FLEET, 2)
    engine = SqliteEngine(root, LIMITS, HandClock())
    fields = (Field("lat", "float", True), Field("lon", "float", True))
    engine.catalog.register([Schema("event", f"Position{n}", fields) for n in range(5)])
    _fill_inbox(engine, 0)
    _fill_state(engine, 0)
    engine.close()
    if settled:
        for path in [*root.rglob("*.db"), *root.rglob("*.seg")]:
            settle(path)


def _fill_inbox(engine: SqliteEngine, number: int) -> None:
    for step in range(3):
        for source in SOURCES:
            append(engine, numbered(source, range(step * 5, step * 5 + 5)), number)
        append(engine, messages("1-abc", step * 3 + 1, 3), number)
        keyed = parcel([f"o{step}"], source="up", seqs=[step + 1], keys=["k"], previous=[step])
        append(engine, keyed, number)
        if step < 2:
            engine._inbox(number).rotate()


def _fill_state(engine: SqliteEngine, number: int) -> None:
    owner = Owner.of(engine, number)
    everyone = [record(f"d-{n:04}", f"state of {n}") for n in range(AGENTS)]
    owner.commit(everyone, events=100)
    flock = [record(f"f-{n:04}", f"bird {n}", agent="Flock") for n in range(AGENTS)]
    owner.commit(blocks=[block_of(flock)])
    keeper = Keeper({each.key: each for each in flock})
    engine._states[number].compact(owner.claim, keeper.images)
    newer = [record(f"f-{n:04}", "newer", 2, agent="Flock") for n in range(0, AGENTS, 30)]
    owner.commit([newer[0]], blocks=[block_of(newer[1:])])
    for step in range(4):
        head = owner.head
        owner.commit(
            [record(f"d-{n:04}", f"newer {step}", 2 + step) for n in range(step, AGENTS, 30)],
            events=10,
            outgoing=[Outgoing(1 - number, head.commits, 1, framed(f"out {step}"))],
            sent_next={1 - number: head.commits + 1},
            issued=Issued(head.actions_next, 1, 5.0, framed(f"action {step}")),
            journalled=Journalled(head.journal_next, 1, framed(f"timer {step}")),
            letters=[letter(head.letters_next)],
            redriven=[1] if step == 3 else [],
            answers=[ANSWER._replace(position=step)],
            fates=[Fate(f"fleet/Drone/d-1/{step}/0", "d-1", 5.0, "why")],
            calls=[call(head.calls_next + n) for n in range(20)],
            closed=[call(head.calls_next - 1).id] if step else [],
            head={
                "actions_next": head.actions_next + 1,
                "journal_next": head.journal_next + 1,
                "letters_next": head.letters_next + 1,
                "calls_next": head.calls_next + 20,
            },
        )


def settle(path: Path) -> None:
    """Everything into the file itself, nothing left beside it."""
    connection = apsw.Connection(str(path))
    connection.execute("SELECT * FROM sqlite_schema").fetchall()  # or the WAL is not even opened
    connection.close()  # the last one out moves the WAL into the file and removes it
    assert not Path(f"{path}-wal").exists()


def copy(root: Path, place: Path) -> Path:
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(root, place, ignore=shutil.ignore_patterns("wake"))
    return place


def everything(root: Path) -> dict[str, object]:
    """Each thing that can be read from a directory: its value, or the error it raised instead."""
    found: dict[str, object] = {}
    try:
        engine = SqliteEngine(root, LIMITS)
    except Exception as error:
        return {"engine": error}
    try:
        found["catalog"] = (engine.catalog.fleet, engine.catalog.layout)
        for name, read in _readers(engine):
            try:
                found[name] = read()
            except Exception as error:
                found[name] = error
    finally:
        engine.close()
    return found


def _readers(engine: SqliteEngine) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "schemas", lambda: {i: s.to_json() for i, s in engine.catalog.schemas().items()}
    try:
        view = engine.view(0)
    except Exception as error:
        yield "view", partial(_fail, error)
        return
    for name in ("head", "incarnation", "inbox_first", "inbox_next", "letters", "marks"):
        yield name, getattr(view, name)
    for name in ("sent_next", "outbox", "owner"):
        yield name, getattr(view, name)
    yield "frames", partial(_frames, engine)
    yield "records", lambda: list(view.records())
    yield "everything", lambda: list(view.everything())
    yield "actions", partial(view.actions, 0, 100)
    yield "journal", partial(view.journal, 0, 100)
    yield "commits", partial(view.commits, 0, 100)
    yield "fates", view.fates
    for step in range(5):
        yield f"fate {step}", partial(view.fates_of, [f"fleet/Drone/d-1/{step}/0"])
    yield "calls", partial(view.calls, 0, 100)
    for n in range(AGENTS):
        yield f"d-{n:04}", partial(view.record, "Drone", f"d-{n:04}")
        yield f"f-{n:04}", partial(view.record, "Flock", f"f-{n:04}")
    for n in range(6):
        yield f"letter {n}", partial(view.letter, n)
        yield f"answer {n}", partial(view.answer, n)
        yield f"action {n}", partial(view.actions, n, 1)
    for position in (0, 103, 104, 207, 208, 311):
        yield f"frame at {position}", partial(engine.read, 0, position, 1)


def _fail(error: Exception) -> None:
    raise error


def _frames(engine: SqliteEngine) -> list[StoredFrame]:
    frames: list[StoredFrame] = []
    position = 0
    while batch := engine.read(0, position, 50):
        frames += batch
        position = batch[-1].first + batch[-1].count
    return frames


def repeats(root: Path) -> dict[str, object]:
    """Everything sent again: how much is taken for new, or the error. Changes the directory."""
    found: dict[str, object] = {}
    try:
        engine = SqliteEngine(root, LIMITS, HandClock())
    except Exception as error:
        return {"engine": error}
    try:
        for source in SOURCES:
            try:
                found[source] = append(engine, numbered(source, range(15))).new
            except Exception as error:
                found[source] = error
    finally:
        engine.close()
    return found
