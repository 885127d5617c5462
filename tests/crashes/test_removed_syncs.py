"""Goal: the harness notices. With one sync removed, or one order turned round, it finds a broken
promise within the states that every run of the tests looks at.

The engine is changed while the workload is recorded, and whole again when the states are opened.
Only states in the named steps are opened, to save time; the others are counted. `pytest -rP` shows
which state it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.sqlite import catalog, engine, files, folders, inbox, segment, state
from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.segment import Segment
from holdfast.engine.sqlite.state import SqliteState
from holdfast.testing.conformance.workbench import FLEET
from tests.crashes import workload
from tests.crashes.kills import killed_runs
from tests.crashes.promises import Broken, Checker
from tests.crashes.states import CrashState, crash_states
from tests.crashes.test_crash_states import SEED, plain_states, states_after_kills

Patch = pytest.MonkeyPatch
Change = Callable[[Patch], None]


def after(patch: Patch, where: type, name: str, then: Callable[..., None]) -> None:
    """Do the method, then something more with its object."""
    method = getattr(where, name)

    def changed(self: Any, *args: Any, **named: Any) -> Any:
        result = method(self, *args, **named)
        then(self, *args)
        return result

    patch.setattr(where, name, changed)


def before(patch: Patch, where: type, name: str, first: Callable[..., None]) -> None:
    method = getattr(where, name)

    def changed(self: Any, *args: Any, **named: Any) -> Any:
        first(self, *args)
        return method(self, *args, **named)

    patch.setattr(where, name, changed)


# WALs.


def appends_are_not_synced(patch: Patch) -> None:
    normal = "PRAGMA synchronous=NORMAL"
    after(patch, Segment, "__init__", lambda self, *_: self.connection.execute(normal))


def commits_are_not_synced(patch: Patch) -> None:
    normal = "PRAGMA synchronous=NORMAL"
    after(patch, SqliteState, "__init__", lambda self, *_: self._connection.execute(normal))


def schemas_are_not_synced(patch: Patch) -> None:
    off = "PRAGMA synchronous=OFF"
    after(patch, SqliteCatalog, "__init__", lambda self, *_: self._connection.execute(off))


def checkpoints_of_segments_are_not_synced(patch: Patch) -> None:
    off = "PRAGMA synchronous=OFF"
    before(patch, Segment, "checkpoint", lambda self: self.connection.execute(off))


def checkpoints_of_the_state_are_not_synced(patch: Patch) -> None:
    def unsynced(self: SqliteState, cut: bool) -> None:
        self._connection.execute("PRAGMA synchronous=OFF")
        finish(self, cut)
        self._connection.execute("PRAGMA synchronous=FULL")

    finish = SqliteState.finish_checkpoint
    patch.setattr(SqliteState, "finish_checkpoint", unsynced)
    patch.setattr(state, "checkpoint", lambda path: None)  # or it has all been done before


# New files.


def publish_without(patch: Patch, *, skipped: Callable[[Path], bool]) -> None:
    def sync(path: Path) -> None:
        if not skipped(path):
            files_sync(path)

    def publish(connection: Any, path: Path) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(files, "sync_path", sync)
            files_publish(connection, path)

    files_sync, files_publish = files.sync_path, files.publish
    for module in (segment, folders, catalog):
        patch.setattr(module, "publish", publish)


def a_new_file_is_renamed_unsynced(patch: Patch) -> None:
    publish_without(patch, skipped=Path.is_file)


def a_rename_is_not_synced(patch: Patch) -> None:
    publish_without(patch, skipped=Path.is_dir)


def new_folders_are_not_synced(patch: Patch) -> None:
    for module in (engine, folders):
        patch.setattr(module, "make_durably", lambda path: os.makedirs(path, exist_ok=True))


def the_catalog_comes_first(patch: Patch) -> None:
    create = SqliteCatalog.create

    def lay_out(root: Path, partitions: int) -> None:
        create(root, FLEET, partitions)
        original(root, partitions)

    original = folders.lay_out
    patch.setattr(engine, "lay_out", lay_out)
    patch.setattr(SqliteCatalog, "create", lambda *_: None)


# Order.


def a_segment_is_sealed_before_the_next_is_there(patch: Patch) -> None:
    before(patch, SqliteInbox, "_rotate", lambda self, old: old.seal())


def retention_does_not_sync(patch: Patch) -> None:
    patch.setattr(inbox, "remove_durably", files.remove)


def appends_are_witnessed_too_early(patch: Patch) -> None:
    def note(self: SqliteInbox, parcels: list[Any]) -> None:
        segment = self._open or self._open_newest()
        self._witness.note(segment.head().next + sum(one.frame.count for one in parcels))

    before(patch, SqliteInbox, "_transaction", note)


def commits_are_witnessed_too_early(patch: Patch) -> None:
    def note(self: SqliteState, commit: Any, *_: Any) -> None:
        self._witness.note(commit.head.commits)

    before(patch, SqliteState, "_write", note)


# What a killed process left.


def what_is_found_is_believed(patch: Patch) -> None:
    patch.setattr(files, "_make_certain", lambda path: None)


def a_found_catalog_is_believed(patch: Patch) -> None:
    patch.setattr(engine, "sync_path", lambda path: None)


def a_found_folder_is_believed(patch: Patch) -> None:
    def make_durably(folder: Path) -> None:
        for place in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            place.mkdir()
            files.sync_path(place.parent)

    for module in (engine, folders):
        patch.setattr(module, "make_durably", make_durably)


CHANGES: list[tuple[Change, str]] = [
    (appends_are_not_synced, "append"),
    (commits_are_not_synced, "commit"),
    (schemas_are_not_synced, "register"),
    (checkpoints_of_segments_are_not_synced, "upkeep"),
    (checkpoints_of_the_state_are_not_synced, "forgetting"),
    (a_new_file_is_renamed_unsynced, "create"),
    (a_rename_is_not_synced, "append"),
    (new_folders_are_not_synced, "register"),
    (the_catalog_comes_first, "create"),
    (a_segment_is_sealed_before_the_next_is_there, "append"),
    (retention_does_not_sync, "retention"),
    (appends_are_witnessed_too_early, "append"),
    (commits_are_witnessed_too_early, "commit"),
]


@contextmanager
def changed(change: Change) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        yield


def first_broken(checker: Checker, states: Iterable[CrashState]) -> int:
    """The ordinal of the first state that breaks a promise; 0 if none does."""
    for one in states:
        try:
            checker.check(one)
        except Broken:
            return one.ordinal
    return 0


@pytest.mark.planted("crash states")
@pytest.mark.parametrize(("change", "where"), CHANGES, ids=lambda one: getattr(one, "__name__", ""))
def test_it_is_noticed(change: Change, where: str, place: Path) -> None:
    base = place / change.__name__
    base.mkdir()
    with changed(change):
        run = workload.run(base)
    states = crash_states(run, plain_states(), SEED, set())
    there = (one for one in states if run.near(one.position).startswith(where))
    found = first_broken(Checker(run, place / "state"), there)
    assert found, "no state broke a promise"
    print(f"noticed at state {found:,} of {plain_states():,}")


@pytest.mark.planted("crash states")
@pytest.mark.parametrize(
    ("change", "where"),
    [
        (what_is_found_is_believed, "open after a kill in append"),
        (a_found_catalog_is_believed, "create"),
        (a_found_folder_is_believed, "create"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_it_is_noticed_after_a_kill(change: Change, where: str, place: Path) -> None:
    base = place / change.__name__
    base.mkdir()
    with changed(change):
        everyone = list(killed_runs(workload.run(base), base))
    successors = [one for one in everyone if one.steps[0].name.startswith(where)]
    each = states_after_kills() // len(everyone)
    for number, one in enumerate(successors):
        states = crash_states(one, each, SEED + number, set())
        if first_broken(Checker(one, place / "state"), states):
            print(f"noticed after kill {number + 1} of {len(successors)}, {each} states each")
            return
    pytest.fail("no state broke a promise")
