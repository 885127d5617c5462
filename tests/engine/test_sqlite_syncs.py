"""Goal: an acknowledged append has cost exactly one sync, and so has a commit.

Fewer would break the promise about power loss; more would halve the speed. docs/operating.md says
the same numbers. They are counted where SQLite calls the operating system, and once more by the
kernel's own account where strace is installed.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.test_sqlite_processes import ENVIRONMENT
from tests.servers.missing import missing

ROUNDS = 10

COUNTING = """
import json, os, sys
from pathlib import Path
import apsw
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.testing.conformance.workbench import (
    FLEET, Owner, append, messages, numbered, parcel, record
)

synced = []

class File(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("unix", name, flags)
        self.name = os.path.basename(name.filename() if hasattr(name, "filename") else name)
    def xSync(self, flags):
        synced.append(self.name)
        super().xSync(flags)

class System(apsw.VFS):
    def __init__(self):
        super().__init__("counting", "unix", makedefault=True)
    def xOpen(self, name, flags):
        return File(name, flags)

def fsync(descriptor, real=os.fsync):
    synced.append("os.fsync")
    real(descriptor)

system = System()
os.fsync = fsync
root = Path(sys.argv[1])
SqliteEngine.create(root, FLEET, 1)
engine = SqliteEngine(root)
owner = Owner.of(engine)
append(engine, numbered("gcs", [0]))
append(engine, messages("1-abc", 1, 1))
owner.commit([record("d-0", "x")], events=1)

def count(act):
    del synced[:]
    act()
    return list(synced)

rounds = range(1, int(sys.argv[2]) + 1)
print(json.dumps({
    "append": [count(lambda: append(engine, numbered("gcs", [i]))) for i in rounds],
    "group": [count(lambda: engine.append(0, [parcel(["x"])] * 50)) for _ in rounds],
    "repeat": [count(lambda: append(engine, numbered("gcs", [i]))) for i in rounds],
    "message": [count(lambda: append(engine, messages("1-abc", i + 1, 1))) for i in rounds],
    "commit": [count(lambda: owner.commit([record("d-1", "x", i)], events=1)) for i in rounds],
    "read": [count(lambda: (engine.read(0, 0, 100), engine.view(0).head(),
                            engine.view(0).record("Drone", "d-1"))) for _ in rounds],
}))
engine.close()
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    root = tmp_path_factory.mktemp("syncs") / "data"
    printed = subprocess.run(
        [sys.executable, "-c", COUNTING, str(root), str(ROUNDS)],
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, list[list[str]]] = json.loads(printed)
    return found


@pytest.mark.parametrize("what", ["append", "group", "message"])
def test_an_append_costs_one_sync(counted: dict[str, list[list[str]]], what: str) -> None:
    segment = "00000001-00000000000000000000.seg-wal"
    assert counted[what] == [[segment]] * ROUNDS


def test_a_commit_costs_one_sync(counted: dict[str, list[list[str]]]) -> None:
    assert counted["commit"] == [["state.db-wal"]] * ROUNDS


def test_a_repeat_costs_at_most_one_sync(counted: dict[str, list[list[str]]]) -> None:
    assert all(len(each) <= 1 for each in counted["repeat"])


def test_reading_costs_no_sync(counted: dict[str, list[list[str]]]) -> None:
    assert counted["read"] == [[]] * ROUNDS


TRACED = """
import os, sys
from pathlib import Path
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.testing.conformance.workbench import FLEET, Owner, append, numbered, record

root = Path(sys.argv[1])
SqliteEngine.create(root, FLEET, 1)
engine = SqliteEngine(root)
owner = Owner.of(engine)
append(engine, numbered("gcs", [0]))
owner.commit([record("d-0", "x")], events=1)
os.mkdir(root / "appends")
for i in range(1, int(sys.argv[2]) + 1):
    append(engine, numbered("gcs", [i]))
os.mkdir(root / "commits")
for i in range(1, int(sys.argv[2]) + 1):
    owner.commit([record("d-1", "x", i)], events=1)
os.mkdir(root / "end")
os._exit(0)
"""


def test_the_kernel_counts_the_same(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        missing("strace", "install strace")
    log = tmp_path / "log"
    calls = "trace=fsync,fdatasync,sync_file_range,msync,sync,mkdir,mkdirat"
    command = [sys.executable, "-c", TRACED, str(tmp_path / "data"), str(ROUNDS)]
    traced = subprocess.run(
        ["strace", "-f", "-e", calls, "-o", str(log), *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    if traced.returncode != 0 and "ptrace" in traced.stderr:
        missing("the right to trace", "allow ptrace here")
    assert traced.returncode == 0, traced.stderr
    text = log.read_text()
    appends = text.split('/appends"')[1].split('/commits"')[0]
    commits = text.split('/commits"')[1].split('/end"')[0]
    assert appends.count("sync(") == ROUNDS
    assert commits.count("sync(") == ROUNDS
