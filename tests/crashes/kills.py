"""A process killed in the middle of a sync, its successor, and only then the power loss.

What the dead process wrote is in the page cache, so the successor finds it, complete: nothing
tells it that it is not on the disk yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.testing.conformance.workbench import HandClock, numbered, record
from tests.crashes.disk import Disk, Sync
from tests.crashes.expected import World, schemas_of, shown
from tests.crashes.recorder import Recorder
from tests.crashes.script import PARTITIONS, Run, Script, Step
from tests.crashes.workload import ROOMY, SCHEMAS

KILLED_IN = ("append", "commit", "register")


def killed_runs(run: Run, base: Path) -> Iterator[Run]:
    """One for every step of the workload that was killed before the sync that would finish it.

    In the creation of the directory every sync of a folder is such a place.
    """
    disk = run.start.copy()
    done: set[int] = set()
    for position, operation in enumerate(run.operations):
        step = run.at(position).step
        if isinstance(operation, Sync) and step is not None and step.begin not in done:
            place = base / f"killed-{position}"
            if step.before is None and disk.is_folder(operation.path):
                disk.image({}).write(_made(place))
                yield _creator(run, position, place)
            elif operation.path.endswith("-wal") and step.name.startswith(KILLED_IN):
                disk.image({}).write(_made(place))
                successor = _successor(run, position, step, place)
                if successor is not None:
                    done.add(step.begin)
                    yield successor
        disk.apply(operation)


def _made(place: Path) -> Path:
    place.mkdir()
    return place


def _disk_at(run: Run, position: int) -> Disk:
    disk = run.start.copy()
    for operation in run.operations[:position]:
        disk.apply(operation)
    return disk


def _creator(run: Run, position: int, place: Path) -> Run:
    recorder = Recorder(place)
    with recorder.recording():
        script = Script(recorder)
        script.create()
        engine = SqliteEngine(place / "data", ROOMY, HandClock())
        _fold(script, engine)
        with script.step("close"):
            engine.close()
    return Run(_disk_at(run, position), recorder.operations, script.steps, [])


def _successor(run: Run, position: int, step: Step, place: Path) -> Run | None:
    """None if the killed process had not written all of its step: this was another sync of it."""
    recorder = Recorder(place)
    with recorder.recording():
        engine = SqliteEngine(place / "data", ROOMY, HandClock())
        if not _shows(engine, step.after):
            engine.close()
            return None
        script = Script(recorder, step.after)
        opened = len(recorder.operations)
        name = f"open after a kill in {step.name}"
        script.steps.append(Step(name, -1, opened, step.before, step.after, step.sent))
        _fold(script, engine)
        with script.step("close"):
            engine.close()
    sent = run.at(position).acknowledged
    return Run(_disk_at(run, position), recorder.operations, script.steps, sent)


def _shows(engine: SqliteEngine, expected: World) -> bool:
    if schemas_of(engine) != expected.schemas:
        return False
    for number, part in enumerate(expected.parts):
        seen = shown(engine, number, part)
        if seen != replace(part, first=seen.first, tags=part.tags[seen.first :]):
            return False
    return True


def _fold(script: Script, engine: SqliteEngine) -> None:
    """Whatever was found is folded: from now on it must not go away."""
    script.append(engine, 1, numbered("new", [1]))
    for number in range(PARTITIONS):
        owner = script.claim(engine, number)
        part = script.part(number)
        waiting = len(part.tags) - part.head.position
        script.commit(owner, [record("d-1", "folded", 77)], events=waiting)
    assert script.world is not None
    known = script.world.schemas
    with script.step("register what is known"):
        engine.catalog.register([one for one in SCHEMAS if one.fingerprint in known])
