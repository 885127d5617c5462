"""Goal: who reads files that retention removes meanwhile goes on with what is left, and what is
missing for any other reason is still damage.

What happens meanwhile is put between the listing of a folder and the opening of a file; between the
opening and the first read, where SQLite has not looked for the WAL yet; and right behind that read.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from holdfast.engine.sqlite import files, state
from holdfast.engine.sqlite import salvage as salvaging
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import last_written
from holdfast.engine.sqlite.inbox import SETTLED_SECONDS, SqliteInbox
from holdfast.engine.sqlite.locks import HolderLock
from holdfast.engine.sqlite.segment import list_segments
from holdfast.engine.sqlite.waking import FIFO, Waiting
from holdfast.errors import Busy, DamagedData, InUse, UsageError
from holdfast.runtime.checkup import Checkup
from holdfast.runtime.snapshots.logs import DirectoryLog
from holdfast.testing.conformance.workbench import HandClock, append, parcel
from tests.engine.test_sqlite_retention import DAY, Fleet

Act = Callable[[], None]
CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE  # where nothing else is said
MOMENTS = ["listed", "opened", "read"]


class Meanwhile:
    """Lets something happen once, when the next file of this kind is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moment: str, ending: str = ".seg") -> None:
        self._moment = moment
        self._ending = ending
        self._acts: list[Act] = []
        self._open, self._read = apsw.Connection, files.check_format
        monkeypatch.setattr(apsw, "Connection", self._opening)
        monkeypatch.setattr(files, "check_format", self._reading)

    def happens(self, act: Act) -> None:
        self._acts.append(act)

    def _opening(self, path: str, flags: int = CREATE) -> apsw.Connection:
        self._reach("listed", path)
        connection = self._open(path, flags=flags)
        self._reach("opened", path)
        return connection

    def _reading(self, connection: apsw.Connection, path: Path, newest: int) -> None:
        self._read(connection, path, newest)
        self._reach("read", str(path))

    def _reach(self, moment: str, path: str) -> None:
        if self._acts and moment == self._moment and path.endswith(self._ending):
            self._acts.pop()()

    @property
    def happened(self) -> bool:
        return not self._acts


@pytest.fixture(params=MOMENTS)
def meanwhile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch, request.param)


@pytest.fixture
def aged(tmp_path: Path) -> Iterator[Fleet]:
    """Five events in a segment each, all folded and past retention, and an empty segment."""
    clock = HandClock(wall=time.time())  # ages of files are compared with it
    fleet = Fleet(tmp_path / "data", clock, retain_seconds=DAY)
    fleet.fill(5)
    fleet.owner.fold_all()
    clock.pass_time(DAY + 60)
    yield fleet
    fleet.engine.close()


@pytest.fixture
def reader(aged: Fleet) -> Iterator[SqliteEngine]:
    """Another process, as far as files go."""
    engine = SqliteEngine(aged.engine.root)
    yield engine
    engine.close()


def all_gone(fleet: Fleet) -> None:
    """Also the segment that is the newest now: a new one is begun, and retention takes the old."""
    append(fleet.engine, parcel(["last"]))
    fleet.owner.fold_all()
    fleet.engine.maintain()
    assert fleet.firsts() == [6]


def taken(fleet: Fleet, *numbers: int) -> Act:
    """What retention does not do: these are gone, whatever is left."""
    names = [name for name in list_segments(fleet.folder) if name.number in numbers]

    def act() -> None:
        for name in names:
            for end in ("", "-wal", "-shm"):
                (fleet.folder / f"{name}{end}").unlink(missing_ok=True)

    return act


def test_a_read_gives_what_is_left(aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile) -> None:
    def all_but_two() -> None:
        aged.engine.keep_from(0, 3)
        aged.engine.maintain()

    view = reader.view(0)
    meanwhile.happens(all_but_two)
    found = view.frames(0, 100)
    assert meanwhile.happened
    assert found, "a reader of history takes this for its end"
    assert found[0].first == 3


