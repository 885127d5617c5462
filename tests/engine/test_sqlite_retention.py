"""Goal: retention forgets old events that are folded, and nothing else, ever.

Not an unfolded event, not a position, not a number that was seen, not the room that a forgotten
segment took.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import wal_bytes
from holdfast.engine.sqlite.inbox import SETTLED_SECONDS
from holdfast.engine.sqlite.segment import list_segments
from holdfast.engine.sqlite.state import NOTES_PER_ROW
from holdfast.stepping.commit import Issued, Journalled
from holdfast.testing.conformance.commits import framed
from holdfast.testing.conformance.workbench import (
    FLEET,
    HandClock,
    Owner,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    soon,
)

DAY = 24 * 3600.0
EVERY_APPEND_ROTATES = 1


class Fleet:
    """An engine with small segments, and its owner."""

    def __init__(self, root: Path, clock: HandClock, **limits: float) -> None:
        SqliteEngine.create(root, FLEET, 1)
        self.folder = root / "p000/inbox"
        bounds = Limits(segment_bytes=EVERY_APPEND_ROTATES, **limits)  # type: ignore[arg-type]
        self.engine = SqliteEngine(root, bounds, clock)
        self.owner = Owner.of(self.engine)

    def fill(self, segments: int) -> None:
        first = self.engine.view(0).inbox_next()
        for i in range(segments):
            append(self.engine, numbered("gcs", [first + i]))

    def firsts(self) -> list[int]:
        return [name.first for name in list_segments(self.folder)]


@pytest.fixture
def clock() -> HandClock:
    return HandClock(wall=time.time())  # ages of files are compared with it


@pytest.fixture
def aged(tmp_path: Path, clock: HandClock) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "data", clock, retain_seconds=DAY)
    yield fleet
    fleet.engine.close()


@pytest.fixture
def sized(tmp_path: Path, clock: HandClock) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "data", clock, retain_bytes=200_000)
    yield fleet
    fleet.engine.close()


def test_young_events_stay(aged: Fleet, clock: HandClock) -> None:
    aged.fill(5)
    aged.owner.fold_all()
    clock.pass_time(DAY - 60)
    aged.engine.maintain()
    assert aged.firsts() == [0, 1, 2, 3, 4, 5]


def test_old_events_go_once_they_are_folded(aged: Fleet, clock: HandClock) -> None:
    aged.fill(5)
    aged.owner.commit(events=3)
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts() == [3, 4, 5], "what is not folded stays, however old"
    assert aged.engine.view(0).inbox_first() == 3
    aged.owner.fold_all()
    aged.engine.maintain()
    assert aged.firsts() == [5]


def test_a_segment_that_is_folded_in_part_stays_whole(aged: Fleet, clock: HandClock) -> None:
    append(aged.engine, parcel(["a", "b", "c"]))
    append(aged.engine, parcel(["d"]))
    aged.owner.commit(events=2)
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert inbox(aged.engine, position=2) == ["c", "d"]
    assert aged.firsts() == [0, 3, 4]


def test_the_age_of_a_segment_is_that_of_its_last_event(tmp_path: Path, clock: HandClock) -> None:
    """A segment begun long ago and written to today is young: its file is old, its WAL is not."""
    fleet = Fleet(tmp_path / "data", clock, retain_seconds=DAY)
    fleet.fill(1)
    old = sorted(fleet.folder.glob("*.seg"))[0]
    os.utime(old, (clock.wall - 3 * DAY, clock.wall - 3 * DAY))
    assert wal_bytes(old) > 0
    fleet.owner.fold_all()
    names = list_segments(fleet.folder)
    assert fleet.engine._inbox(0)._expendable(names, folded=1) == []
    fleet.engine.close()


def test_the_oldest_go_when_there_is_too_much(sized: Fleet) -> None:
    sized.fill(12)
    sized.owner.commit(events=10)
    sized.engine.maintain()
    sized.engine.maintain()
    firsts = sized.firsts()
    assert firsts[0] > 0, "nothing went"
    assert firsts[0] <= 10, "an event went that was not folded"
    assert firsts == list(range(firsts[0], 13)), "only the oldest go, without a hole"
    kept = sum(path.stat().st_size for path in sized.folder.iterdir() if path.suffix == ".seg")
    assert kept < 200_000 + 2 * 60_000, "more is kept than the bound and two segments"


def test_too_much_that_is_not_folded_stays(sized: Fleet) -> None:
    sized.fill(12)
    sized.engine.maintain()
    assert sized.firsts()[0] == 0
    assert len(inbox(sized.engine)) == 12


def test_after_an_emptied_inbox_everything_goes_on(aged: Fleet, clock: HandClock) -> None:
    aged.fill(5)
    append(aged.engine, messages("1-abc", 1, 4))
    aged.owner.fold_all()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts() == [9]
    view = aged.engine.view(0)
    assert (view.inbox_first(), view.inbox_next()) == (9, 9)
    assert aged.engine.read(0, 9, 10) == []
    assert append(aged.engine, parcel(["new"])).next == 10
    assert inbox(aged.engine, position=9) == ["new"]
    aged.owner.fold_all()
    assert view.head().position == 10


def test_an_emptied_inbox_opens_again(aged: Fleet, clock: HandClock) -> None:
    aged.fill(5)
    aged.owner.fold_all()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    again = SqliteEngine(aged.engine.root)
    owner = Owner.of(again)
    assert owner.head.position == 5
    append(again, parcel(["new"]))
    owner.fold_all()
    assert again.view(0).head().position == 6
    again.close()


def test_repeats_are_known_after_their_events_are_forgotten(aged: Fleet, clock: HandClock) -> None:
    aged.fill(5)
    append(aged.engine, messages("1-abc", 1, 4))
    chain = parcel(["o"], source="up", seqs=[1], keys=["k"], previous=[0])
    append(aged.engine, chain)
    aged.owner.fold_all()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts() == [10]
    assert append(aged.engine, numbered("gcs", range(5))).new == 0
    assert append(aged.engine, messages("1-abc", 1, 4)).new == 0
    assert append(aged.engine, chain).new == 0
    assert append(aged.engine, messages("1-abc", 5, 1)).new == 1


def test_a_quiet_inbox_is_emptied_too(tmp_path: Path, clock: HandClock) -> None:
    """Nothing is sent any more, so nothing rotates the last segment: upkeep does."""
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data", Limits(retain_seconds=DAY), clock)
    owner = Owner.of(engine)
    append(engine, parcel(["a", "b"]))
    owner.fold_all()
    engine.maintain()
    assert engine.view(0).inbox_first() == 0
    clock.pass_time(2 * DAY)
    engine.maintain()
    clock.pass_time(2 * DAY)
    engine.maintain()
    assert engine.view(0).inbox_first() == 2
    assert append(engine, parcel(["c"])).next == 3
    engine.close()


def test_a_sealed_segment_leaves_no_wal_behind(aged: Fleet, clock: HandClock) -> None:
    """Otherwise every event would take its room twice for as long as it is kept."""
    aged.fill(5)
    clock.pass_time(SETTLED_SECONDS + 10.0)
    aged.engine.maintain()
    sealed = sorted(aged.folder.glob("*.seg"))[:-1]
    assert len(sealed) == 5
    assert [wal_bytes(path) for path in sealed] == [0] * 5
    assert len(inbox(aged.engine)) == 5


def test_a_wal_that_somebody_reads_is_emptied_later(aged: Fleet, clock: HandClock) -> None:
    clock.pass_time(SETTLED_SECONDS + 10.0)
    reader = SqliteEngine(aged.engine.root)
    append(reader, parcel(["a"]))
    connection = reader._inbox(0)._latest()[0].connection
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM head").fetchall()
    path = aged.folder / str(list_segments(aged.folder)[0])
    aged.fill(1)
    aged.engine.maintain()
    assert wal_bytes(path) > 0
    connection.execute("COMMIT")
    reader.close()

    def emptied() -> bool:
        aged.engine.maintain()
        return wal_bytes(path) == 0

    soon(emptied)


def test_a_segment_sealed_just_now_stays_in_its_wal(aged: Fleet, clock: HandClock) -> None:
    """Under a load that fills the retention before, it is never written a second time."""
    append(aged.engine, parcel(["a"]))
    path = aged.folder / str(list_segments(aged.folder)[0])
    aged.fill(1)
    aged.engine.maintain()
    assert wal_bytes(path) > 0
    clock.pass_time(SETTLED_SECONDS + 10.0)
    aged.engine.maintain()
    assert wal_bytes(path) == 0


def test_a_reader_of_a_forgotten_segment_is_not_told_of_damage(
    aged: Fleet, clock: HandClock
) -> None:
    aged.fill(5)
    reader = SqliteEngine(aged.engine.root)
    assert len(reader.view(0).frames(0, 1)) == 1
    aged.owner.fold_all()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert reader.view(0).frames(0, 100) == []
    assert reader.view(0).inbox_first() == 5
    reader.close()


def test_side_files_without_a_segment_are_swept(aged: Fleet, clock: HandClock) -> None:
    aged.fill(2)
    aged.owner.fold_all()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    strays = [aged.folder / f"00000001-00000000000000000000.seg-{e}" for e in ("wal", "shm")]
    for stray in strays:
        stray.write_bytes(b"left by a reader")
    append(aged.engine, parcel(["a"]))
    aged.engine.maintain()
    assert not any(stray.exists() for stray in strays)
    assert inbox(aged.engine, position=2) == ["a"]


def test_an_unfinished_segment_is_swept_by_the_next_rotation(aged: Fleet) -> None:
    """A crash in the middle of a rotation leaves it; the next one may begin at another position."""
    for end in ("", "-wal", "-journal"):
        (aged.folder / f"00000007-00000000000000000042.seg.new{end}").write_bytes(b"half")
    aged.fill(1)
    assert [path.name for path in aged.folder.glob("*.new*")] == []


def test_actions_are_kept_as_long_as_events(tmp_path: Path, clock: HandClock) -> None:
    fleet = Fleet(tmp_path / "data", clock, retain_seconds=DAY)
    start = fleet.owner.head.now
    for i in range(3):
        fleet.owner.commit(
            issued=Issued(i, 1, float(i), framed(f"{i}")), head={"actions_next": i + 1}
        )
    state = fleet.engine._states[0]
    state.forget_before(fleet.owner.claim, start + 1.5)
    view = fleet.engine.view(0)
    assert [issued.first for issued in view.actions(0, 10)] == [2]
    assert view.actions(3, 10) == []
    state.forget_before(fleet.owner.claim, start + 99.0)
    assert view.actions(0, 10) == []
    fleet.owner.commit(issued=Issued(3, 1, 99.0, framed("3")), head={"actions_next": 4})
    assert [issued.first for issued in view.actions(0, 10)] == [3]
    fleet.engine.close()


def test_old_notes_of_commits_go_with_the_journal(aged: Fleet, clock: HandClock) -> None:
    for number in range(3 * NOTES_PER_ROW):
        journalled = Journalled(number, 1, framed(f"timer {number}"))
        head = {"journal_next": number + 1, "now": clock.wall}
        aged.owner.commit(journalled=journalled, head=head)
        clock.pass_time((DAY / 2 + 60) / NOTES_PER_ROW)
    aged.engine._forgot = -1e9
    aged.engine.maintain()
    view = aged.engine.view(0)
    kept = [note.number for note in view.commits(0, 1000)]
    assert kept == list(range(NOTES_PER_ROW + 1, 3 * NOTES_PER_ROW + 1)), "whole rows go"
    assert NOTES_PER_ROW < view.journal(0, 1)[0].first < 2 * NOTES_PER_ROW


# What is not archived yet.


def test_old_events_wait_for_the_archive(aged: Fleet, clock: HandClock) -> None:
    aged.fill(6)
    aged.owner.fold_all()
    aged.engine.keep_from(0, 3)
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts()[0] == 3
    assert len(inbox(aged.engine, position=3)) == 3
    aged.engine.keep_from(0, 5)
    aged.engine.maintain()
    assert aged.firsts()[0] == 5
    aged.engine.keep_from(0, None)
    aged.engine.maintain()
    assert aged.engine.view(0).inbox_first() == 6


def test_another_process_may_say_it(aged: Fleet, clock: HandClock, tmp_path: Path) -> None:
    """The one that archives is not the one that does the upkeep."""
    aged.fill(4)
    aged.owner.fold_all()
    shipper = SqliteEngine(tmp_path / "data")
    shipper.keep_from(0, 0)
    shipper.close()
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts()[0] == 0


def test_past_the_bound_of_bytes_nothing_waits(sized: Fleet) -> None:
    """A store that is away for long must not fill the disk of the fleet."""
    sized.engine.keep_from(0, 0)
    sized.fill(8)
    sized.owner.fold_all()
    sized.engine.maintain()
    assert sized.firsts()[0] > 0


def test_a_mark_that_cannot_be_read_keeps_everything(
    aged: Fleet, clock: HandClock, tmp_path: Path
) -> None:
    aged.fill(4)
    aged.owner.fold_all()
    (tmp_path / "data/p000/archived").write_bytes(b"\xff\x00?")
    clock.pass_time(DAY + 60)
    aged.engine.maintain()
    assert aged.firsts()[0] == 0
