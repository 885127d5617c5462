"""Goal: whoever leaves something behind fails, by name; what a living fixture holds is nobody's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import leftovers

PYTEST = [sys.executable, "-m", "pytest", "-q", "-rN", "--color=no"]
LEAVES = """
import os, socket, subprocess, sys, tempfile, threading

kept = []

def test_a_thread():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left-thread", daemon=True)
    thread.start()

def test_a_child():
    kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"]))

def test_an_orphan():
    inner = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', '''%s'''])"
    subprocess.run([sys.executable, "-c", inner % "import time; time.sleep(21)"], check=True)

def test_a_child_nobody_has_waited_for():
    kept.append(os.posix_spawn("/bin/true", ["true"], os.environ))

def test_a_port():
    kept.append(socket.create_server(("127.0.0.1", 0)))

def test_an_open_file():
    kept.append(open(__file__))

def test_a_temporary_file():
    kept.append(tempfile.mkdtemp(prefix="left-folder-"))
"""
CLEAN = """
import os, subprocess, sys, tempfile, threading, pytest

@pytest.fixture(scope="module")
def shared():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
    with open(__file__):
        yield
    child.kill()
    child.wait()

def test_uses_what_is_shared(shared):
    global opened  # on behalf of the fixture
    opened = open(__file__)

def test_the_last_one(shared):
    opened.close()

def test_alone():
    threading.Timer(0.1, lambda: None).start()  # ends by itself, a moment later
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with tempfile.TemporaryDirectory():
        pass
"""
FIXTURE_THAT_LEAVES = """
import pytest

@pytest.fixture(scope="module")
def shared():
    global opened
    opened = open(__file__)

def test_first(shared): pass
def test_last(shared): pass
"""


def run(folder: Path, text: str, patience_seconds: float = 0.2) -> str:
    (folder / "conftest.py").write_text(
        f"from tests.run import leftovers\nleftovers.PATIENCE_SECONDS = {patience_seconds}\n"
    )
    (folder / "test_it.py").write_text(text)
    (folder / "temporary").mkdir()
    # no summary: it says what is left once more, in one line or, where `CI` is set, in all
    words = ["-p", "tests.run.leftovers", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*PYTEST, *words, "--rootdir", folder, folder],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_each_kind_is_named_with_the_test_that_leaves_it(tmp_path: Path) -> None:
    told = run(tmp_path, LEAVES)
    assert "7 passed, 7 errors" in told
    blamed = told.split(" leaves behind:\n")
    for part, name, words in zip(
        blamed[1:],
        (
            *("thread 'left-thread'", "time.sleep(20)", "time.sleep(21)"),
            *("a child that nobody has waited for", "listening", "test_it.py", "left-folder-"),
        ),
        ("thread", "process", "process", "process", "descriptor", "descriptor", "temporary file"),
        strict=True,
    ):
        first = part.splitlines()[0]
        assert name in first, told
        assert words in first, told


def test_what_ends_in_time_or_is_shared_is_nobodys(tmp_path: Path) -> None:
    assert "3 passed" in (told := run(tmp_path, CLEAN, patience_seconds=60.0)), told
    assert "error" not in told


def test_a_fixture_that_leaves_something_is_found_at_its_end(tmp_path: Path) -> None:
    told = run(tmp_path, FIXTURE_THAT_LEAVES)
    assert "2 passed, 1 error" in told
    assert "::test_last leaves behind:" in told


def test_one_in_the_middle_of_an_exec_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no variables at that moment, and is told from others by one of them."""
    reads = iter([b"", b"", f"A=b\0{leftovers.MARK}={os.getpid()}\0".encode()])
    monkeypatch.setattr(leftovers, "_stat", lambda pid: ["R", "1"])
    monkeypatch.setattr(Path, "read_bytes", lambda path: next(reads))
    assert leftovers._is_ours(4711)
