"""Goal: whoever names the wrong place gets one clear line of ours, and nothing there is touched."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.folders import PARTITIONS_MAX
from holdfast.engine.urls import DEFAULT_URL, open_engine, parse
from holdfast.errors import DamagedData, HoldfastError, NotYet, UsageError, WrongFleet
from holdfast.testing.conformance.workbench import FLEET, Owner, append, inbox, parcel
from tests.engine.test_sqlite_processes import ENVIRONMENT

# URLs.


def test_settings_come_with_the_url() -> None:
    wanted = parse("sqlite:some/where?partitions=4&segment_bytes=1000&retain_seconds=2.5")
    assert (wanted.scheme, wanted.root, wanted.partitions) == ("sqlite", Path("some/where"), 4)
    assert wanted.limits == Limits(segment_bytes=1000, retain_seconds=2.5)
    assert parse("sqlite:").root == parse(DEFAULT_URL).root


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "unknown engine ''"),
        ("memory", "unknown engine 'memory'"),
        ("mysql:here", "unknown engine 'mysql:here'"),
        ("/tmp/data", "unknown engine '/tmp/data'"),
        ("sqlite:x?speed=9", "unknown engine setting 'speed': known are partitions"),
        ("sqlite:x?partitions=many", "partitions='many' is no int"),
        ("sqlite:x?partitions=0", "partitions='0' must be more than 0"),
        ("sqlite:x?retain_seconds=-1", "retain_seconds='-1' must be more than 0"),
        ("sqlite:x?retain_seconds=nan", "retain_seconds='nan' must be more than 0"),
        ("sqlite:x?segment_bytes=", "segment_bytes='' is no int"),
    ],
)
def test_a_wrong_url_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(url)


@pytest.mark.parametrize("scheme", ["nats://x", "redis://x"])
def test_engines_of_later_releases_say_so(scheme: str) -> None:
    with pytest.raises(NotYet, match="comes with a later release"):
        parse(scheme)


def test_memory_lives_in_one_process() -> None:
    engine = open_engine("memory:?partitions=3", FLEET)
    assert isinstance(engine, MemoryEngine)
    assert len(engine.catalog.layout.partitions) == 3
    with pytest.raises(UsageError, match="one process"):
        open_engine("memory:", None)


# Places.


def test_an_empty_place_holds_no_fleet(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "not/there"):
        with pytest.raises(UsageError, match=f"{root}: no fleet here"):
            open_engine(f"sqlite:{root}", None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    for create in (None, 1):
        with pytest.raises(UsageError, match=f"{path}: is a file"):
            open_engine(f"sqlite:{path}", FLEET, create_partitions=create)
        with pytest.raises(UsageError, match=f"{path}"):
            open_engine(f"sqlite:{path}/below", FLEET, create_partitions=create)
    assert path.read_text() == "mine"


def test_data_of_another_fleet_is_refused(tmp_path: Path) -> None:
    SqliteEngine.create(tmp_path / "data", "theirs", 1)
    with pytest.raises(WrongFleet, match=f"{tmp_path}/data: holds fleet 'theirs', not 'ours'"):
        open_engine(f"sqlite:{tmp_path}/data", "ours", create_partitions=1)
    open_engine(f"sqlite:{tmp_path}/data", None).close()


@pytest.mark.parametrize("partitions", [0, PARTITIONS_MAX + 1])
def test_an_impossible_number_of_partitions_is_refused(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(UsageError, match=f"{partitions} partitions"):
        SqliteEngine.create(tmp_path / "data", FLEET, partitions)
    assert not (tmp_path / "data/fleet.db").exists()


def test_many_partitions_can_be_owned_and_waited_for(tmp_path: Path) -> None:
    """They need more descriptors than `select` can take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    SqliteEngine.create(tmp_path / "data", FLEET, 2)
    engine = SqliteEngine(tmp_path / "data")
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert len(list(engine.assignments([0, 1], 1))) == 2
        assert max(engine._waiting.fifos.values()) > 1024
        append(engine, parcel(["a"]), 1)
        engine.wait(5.0)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        engine.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# What is there already.


def test_a_lost_catalog_does_not_cost_the_data(tmp_path: Path) -> None:
    """Without fleet.db the place looks new. Laying out a new fleet there would erase the old."""
    root = tmp_path / "data"
    SqliteEngine.create(root, FLEET, 2)
    engine = SqliteEngine(root)
    append(engine, parcel(["precious"]), 1)
    engine.close()
    (root / "fleet.db").rename(tmp_path / "aside")
    for ending in ("-wal", "-shm"):
        (root / f"fleet.db{ending}").unlink(missing_ok=True)
    with pytest.raises(DamagedData, match=f"{root}/fleet.db: damaged .the file is missing"):
        open_engine(f"sqlite:{root}", FLEET, create_partitions=2)
    (tmp_path / "aside").rename(root / "fleet.db")
    engine = SqliteEngine(root)
    assert inbox(engine, 1) == ["precious"]
    engine.close()


