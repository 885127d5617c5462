"""Goal: plain functions run in processes of their own, and however one ends, it is told once, the
others go on, and nothing is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime.calling import processes as executor
from holdfast.runtime.calling.port import CALL_ERROR_LENGTH_MAX, Function
from tests.kills.harness import ROOT, gone, process_state, wait_until
from tests.runtime.calling import functions as f
from tests.runtime.calling.attempts import Bench, open_descriptors, processes

Failures = dict[str, tuple[Function, tuple[object, ...], str, str, bool]]
# Function, arguments, the reason told, a part of the error, and whether to try again.
FAILURES: Failures = {
    "raises": (f.fail, ("no route",), "error", "ValueError: no route (functions.py, line", True),
    "sys.exit": (f.leave, (3,), "error", "SystemExit: 3", True),
    "os._exit": (f.die, (3,), "died", "its process ended with exit code 3", True),
    "crash": (f.crash, (), "died", "its process was ended by SIGSEGV", True),
    "real-time signal": (f.strike, (40,), "died", "its process was ended by signal 40", True),
    "no descriptors": (f.close_all, (), "died", "its process ended", True),
    "half a message": (f.scribble, ("03000000c1c1c1",), "died", "its process", True),
    "no message of ours": (f.scribble, ("03000000920105",), "died", "its process", True),
    "unencodable": (f.fail_unencodable, (), "error", "FileNotFoundError: caf?.txt", True),
    "large": (f.large, (1_100_000,), "too-large", "of 1,100,006 bytes, the bound is", False),
    "wrong event": (f.other, (), "wrong-reply", "other returned Other(", False),
    "no event": (f.number, (), "wrong-reply", "number returned 7: return a Told", False),
    "unpackable": (f.unpackable, (), "wrong-reply", "returned a Told that cannot be packed", False),
    "too few": (f.tell, (), "error", "tell does not take the arguments of this call", False),
    "too many": (f.tell, ("a", "b"), "error", "too many positional arguments", False),
    "misfit": (f.tell, (7,), "error", "text: Expected `str`, got `int`", False),
}


@pytest.fixture(scope="module")
def bench() -> object:
    with processes() as made:
        yield made


def test_a_function_runs_in_another_process_that_is_used_again(bench: Bench) -> None:
    first, second = bench.text(f.own_pid), bench.text(f.own_pid)
    assert first == second != str(os.getpid())


def test_arguments_are_what_the_annotations_say(bench: Bench) -> None:
    told = bench.text(f.describe, f.Point(1.0, 2.0), f.Colour.RED, 1, 2.5)
    assert told.startswith("Point(x=1.0, y=2.0) <Colour.RED: 'red'> (1.0, 2.5) call-")


def test_the_id_comes_by_its_name_wherever_it_stands(bench: Bench) -> None:
    assert bench.text(f.id_first).endswith(" nothing")
    assert bench.text(f.id_first, "something").startswith("call-")
    assert bench.text(f.untyped, 1) == "1 2"


@pytest.mark.parametrize("case", FAILURES)
def test_failures_are_told_and_nobody_else_notices(bench: Bench, case: str) -> None:
    function, arguments, reason, part, again = FAILURES[case]
    beside = bench.start(f.sleep, 0.05)
    outcome = bench.run(function, *arguments)
    assert (outcome.reason, outcome.again) == (reason, again), outcome
    assert part in outcome.error
    assert "\n" not in outcome.error
    assert bench.outcome(beside).reason == ""


def test_a_long_error_is_cut(bench: Bench) -> None:
    error = bench.run(f.fail_long).error
    assert len(error) == CALL_ERROR_LENGTH_MAX
    assert "… (functions.py, line" in error


def test_the_largest_arguments_and_results_pass(bench: Bench) -> None:
    text = "x" * (1024 * 1024 - 100)
    assert bench.text(f.tell, text) == text


def test_printing_does_no_harm(bench: Bench) -> None:
    assert bench.text(f.chatter, "fine") == "fine"


def test_surroundings_are_those_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAVOUR", "vanilla")
    monkeypatch.setattr(sys, "path", [*sys.path, "/nowhere/special"])
    with processes() as bench:
        assert bench.text(f.surroundings) == repr([os.getcwd(), "vanilla", sys.path, ""])


@pytest.mark.kill
def test_a_killed_attempt_ends_with_all_it_has_started(tmp_path: Path) -> None:
    with processes() as bench:
        file = tmp_path / "pid"
        beside = bench.start(f.sleep, 1.0)
        hung = bench.start(f.sleep_with_a_child, str(file))
        bench.until_begun(hung)
        wait_until(lambda: file.exists() and file.read_text(), 120.0, "the grandchild runs")
        bench.executor.kill(hung)
        wait_until(lambda: gone([int(file.read_text())]), 60.0, "the grandchild ends too")
        assert bench.outcome(beside).reason == ""
        assert hung not in bench.outcomes, "whoever kills an attempt knows that it has ended"


@pytest.mark.kill
def test_a_child_killed_from_outside_is_told(tmp_path: Path) -> None:
    with processes() as bench:
        serial = bench.start(f.sleep, 60.0)
        bench.until_begun(serial)
        (pid,) = bench.pids()
        os.kill(pid, signal.SIGKILL)
        outcome = bench.outcome(serial)
        assert (outcome.reason, outcome.error) == ("died", "its process was ended by SIGKILL")
        assert bench.text(f.tell, "next") == "next"


@pytest.mark.kill
def test_a_spare_child_that_died_is_replaced() -> None:
    with processes() as bench:
        pid = int(bench.text(f.own_pid))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_state(pid) in ("", "Z"), 60.0, "it ends")
        assert int(bench.text(f.own_pid)) != pid


def test_spare_children_go_after_a_while_but_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SPARE_SECONDS", 0.0)
    with processes() as bench:
        for serial in [bench.start(f.sleep, 0.2) for _ in range(3)]:
            assert bench.outcome(serial).reason == ""
        wait_until(lambda: bench.looked() and len(bench.pids()) == 1, 60.0, "one is left")
        assert bench.text(f.tell, "still there") == "still there"


def test_an_import_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sluggish.py").write_text(
        "import os, time\n"
        "time.sleep(600.0 if 'SLUGGISH' in os.environ else 0.0)\n"
        "def later() -> object: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import sluggish  # type: ignore[import-not-found]

    monkeypatch.setenv("SLUGGISH", "1")
    monkeypatch.setattr(executor, "IMPORT_SECONDS_MAX", 1.0)
    with processes() as bench:
        outcome = bench.run(sluggish.later)
    assert (outcome.reason, outcome.again) == ("timeout", True)
    assert outcome.error == "it had not begun after 1 s: is its import that slow?"


def test_a_module_that_cannot_be_imported_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "brittle.py").write_text(
        "import os\nif 'BRITTLE' in os.environ: import no_such_thing\ndef later() -> object: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import brittle  # type: ignore[import-not-found]

    monkeypatch.setenv("BRITTLE", "1")
    with processes() as bench:
        outcome = bench.run(brittle.later)
    assert outcome.reason == "error"
    assert outcome.error == (
        "later cannot be imported: ModuleNotFoundError: No module named 'no_such_thing' "
        "(brittle.py, line 2)"
    )


def test_a_process_that_cannot_be_started_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object, **how: object) -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with processes() as bench:
        monkeypatch.setattr(subprocess, "Popen", refuse)
        before = open_descriptors()
        outcome = bench.run(f.tell, "x")
        assert outcome.reason == "died"
        assert outcome.error.startswith("no process could be started for it: Resource")
        assert open_descriptors() == before


def test_no_descriptor_is_left_open() -> None:
    before = open_descriptors()
    with processes() as bench:
        for _ in range(5):
            bench.run(f.die, 1)
            serial = bench.start(f.sleep, 60.0)
            bench.until_begun(serial)
            bench.executor.kill(serial)
        bench.start(f.sleep, 60.0)
        bench.run(f.tell, "x")
    assert open_descriptors() == before
    assert bench.pids() == []


@pytest.mark.kill
@pytest.mark.parametrize("kind", ["processes", "coroutines"])
def test_children_do_not_outlive_their_parent(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "pid"
    program = f"""
import time
from pathlib import Path
from tests.runtime.calling import functions as f
from tests.runtime.calling.attempts import {kind}
with {kind}() as bench:
    bench.until_begun(bench.start(f.{"sleep" if kind == "processes" else "sleep_async"}, 600.0))
    Path({str(file)!r}).write_text(str(bench.pids()[0]))
    time.sleep(600.0)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    try:
        wait_until(lambda: file.exists() and file.read_text(), 30.0, "the function runs")
        child = int(file.read_text())
        assert not gone([child])
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: gone([child]), 60.0, "the child ends with its parent")


def test_a_function_that_forks_is_told_once_and_its_copy_is_no_host(bench: Bench) -> None:
    assert bench.text(f.fork, "one") == "one parent"
    for number in range(20):
        assert bench.text(f.tell, f"after {number}") == f"after {number}"


def test_one_that_ended_leaves_nothing_it_has_started(tmp_path: Path) -> None:
    with processes() as bench:
        assert bench.run(f.die_with_a_child, str(tmp_path / "pid")).reason == "died"
        grandchild = int((tmp_path / "pid").read_text())
        wait_until(lambda: gone([grandchild]), 60.0, "the grandchild ends too")
