"""Goal: after damage a person learns what is left, without a single byte being changed by asking.

Salvage is run on damaged copies of a whole directory. What it says is compared with what was
written, and the directory afterwards with the directory before.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.salvage import FileReport, Report, Span, salvage
from holdfast.testing.conformance.workbench import append, parcel
from tests.engine import specimen
from tests.engine.test_sqlite_damage import FILES, OPEN_SEGMENT, SEALED_SEGMENT, changed, flips

STATE = "p000/state.db"


@pytest.fixture(scope="module", params=[True, False], ids=["settled", "unsettled"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("salvage") / "original"
    specimen.make(root, settled=request.param)
    return root


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("salvage") / "original"
    specimen.make(root)
    return root


def fingerprint(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def look(place: Path) -> Report:
    """Salvage, and see that it touched nothing."""
    before = fingerprint(place)
    report = salvage(place)
    assert fingerprint(place) == before, "salvage changed something"
    return report


def of(report: Report, name: str) -> FileReport:
    return next(file for file in report.files if file.path == report.root / name)


def damage(root: Path, tmp_path: Path, name: str, act: Callable[[bytes], bytes]) -> Path:
    place = specimen.copy(root, tmp_path / "copy")
    (place / name).write_bytes(act((place / name).read_bytes()))
    return place


def test_of_an_intact_directory_everything_is_intact(original: Path) -> None:
    report = look(original)
    assert report.intact
    assert [line[:2] for line in report.lines()] == ["ok"] * len(report.files)
    assert of(report, "fleet.db").facts == ["fleet 'conformance'", "2 partitions", "5 schemas"]
    assert of(report, SEALED_SEGMENT).events == [Span(104, 208)]
    assert of(report, OPEN_SEGMENT).events == [Span(208, 312)]
    assert of(report, STATE).states_intact == specimen.STATES
    assert {file.path.parts[-2:][0] for file in report.files} >= {"p000", "p001", "inbox"}


def test_a_damaged_frame_is_lost_and_its_neighbours_are_not(settled: Path, tmp_path: Path) -> None:
    marker = b"source-07.7"  # in the payload of the frame at position 104 + 7 * 5

    def spoil(old: bytes) -> bytes:
        assert marker in old
        return old.replace(marker, b"source-07.X", 1)

    report = look(damage(settled, tmp_path, SEALED_SEGMENT, spoil))
    found = of(report, SEALED_SEGMENT)
    assert found.readable
    assert found.events == [Span(104, 139), Span(144, 208)]
    assert found.damages == [
        "the frame at position 139 does not match its checksum",
        "events 139 to 144 are lost",
    ]
    assert [file.path.name for file in report.files if file.damages] == [found.path.name]


def test_a_damaged_state_is_counted_and_named(settled: Path, tmp_path: Path) -> None:
    def spoil(old: bytes) -> bytes:
        assert b"state of 77" in old
        return old.replace(b"state of 77", b"state of 78", 1)

    found = of(look(damage(settled, tmp_path, STATE, spoil)), STATE)
    assert (found.states_intact, found.states_damaged) == (specimen.STATES - 1, 1)
    assert found.damages == ["the state of Drone/d-0077 does not match its checksum"]


@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_read_at_all_is_said_to_be_so(
    settled: Path, tmp_path: Path, name: str
) -> None:
    report = look(damage(settled, tmp_path, name, lambda old: b"garbage" * 1000))
    found = of(report, name)
    assert not found.readable
    assert found.damages
    assert not found.events
    assert found.states_intact == 0
    others = [file for file in report.files if file.path != found.path]
    assert not any(file.damages for file in others)
    assert any(line.startswith("bad") and name in line for line in report.lines())


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_listed(settled: Path, tmp_path: Path, name: str) -> None:
    place = specimen.copy(settled, tmp_path / "copy")
    (place / name).unlink()
    report = look(place)
    assert not report.intact
    if name == SEALED_SEGMENT:
        damages = of(report, "p000/inbox/00000001-00000000000000000000.seg").damages
        assert damages == ["1 segments after it are missing"]
    elif name == OPEN_SEGMENT:
        assert of(report, SEALED_SEGMENT).damages == [
            "events 208 to 312 were acknowledged and are not here"
        ]
    else:
        assert of(report, name).damages == ["the file is missing"]


def test_a_missing_partition_is_listed(settled: Path, tmp_path: Path) -> None:
    place = specimen.copy(settled, tmp_path / "copy")
    shutil.rmtree(place / "p001")
    report = look(place)
    assert of(report, "p001/state.db").damages == ["the file is missing"]
    assert of(report, "p001/inbox").damages == ["the inbox has no segment"]


def test_a_lost_wal_is_told_from_a_quiet_inbox(tmp_path: Path) -> None:
    specimen.make(tmp_path / "data", settled=False)
    for ending in ("wal", "shm"):
        (tmp_path / "data" / f"{OPEN_SEGMENT}-{ending}").unlink()
        (tmp_path / "data" / f"{STATE}-{ending}").unlink()
    report = look(tmp_path / "data")
    assert (
        "events 208 to 312 were acknowledged and are not here" in of(report, OPEN_SEGMENT).damages
    )
    assert any("commits 1 to 7 are not here" in reason for reason in of(report, STATE).damages)


@pytest.mark.parametrize("name", FILES)
def test_no_damage_makes_it_stumble(settled: Path, tmp_path: Path, name: str) -> None:
    """It never raises, and never calls intact what the engine refuses to read."""
    right = specimen.everything(specimen.copy(settled, tmp_path / "right"))
    for at, bits in flips(f"salvage {name}", (settled / name).read_bytes(), 8):
        place = damage(settled, tmp_path, name, lambda old, a=at, b=bits: changed(old, a, b))  # type: ignore[misc]
        report = look(place)
        if report.intact:
            assert specimen.everything(place) == right, f"{name}: byte {at} ^ {bits}"


def test_a_running_fleet_keeps_its_locks(tmp_path: Path) -> None:
    """Looking from a process that has the files open must not let another writer in."""
    specimen.make(tmp_path / "data", settled=False)
    engine = SqliteEngine(tmp_path / "data", specimen.LIMITS)
    append(engine, parcel(["a"]))
    connection = engine._inbox(0)._newest().connection
    connection.execute("BEGIN IMMEDIATE")
    assert salvage(tmp_path / "data").intact
    other = SqliteEngine(tmp_path / "data", specimen.LIMITS)
    rival = other._inbox(0)._newest().connection
    rival.set_busy_timeout(0)
    with pytest.raises(Exception, match="locked"):
        rival.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    other.close()
    engine.close()