def test_a_claimed_state_is_data_too(tmp_path: Path) -> None:
    root = tmp_path / "data"
    SqliteEngine.create(root, FLEET, 1)
    engine = SqliteEngine(root)
    Owner.of(engine).commit()
    engine.close()
    (root / "fleet.db").unlink()
    with pytest.raises(DamagedData, match=r"fleet\.db: damaged .the file is missing"):
        SqliteEngine.create(root, FLEET, 1)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    photos = tmp_path / "p000"
    photos.mkdir()
    (photos / "holiday.jpg").write_text("sea")
    with pytest.raises(HoldfastError, match=r"holiday\.jpg is here"):
        open_engine(f"sqlite:{tmp_path}", FLEET, create_partitions=1)
    assert (photos / "holiday.jpg").read_text() == "sea"


@pytest.mark.parametrize("cut", ["nothing", "inbox", "state", "half a file"])
def test_a_layout_that_was_killed_is_begun_again(tmp_path: Path, cut: str) -> None:
    root = tmp_path / "data"
    SqliteEngine.create(root, FLEET, 2)
    (root / "fleet.db").unlink()
    if cut == "inbox":
        for path in (root / "p001/inbox").iterdir():
            path.unlink()
    elif cut == "state":
        (root / "p001/state.db").unlink()
    elif cut == "half a file":
        (root / "p001/state.db").rename(root / "p001/state.db.new")
    SqliteEngine.create(root, FLEET, 3)
    engine = SqliteEngine(root)
    for number in range(3):
        append(engine, parcel(["a"]), number)
    engine.close()


def test_laying_out_twice_is_laying_out_once(tmp_path: Path) -> None:
    SqliteEngine.create(tmp_path / "data", FLEET, 2)
    engine = SqliteEngine(tmp_path / "data")
    append(engine, parcel(["a"]))
    engine.close()
    SqliteEngine.create(tmp_path / "data", FLEET, 7)
    engine = SqliteEngine(tmp_path / "data")
    assert len(engine.catalog.layout.partitions) == 2
    assert inbox(engine) == ["a"]
    engine.close()


# Permissions: tried as somebody else, for whom they hold.

TRY = """
import os, sys
from holdfast.engine.urls import open_engine
from holdfast.errors import HoldfastError
from holdfast.testing.conformance.workbench import FLEET, Owner, append, parcel
os.setgroups([])
os.setgid(65534)
os.setuid(65534)  # nobody
for root in sys.argv[1:]:
    try:
        engine = open_engine(f"sqlite:{root}", FLEET, create_partitions=1)
        append(engine, parcel(["a"]))
        Owner.of(engine)
    except HoldfastError as error:
        print(type(error).__name__, error)
    else:
        print("allowed")
"""


class Nobody:
    """Fleets in a place that everybody may enter, and somebody without rights who tries them."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fleet(self, name: str) -> Path:
        """A fleet of which everybody may do everything."""
        root = self.place / name / "data"
        SqliteEngine.create(root, FLEET, 1)
        for path in (root.parent, root, *root.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        return root

    def tries(self, *roots: Path) -> list[str]:
        """What nobody gets when he opens, appends and claims."""
        done = subprocess.run(
            [sys.executable, "-c", TRY, *map(str, roots)],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def nobody() -> Iterator[Nobody]:
    if os.geteuid() != 0:
        pytest.skip("only root can try as somebody else")
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Nobody(Path(place))


def test_no_permission_for_the_directory(nobody: Nobody) -> None:
    allowed, closed, unwritable, below = map(nobody.fleet, ("all", "closed", "fixed", "below"))
    closed.chmod(0o700)
    unwritable.chmod(0o755)
    below.parent.chmod(0o700)
    new = nobody.place / "new"
    found = nobody.tries(allowed, closed, unwritable, below, new)
    assert found[0] == "allowed", "the others would be refused for the wrong reason"
    assert found[1].startswith(f"UsageError {closed}: no permission")
    assert found[2].startswith(f"UsageError {unwritable}: no permission")
    assert found[3].startswith(f"UsageError {below}: no permission")
    assert found[4].startswith(f"UsageError {nobody.place}: no permission")
    assert not new.exists()


def test_no_permission_for_one_of_the_files(nobody: Nobody) -> None:
    cases = [
        ("fleet.db", 0o000),
        ("p000", 0o000),
        ("p000/state.db", 0o000),
        ("p000/state.db", 0o444),
        ("p000/inbox", 0o000),
        ("p000/inbox", 0o555),
        ("p000/inbox/*.seg", 0o444),
    ]
    roots = []
    for number, (name, mode) in enumerate(cases):
        roots.append(nobody.fleet(str(number)))
        next(roots[-1].glob(name)).chmod(mode)
    for root, case, line in zip(roots, cases, nobody.tries(*roots), strict=True):
        assert line.startswith("UsageError"), f"{case}: {line}"
        assert str(root) in line, f"{case}: {line}"
