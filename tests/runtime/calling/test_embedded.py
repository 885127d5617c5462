"""Goal: `fleet.open` runs the calls of its agents, and leaves nothing behind when it is closed."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast import CallFailed, Live, TimedOut
from holdfast.errors import UsageError
from holdfast.runtime.calling import targets
from holdfast.runtime.calling.status import read_status
from tests.kills.harness import ROOT, children, wait_until
from tests.runtime.calling.attempts import open_descriptors
from tests.runtime.calling.callers import Client, Please, fleet

ENGINES = ["memory", "sqlite"]


def url(engine: str, folder: Path) -> str:
    return "memory:" if engine == "memory" else f"sqlite:{folder / 'data'}"


def settled_descriptors() -> set[str]:
    """An engine's bell is closed with the object, which may be part of a cycle."""
    gc.collect()
    return open_descriptors()


def client(live: Live, key: str = "a") -> Client:
    state = live.state(Client, key)
    assert state is not None
    return state


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_of_both_kinds_are_answered(engine: str, tmp_path: Path) -> None:
    with fleet.open(url(engine, tmp_path), partitions=2) as live:
        for n in range(20):
            live.send(Client, f"k-{n}", Please("tell", [f"process {n}"]))
            live.send(Client, f"k-{n}", Please("tell_async", [f"async {n}"]))
        live.settle()
        for n in range(20):
            told = sorted(client(live, f"k-{n}").told)
            assert told == [f"async {n} clients/Client/k-{n}/{told[0][-7]}/call1", f"process {n}"]
        call = "clients/Client/k-0/1/call1"
        (entry,) = [each for each in live.history(Client, "k-0") if each.sender == call]
        assert entry.origin == "reply"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failed_call_comes_back_as_callfailed(engine: str, tmp_path: Path) -> None:
    with fleet.open(url(engine, tmp_path)) as live:
        live.send(Client, "a", Please("fail", ["no route"], retries=2))
        live.send(Client, "b", Please("sleep", [60.0], timeout=0.3, retries=1))
        live.send(Client, "c", Please("die", [7]))
        live.send(Client, "d", Please("large", [2_000_000], retries=5))
        live.send(Client, "e", Please("misfit", retries=5))
        live.settle()
        found = {key: client(live, key).failures for key in "abcde"}
        assert {k: [(f, r, n) for f, r, _, n in v] for k, v in found.items()} == {
            "a": [("fail", "error", 3)],
            "b": [("sleep", "timeout", 2)],
            "c": [("die", "died", 1)],
            "d": [("large", "too-large", 1)],
            "e": [("misfit", "wrong-reply", 1)],
        }
        assert "misfit returned a wrong Told" in found["e"][0][2]
        assert live.dead_letters() == []


def test_a_fleet_without_calls_has_no_thread_for_them(tmp_path: Path) -> None:
    with fleet.open("memory:") as live:
        live.settle()
        assert "holdfast-caller" not in [each.name for each in threading.enumerate()]
        live.send(Client, "a", Please("tell", ["x"]))
        live.settle()
        assert "holdfast-caller" in [each.name for each in threading.enumerate()]
    assert "holdfast-caller" not in [each.name for each in threading.enumerate()]


def test_closing_ends_everything_and_opening_runs_the_call_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = settled_descriptors(), children(os.getpid())
    with fleet.open(url("sqlite", tmp_path)) as live:
        live.send(Client, "a", Please("sleep", [600.0], timeout=900.0))
        live.send(Client, "a", Please("log_id", [str(log)]))
        wait_until(lambda: getattr(live.state(Client, "a"), "told", None), 120.0, "one is answered")
        with pytest.raises(TimedOut, match=r"not settled after 0.2 s, lag \{\}, calls are open"):
            live.settle(timeout=0.2)
    del live
    assert (settled_descriptors(), children(os.getpid())) == before
    assert read_status(tmp_path / "data") is None
    with fleet.open(url("sqlite", tmp_path)) as live:
        wait_until(lambda: len(children(os.getpid())) > len(before[1]), 120.0, "it runs again")
    assert log.read_text() == "clients/Client/a/2/call1\n", "what was answered is not run again"


