"""Goal: damage is found and named, and never read in silence.

Bytes are changed and files cut in copies of a whole directory. Then everything that can be read
is read, and everything ever sent is sent again: each answer is exactly the old one, or an error
of ours that names a path. Anything else would be a wrong state, a lost or a doubled event.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import DamagedData, HoldfastError, NewerFormat
from holdfast.model.schema import Field, Schema
from holdfast.testing.conformance.workbench import FLEET, Owner, append, parcel
from tests.engine import specimen

FLIPS = pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.soak)])  # a file
OPEN_SEGMENT = "p000/inbox/00000003-00000000000000000208.seg"
SEALED_SEGMENT = "p000/inbox/00000002-00000000000000000104.seg"
FILES = ["fleet.db", "p000/state.db", SEALED_SEGMENT, OPEN_SEGMENT]
WALS = ["p000/state.db-wal", f"{SEALED_SEGMENT}-wal", f"{OPEN_SEGMENT}-wal"]


class Original:
    """An undamaged directory and all that is read from it."""

    def __init__(self, folder: Path, *, settled: bool) -> None:
        self.root = folder / "original"
        self.place = folder / "copy"
        specimen.make(self.root, settled=settled)
        self.readings = specimen.everything(specimen.copy(self.root, self.place))
        self.repeats = specimen.repeats(self.place)
        assert not [v for v in self.readings.values() if isinstance(v, Exception)]
        assert set(self.repeats.values()) == {0}

    def damaged(self, name: str, damage: Callable[[bytes], bytes]) -> Path:
        """A fresh copy in which one file was changed."""
        path = specimen.copy(self.root, self.place) / name
        path.write_bytes(damage(path.read_bytes()))
        return self.place

    def judge(self, what: str) -> int:
        """How many answers were refused; fails on any that is wrong or badly refused."""
        readings = specimen.everything(self.place)
        repeats = specimen.repeats(self.place)
        wrong = []
        refused = 0
        for found, right in ((readings, self.readings), (repeats, self.repeats)):
            for name, value in found.items():
                if isinstance(value, HoldfastError):
                    refused += 1
                    if str(self.place) not in str(value):
                        wrong.append(f"{name}: no path in {value!r}")
                elif isinstance(value, Exception):
                    wrong.append(f"{name}: {value!r}")
                elif value != right[name]:
                    wrong.append(f"{name}: {value!r:.100} instead of {right[name]!r:.100}")
        assert not wrong, f"{what}: {wrong[:5]}"
        return refused


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Everything is in the files themselves."""
    return Original(tmp_path_factory.mktemp("settled"), settled=True)


