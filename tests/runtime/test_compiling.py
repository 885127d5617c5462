"""Goal: a kernel is compiled once per machine, by one process, and a cache that is damaged, or not
there, costs time and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.errors import UsageError
from holdfast.model.compiling.program import Program
from holdfast.runtime import compiling
from holdfast.runtime.kernels import kernels_of
from tests.compiling.test_refusals import load

DRONE = """\
from holdfast import Agent, Context, Event, on

class Battery(Event):
    percent: float

class Drone(Agent, compiled=True):
    battery: float = 100.0

    @on
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent * 1.0
"""
PROGRAM = """\
import numpy as np
import drones
from holdfast.model.compiling.program import CONTROLS, QUEUE_DESCR, Program
from holdfast.runtime.compiling import compiled_fold

program = Program(drones.Drone)
fold = compiled_fold(program)
S = np.zeros(1, np.dtype(program.state_descr()))
one = np.zeros(1, np.int64)
fold(
    S, S.copy(), S.copy(), np.zeros(1, np.int64), one, np.zeros(1, np.uint8), np.zeros(1), one, one,
    1, np.zeros(0, np.int64), np.zeros(CONTROLS, np.int64), np.array([5.0, 0.0, 1.0]),
    np.zeros(1, np.uint8), np.zeros(2, np.int64), np.zeros(64, np.uint64),
    np.zeros(1, np.dtype(QUEUE_DESCR)), np.zeros(64, np.uint32), np.zeros(1, np.uint8),
    (np.array([42.5]),),
)
print(S[0]["f_battery"], S[0]["version"])
"""
SAID = re.compile(r"holdfast: compiling Drone … \d+\.\d s, (kept in \S+|not kept) ?(.*)\n")


class Machine:
    """A cache, and processes that fold one event with the kernel of Drone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "drones.py").write_text(DRONE, "utf-8")
        (folder / "program.py").write_text(PROGRAM, "utf-8")

    def start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        return subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> str:
        """What a process says on stderr: a line if it had to compile, nothing if not."""
        return self.finish(self.start())

    def finish(self, process: subprocess.Popen[str]) -> str:
        said, complained = process.communicate(timeout=250)
        assert (process.returncode, said) == (0, "42.5 1\n"), complained
        return complained

    def files(self) -> list[Path]:
        return [each for each in self.cache.rglob("*") if each.is_file()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """With a kernel that two processes wanted at once."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    said = sorted(map(machine.finish, [machine.start(), machine.start()]))
    assert said[0] == "", "both compiled"
    assert SAID.fullmatch(said[1])
    return machine


@pytest.mark.slow
def test_of_two_processes_at_once_one_compiles_and_later_ones_load(machine: Machine) -> None:
    assert machine.run() == ""
    leftovers = [each.name for each in machine.cache.rglob(".making*")]
    assert leftovers == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbc", ".nbi", ".py", ".json"])
def test_a_damaged_cache_is_made_anew(machine: Machine, suffix: str) -> None:
    (file,) = [each for each in machine.files() if each.suffix == suffix]
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0x10]) + whole[middle + 1 :])
    assert not compiling.is_whole(next(machine.cache.glob("holdfast/*/")))
    if suffix == ".nbc":  # one is enough to see it compile: that takes its time
        assert SAID.fullmatch(machine.run())
        assert machine.run() == ""
    else:
        file.write_bytes(whole)


@pytest.mark.slow
def test_without_a_place_for_the_cache_it_compiles_each_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.cache.write_text("this is a file, no folder can be made in it")
    said = SAID.fullmatch(machine.run())
    assert said is not None
    assert said[1] == "not kept"
    assert "set XDG_CACHE_HOME to a folder that can be written" in said[2]


def test_another_source_is_another_kernel(tmp_path: Path) -> None:
    digests = []
    for factor in ("1.0", "2.0", "1.0"):
        module = load(DRONE.replace("* 1.0", f"* {factor}"), tmp_path)
        digests.append(compiling.digest_of(Program(module.Drone)))
    assert digests[0] != digests[1]
    assert digests[0] == digests[2]


def test_without_numba_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    module = load(DRONE, tmp_path)
    with pytest.raises(UsageError, match=r"Drone is .* pip install 'holdfast\[compiled\]'"):
        compiling.compiled_fold(Program(module.Drone))


def test_a_class_that_is_interpreted_all_the_same_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Poke(Event):
        pass

    class Waiting(Agent, compiled=True, unhandled="defer"):
        pokes: int = 0

        @on
        def poked(self, event: Poke, ctx: Context) -> None:
            self.pokes += 1

    assert kernels_of(Fleet("waiting", agents=[Waiting])) == {}
    assert "Waiting is interpreted" in caplog.text
    assert "leave out compiled=True" in caplog.text