def test_the_status_tells_of_every_function(tmp_path: Path) -> None:
    with fleet.open(url("sqlite", tmp_path)) as live:
        live.send(Client, "a", Please("fail", ["x"], retries=1))
        live.send(Client, "a", Please("sleep", [600.0], times=6))

        def told() -> dict[str, tuple[int, int, int, int]]:
            status = read_status(tmp_path / "data")
            found = status.functions if status is not None else []
            return {s.function: (s.running, s.waiting, s.attempts, s.failures) for s in found}

        wait_until(
            lambda: told() == {"fail": (0, 0, 2, 2), "sleep": (4, 2, 4, 0)}, 120.0, "all is told"
        )


def program(folder: Path, body: str, name: str = "program.py") -> Path:
    """A program of a user's, whose functions are in itself."""
    file = folder / name
    file.write_text(
        """
from holdfast import Agent, CallFailed, Context, Event, Fleet, on

class Ask(Event):
    text: str

class Said(Event):
    text: str

def shout(text: str, call_id: str) -> Said:
    return Said(f"{text.upper()} {call_id}")

class Crier(Agent):
    said: str = ""

    @on
    def asked(self, event: Ask, ctx: Context) -> None:
        ctx.call(shout, event.text, reply=Said, retries=0)

    @on
    def answered(self, event: Said, ctx: Context) -> None:
        self.said = event.text

    @on
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.said = event.error

fleet = Fleet("criers", agents=[Crier])

def main() -> None:
    with fleet.open("memory:") as live:
        live.send(Crier, "c", Ask("hear ye"))
        live.settle(timeout=50.0)
        print(live.state(Crier, "c").said)
"""
        + body
    )
    return file


GUARDED = 'if __name__ == "__main__":\n    main()\n'


def run(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_may_have_its_functions_in_itself(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = program(tmp_path, GUARDED)
    done = run(file, folder=tmp_path / "elsewhere")
    assert (done.stdout, done.stderr) == ("HEAR YE criers/Crier/c/1/call1\n", "")


def test_a_program_run_as_a_module_works_too(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    program(tmp_path / "package", GUARDED)
    done = run("-m", "package.program", folder=tmp_path)
    assert (done.stdout, done.stderr) == ("HEAR YE criers/Crier/c/1/call1\n", "")


@pytest.mark.parametrize(
    "words", [("program.py",), ("-m", "program"), ("-c", "import program")], ids=" ".join
)
def test_a_program_that_opens_its_fleet_at_import_is_told_what_to_do(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    program(tmp_path, "main()\n")
    done = run(*words, folder=tmp_path)
    assert 'open the fleet under `if __name__ == "__main__":` (program.py' in done.stdout, done


def test_whatever_is_in_the_path_of_modules_does_no_harm(tmp_path: Path) -> None:
    odd = "import os, pathlib, sys\nsys.path += [pathlib.Path('x'), os.fsdecode(b'/caf\\xe9')]\n"
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    done = run(program(folder, odd + GUARDED), folder=tmp_path)
    assert (done.stdout, done.stderr) == ("HEAR YE criers/Crier/c/1/call1\n", "")


def test_a_function_that_was_typed_in_has_no_file() -> None:
    done = run("-c", "import sys; sys.argv = ['']\n" + TYPED_IN, folder=ROOT)
    assert "put it into a module, and import it" in done.stdout, done


TYPED_IN = """
from holdfast import *
class Ask(Event): ...
class Said(Event): ...
def shout() -> Said: return Said()
class Crier(Agent):
    said: str = ""
    @on
    def asked(self, event: Ask, ctx: Context) -> None:
        ctx.call(shout, reply=Said)
    @on
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.said = event.error
fleet = Fleet("criers", agents=[Crier], events=[Said])
with fleet.open("memory:") as live:
    live.send(Crier, "c", Ask())
    live.settle(timeout=50.0)
    print(live.state(Crier, "c").said)
"""


def test_only_the_import_of_a_program_may_not_open_a_fleet() -> None:
    targets.check_not_importing()
    targets._under_way.append("program.py")
    try:
        with pytest.raises(UsageError, match="opens its fleet when it is imported"):
            fleet.open("memory:")
    finally:
        targets._under_way.pop()


def test_every_fleet_knows_the_failure() -> None:
    assert fleet.events["CallFailed"] is CallFailed
