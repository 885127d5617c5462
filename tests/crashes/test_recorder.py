"""Goal: the record has everything that was done to the disk, and every sync.

All of it done again gives the directory that is really there, byte by byte. The syncs are counted
once more by the kernel, where strace is installed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.crashes.disk import Disk
from tests.crashes.script import Run
from tests.engine.test_sqlite_processes import ENVIRONMENT
from tests.servers.missing import missing


def test_the_record_done_again_is_the_directory(run: Run, place: Path) -> None:
    disk = Disk()
    for operation in run.operations:
        disk.apply(operation)
    entries = disk.image({}).entries
    base = place / "recorded"
    real = [path for path in base.rglob("*") if not path.name.endswith("-shm")]
    assert set(entries) == {str(path.relative_to(base)) for path in real}
    for path in real:
        content = path.read_bytes() if path.is_file() else None
        assert entries[str(path.relative_to(base))] == content, path


def test_the_workload_does_all_there_is(run: Run) -> None:
    done = {type(operation).__name__ for operation in run.operations}
    assert done == {"Write", "Cut", "Make", "Rename", "Unlink", "Sync"}
    names = {operation.path for operation in run.operations}
    assert {
        "data/fleet.db",
        "data/fleet.db-wal",
        "data/p000/committed",
        "data/p000/appended",
    } < names
    segments = {
        name for name in names if name.startswith("data/p000") and name.endswith(".seg-wal")
    }
    assert len(segments) > 3


CALLS = "trace=fsync,fdatasync,sync_file_range,msync,sync"
COUNTED = """
import sys
from pathlib import Path
from tests.crashes import workload
from tests.crashes.disk import Sync
run = workload.run(Path(sys.argv[1]))
print(sum(isinstance(operation, Sync) for operation in run.operations))
"""


def test_the_kernel_counts_as_many_syncs(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        missing("strace", "install strace")
    log = tmp_path / "log"
    base = tmp_path / "base"
    base.mkdir()
    traced = subprocess.run(
        ["strace", "-f", "-e", CALLS, "-o", str(log), sys.executable, "-c", COUNTED, str(base)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    if traced.returncode != 0 and "ptrace" in traced.stderr:
        missing("the right to trace", "allow ptrace here")
    assert traced.returncode == 0, traced.stderr
    above = 1  # of the folder above ours, which is not in the record
    assert log.read_text().count("sync(") == int(traced.stdout) + above
    assert int(traced.stdout) > 100