def test_a_read_finds_what_came_after_all_that_was_listed(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    def gone_and_gone_on() -> None:
        all_gone(aged)
        append(aged.engine, parcel(["new"]))

    view = reader.view(0)
    meanwhile.happens(gone_and_gone_on)
    assert [each.first for each in view.frames(0, 100)] == [6]


def test_a_head_is_that_of_the_newest(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    meanwhile.happens(lambda: all_gone(aged))
    assert reader.view(0).inbox_next() == 6
    assert meanwhile.happened


def test_a_snapshot_is_taken_beside_retention(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    def all_but_the_last() -> None:
        all_gone(aged)
        append(aged.engine, parcel(["new"]))

    reader.view(0)
    meanwhile.happens(all_but_the_last)
    contents = reader.capture()
    assert meanwhile.happened
    (part,) = contents.partitions
    assert (part.facts.head.position, part.facts.next) == (6, 7)
    assert [stored.first for stored in part.frames()] == [6]
    contents.close()


def test_what_is_gone_is_not_the_end_of_a_log(aged: Fleet, reader: SqliteEngine) -> None:
    """Where all that is left is an empty segment."""
    log = DirectoryLog(reader)
    incarnation = reader.view(0).incarnation()
    assert len(list(log.frames(incarnation, 0))) == 5
    frames = log.frames(incarnation, 2)
    aged.engine.maintain()
    assert aged.firsts() == [5]
    with pytest.raises(UsageError, match="events before position 5 are past retention"):
        list(frames)
    assert list(log.frames(incarnation, 5)) == []


def test_a_checkup_finds_the_clock_beside_retention(aged: Fleet, meanwhile: Meanwhile) -> None:
    checkup = Checkup(f"sqlite:{aged.engine.root}")
    meanwhile.happens(lambda: all_gone(aged))
    assert checkup._clock([0]).level != "bad"
    assert meanwhile.happened


@pytest.mark.parametrize("rotated", [False, True])
def test_salvage_beside_a_fleet_that_runs_finds_no_damage(
    aged: Fleet, rotated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = salvaging._open
    acts: list[Act] = [aged.engine.maintain, lambda: all_gone(aged)][: 1 + rotated]

    def opening(path: Path, place: Path) -> apsw.Connection:
        if acts and path.suffix == ".seg":
            acts.pop()()
        found = look(path, place)
        if path.suffix == ".seg":
            append(aged.engine, parcel(["on"]))
        if path.name == "state.db":
            aged.owner.fold_all()
        return found

    monkeypatch.setattr(salvaging, "_open", opening)
    report = salvaging.salvage(aged.engine.root)
    assert not acts
    assert list(report.lines())
    assert report.intact, list(report.lines())


def test_upkeep_of_one_who_was_replaced_goes_on(aged: Fleet, reader: SqliteEngine) -> None:
    """It listed segments, stood still, and its successor has unlinked them."""
    names = list_segments(aged.folder)
    aged.engine.maintain()
    assert reader._inbox(0)._expendable(names, folded=5) == names[:-1]
    assert last_written(aged.folder / str(names[0])) == 0.0


def test_a_checkpoint_passes_over_what_has_gone(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    behind: SqliteInbox = reader._inbox(0)
    behind._clock = HandClock(time.time() + SETTLED_SECONDS + 10.0)
    behind.head()  # so that the next one that is opened is sealed
    meanwhile.happens(aged.engine.maintain)
    behind.maintain(reader.view(0).head())
    assert meanwhile.happened
    assert aged.firsts() == [5]


# Damage.


def test_an_oldest_that_is_not_folded_is_missed_by_a_snapshot(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "data", HandClock(wall=time.time()))
    fleet.fill(3)
    taken(fleet, 1)()
    with pytest.raises(DamagedData, match="events 0 to 1 are missing"):
        fleet.engine.capture()
    fleet.engine.close()


@pytest.mark.parametrize("number", [2, 5])
def test_one_that_is_missing_behind_others_is_damage(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile, number: int
) -> None:
    view = reader.view(0)
    meanwhile.happens(taken(aged, number))
    with pytest.raises(DamagedData, match=rf"{number:08d}-\d+\.seg: damaged \(the file is missing"):
        view.frames(number - 1, 100)
    assert meanwhile.happened


def test_the_newest_that_is_missing_is_damage(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    view = reader.view(0)
    meanwhile.happens(taken(aged, 6))
    with pytest.raises(DamagedData, match="the file is missing"):
        view.inbox_next()
    meanwhile.happens(taken(aged, 1, 2, 3, 4, 5))
    with pytest.raises(DamagedData, match="the inbox has no segment"):
        Checkup(f"sqlite:{aged.engine.root}")._clock([0])


def test_the_only_one_that_is_missing_is_damage(
    aged: Fleet, reader: SqliteEngine, meanwhile: Meanwhile
) -> None:
    aged.engine.maintain()
    view = reader.view(0)
    meanwhile.happens(taken(aged, 6))
    with pytest.raises(DamagedData, match="the inbox has no segment"):
        view.inbox_next()


# What is no segment.


def test_a_process_that_ends_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds a lock is looked for among all processes."""
    held = HolderLock(tmp_path / "lock")
    held.acquire()
    process = subprocess.Popen(["sleep", "600"])
    place = f"/proc/{process.pid}/fd"
    for name in ("scandir", "listdir"):
        look = getattr(os, name)

        def ended(path: object = ".", look: Callable[[object], object] = look) -> object:
            if str(path) == place:
                process.kill()
                process.wait()
            return look(path)

        monkeypatch.setattr(os, name, ended)
    try:
        with pytest.raises(InUse, match=f"process {os.getpid()} runs this fleet already"):
            HolderLock(tmp_path / "lock").acquire()
    finally:
        process.kill()
        process.wait()
        held.release()


def test_a_bell_that_a_successor_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    waiting.listen(tmp_path)
    status = os.fstat

    def replaced(descriptor: int) -> os.stat_result:
        found = status(descriptor)
        (tmp_path / FIFO).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "fstat", replaced)
    waiting.stop_listening(tmp_path)
    assert waiting.fifos == {}
    waiting.close()


def test_who_ends_leaves_a_successor_its_bell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It claims between the look whose bell it is and the removal, if it can, or else later."""
    root = tmp_path / "data"
    SqliteEngine.create(root, "bells", 1)
    ours, successor = SqliteEngine(root), SqliteEngine(root)
    assert list(ours.assignments([0], 0))
    same = os.path.samestat
    monkeypatch.setattr(state, "LEASE_SECONDS", 0.0)

    def late(one: os.stat_result, other: os.stat_result) -> bool:
        found = same(one, other)
        with suppress(Busy):
            assert list(successor.assignments([0], 0))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os.path, "samestat", late)
        ours.close()
    list(successor.assignments([0], 0))
    assert successor._waiting.fifos
    for folder, descriptor in successor._waiting.fifos.items():
        assert same(os.stat(folder / FIFO), os.fstat(descriptor))
    successor.close()
    assert not list(root.rglob(FIFO))