@pytest.fixture(scope="module")
def unsettled(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """As a killed process leaves it: the newest data is in the WALs."""
    return Original(tmp_path_factory.mktemp("unsettled"), settled=False)


def flips(name: str, data: bytes, count: int) -> list[tuple[int, int]]:
    """Where and how to change a byte: used bytes, and the heads of pages, which steer searches."""
    chance = random.Random(f"{name} 1")
    used = [i for i, byte in enumerate(data) if byte or i % 8192 < 64]
    return [(chance.choice(used), 1 << chance.randrange(8)) for _ in range(count)]


def changed(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@FLIPS
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found(settled: Original, name: str, count: int) -> None:
    data = (settled.root / name).read_bytes()
    refused = 0
    for at, bits in flips(name, data, count):
        settled.damaged(name, lambda old, a=at, b=bits: changed(old, a, b))  # type: ignore[misc]
        refused += bool(settled.judge(f"{name}: byte {at} ^ {bits}"))
    assert refused > count / 3, "hardly any damage was met: the test hits unused bytes"


@FLIPS
@pytest.mark.parametrize("name", WALS)
def test_a_flipped_bit_in_a_wal_is_found(unsettled: Original, name: str, count: int) -> None:
    """SQLite takes it for a torn last write and forgets what comes after it, without a word."""
    data = (unsettled.root / name).read_bytes()
    for at, bits in flips(name, data, count // 2):
        unsettled.damaged(name, lambda old, a=at, b=bits: changed(old, a, b))  # type: ignore[misc]
        assert unsettled.judge(f"{name}: byte {at} ^ {bits}"), "nobody noticed"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_cut_file_is_found(settled: Original, name: str, share: float) -> None:
    settled.damaged(name, lambda old: old[: int(len(old) * share)])
    refused = settled.judge(f"{name} cut to {share:.0%}")
    if name == SEALED_SEGMENT and share == 0.9:
        return  # at its end stand dedupe rows that nobody reads any more
    assert refused, "nobody noticed"


@pytest.mark.parametrize("name", WALS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.98])
def test_a_cut_wal_is_found(unsettled: Original, name: str, share: float) -> None:
    unsettled.damaged(name, lambda old: old[: int(len(old) * share)])
    assert unsettled.judge(f"{name} cut to {share:.0%}"), "nobody noticed"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", FILES)
def test_a_page_of_zeros_is_found(settled: Original, name: str, step: int) -> None:
    for page in range(0, (settled.root / name).stat().st_size // 8192, step):
        at = page * 8192
        settled.damaged(name, lambda old, a=at: old[:a] + bytes(8192) + old[a + 8192 :])  # type: ignore[misc]
        settled.judge(f"{name}: page {page} zeroed")
    settled.damaged(name, lambda old: bytes(8192) + old[8192:])
    assert settled.judge(f"{name}: first page zeroed")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(settled: Original, name: str) -> None:
    (specimen.copy(settled.root, settled.place) / name).unlink()
    assert settled.judge(f"{name} removed"), "nobody noticed"
    if name != SEALED_SEGMENT:
        messages = [str(v) for v in specimen.everything(settled.place).values()]
        assert any(f"{name}: damaged (the file is missing)" in text for text in messages)


@pytest.mark.parametrize("name", WALS)
def test_a_missing_wal_is_named(unsettled: Original, name: str) -> None:
    place = specimen.copy(unsettled.root, unsettled.place)
    for ending in ("wal", "shm"):
        (place / name.replace("-wal", f"-{ending}")).unlink()
    assert unsettled.judge(f"{name} removed"), "nobody noticed"


def test_a_missing_folder_is_named(settled: Original) -> None:
    shutil.rmtree(specimen.copy(settled.root, settled.place) / "p000/inbox")
    assert settled.judge("the inbox removed")
    shutil.rmtree(specimen.copy(settled.root, settled.place) / "p000")
    assert settled.judge("the partition removed")


def test_garbage_instead_of_a_file_is_named(settled: Original) -> None:
    for name in FILES:
        settled.damaged(name, lambda old: random.Random(1).randbytes(len(old)))
        assert settled.judge(f"{name} garbled")


def test_an_inbox_and_a_state_of_different_lives_are_not_mixed(
    settled: Original, tmp_path: Path
) -> None:
    SqliteEngine.create(tmp_path / "other", FLEET, 2)
    place = specimen.copy(settled.root, settled.place)
    for name in ("appended", "committed"):
        (place / "p000" / name).unlink()
    shutil.rmtree(place / "p000/inbox")
    shutil.copytree(tmp_path / "other/p000/inbox", place / "p000/inbox")
    engine = SqliteEngine(place)
    with pytest.raises(DamagedData, match=f"{place}/p000: .*different partitions"):
        Owner.of(engine)
    engine.close()


def test_a_worker_does_not_fold_past_lost_events(settled: Original) -> None:
    """The state has folded 140 events; the segment with 104 to 208 is gone."""
    (specimen.copy(settled.root, settled.place) / SEALED_SEGMENT).unlink()
    engine = SqliteEngine(settled.place)
    with pytest.raises(DamagedData, match=r"inbox.*missing"):
        engine.read(0, 140, 100)
    engine.close()


def test_a_worker_does_not_begin_behind_lost_events(settled: Original) -> None:
    """The oldest segments are gone, as after retention, but nobody had folded them."""
    place = specimen.copy(settled.root, settled.place)
    for path in sorted((place / "p000/inbox").glob("*.seg"))[:2]:
        path.unlink()
    engine = SqliteEngine(place)
    with pytest.raises(DamagedData, match=r"p000/inbox: .*events 140 to 208 are missing"):
        Owner.of(engine)
    engine.close()


def test_a_new_append_after_a_lost_wal_does_not_reuse_positions(unsettled: Original) -> None:
    place = specimen.copy(unsettled.root, unsettled.place)
    for ending in ("wal", "shm"):
        (place / f"{OPEN_SEGMENT}-{ending}").unlink()
    engine = SqliteEngine(place, specimen.LIMITS)
    with pytest.raises(DamagedData, match="was acknowledged"):
        append(engine, parcel(["new"]))
    engine.close()


@pytest.mark.parametrize(
    ("name", "statement", "readers"),
    [
        (OPEN_SEGMENT, "DELETE FROM frames WHERE first=(SELECT max(first) FROM frames)", "frames"),
        (
            SEALED_SEGMENT,
            "DELETE FROM frames WHERE first=(SELECT max(first) FROM frames)",
            "frames",
        ),
        (SEALED_SEGMENT, "DELETE FROM frames WHERE first=109", "frames"),
        (SEALED_SEGMENT, "DELETE FROM frames WHERE first=104", "frames"),
        (OPEN_SEGMENT, "DELETE FROM head", "frames inbox_next marks"),
        ("p000/state.db", "DELETE FROM head", "view"),
        ("p000/state.db", "DELETE FROM delta WHERE id=3", "records d-0001"),
        ("p000/state.db", "DELETE FROM actions WHERE first=1", "actions"),
        ("p000/state.db", "DELETE FROM actions WHERE first=3", "actions"),
        ("p000/state.db", "DELETE FROM journal WHERE first=2", "journal"),
        ("p000/state.db", "DELETE FROM letters WHERE id=2", "letters"),
        ("p000/state.db", "UPDATE letters SET redriven=1 WHERE id=2", "letters"),
        ("p000/state.db", "DELETE FROM about WHERE name='generation'", "incarnation owner"),
        ("fleet.db", "DELETE FROM slots WHERE partition=1", "engine"),
        ("fleet.db", "DELETE FROM about", "engine"),
    ],
)
def test_a_row_that_vanished_is_missed(
    settled: Original, name: str, statement: str, readers: str
) -> None:
    """As when a page of the tree has lost its way: what is left looks sound by itself."""
    place = specimen.copy(settled.root, settled.place)
    connection = apsw.Connection(str(place / name))
    connection.execute(statement)
    connection.close()
    found = specimen.everything(place)
    for reader in readers.split():
        assert isinstance(found[reader], DamagedData), f"{reader}: {found[reader]!r:.200}"


def test_a_flipped_bit_in_the_definition_of_a_table_is_found(settled: Original) -> None:
    """Q for R, one bit: the column would not be the position any more, and read as nothing."""
    for name, column in ((OPEN_SEGMENT, b"first"), ("p000/state.db", b"position")):
        before, after = column + b" INTEGER PRIMARY KEY", column + b" INTEGEQ PRIMARY KEY"
        settled.damaged(name, lambda old, b=before, a=after: old.replace(b, a))  # type: ignore[misc]
        assert settled.judge(f"{name}: {after!r}")
        found = specimen.everything(settled.place).values()
        assert any("definitions do not match" in str(value) for value in found)


def test_schema_ids_survive_the_loss_of_a_wal(tmp_path: Path) -> None:
    """An id given out twice would read the events of one class as those of another."""
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data")
    first = Schema("event", "First", (Field("x", "float", True),))
    second = Schema("event", "Second", (Field("x", "float", True),))
    for one in (first, second):
        engine.catalog.register([one])
    shutil.copy(tmp_path / "data/fleet.db", tmp_path / "fleet.db")
    engine.close()
    for path in (tmp_path / "data").glob("fleet.db*"):
        path.unlink()
    shutil.copy(tmp_path / "fleet.db", tmp_path / "data/fleet.db")
    again = SqliteEngine(tmp_path / "data")
    assert again.catalog.schemas() == {1: first, 2: second}
    again.close()


@pytest.mark.parametrize("name", FILES)
def test_a_newer_format_is_refused_by_name(settled: Original, name: str) -> None:
    """SQLite keeps the version that a file has for us at byte 60, four bytes, big end first."""
    settled.damaged(name, lambda old: old[:60] + (7).to_bytes(4, "big") + old[64:])
    found = specimen.everything(settled.place).values()
    newer = [str(value) for value in found if isinstance(value, NewerFormat)]
    assert newer
    newest = 5 if name.endswith("state.db") else 2
    assert all(f"{name}: format 7, this release reads {newest}" in text for text in newer)
