"""Goal: a view is built anew while the old one serves, and whoever reads sees the one or the other,
whole; also when its process is killed at any moment."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import About, DiskFull, Fleet, InUse, Row, View, on
from holdfast.engine.urls import open_engine
from holdfast.runtime.viewing import folding, running
from holdfast.runtime.viewing.rowfile import RowFile
from holdfast.runtime.viewing.running import Runner
from tests.run.speed import patient
from tests.seeds import seeds
from tests.view.test_folding import caught_up, send, stream
from tests.view.zones import Battery, Drone, ZoneLoad, expected, fleet

ROOT = Path(__file__).parents[2]
ROUNDS = 12
# The command line, with many small commits instead of few large ones.
COMMAND = """
from holdfast.cli.main import main
from holdfast.runtime.viewing import folding, running
folding.INPUTS_PER_COMMIT = 20
running.INPUTS_PER_TURN = 40
main()
"""


class Tally(Row):
    n: int = 0


class First(View[Tally]):
    """Two rows that are always equal at a commit."""

    @on
    def drained(self, event: Battery, about: About) -> None:
        self["a"].n += 1
        self["b"].n += 1


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + patient(seconds)
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)


def test_readers_never_see_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load and through three rebuilds counts only grow, and rows fit each other."""
    monkeypatch.setattr(running, "INPUTS_PER_TURN", 100)
    both = Fleet("zones", agents=[Drone], views=[First])
    url = f"sqlite:{tmp_path / 'data'}"
    done = threading.Event()
    wrong: list[object] = []
    sent = 0
    with both.open(url, partitions=2) as live:
        view = live.view(First)
        receipt = live.send(Drone, "d-0", Battery(zone="z", percent=1))
        view.get("a", after=receipt)

        def read() -> None:
            newest = 0
            while not done.is_set():
                rows = view.rows()
                if rows["a"] != rows["b"] or rows["a"].n < newest:
                    wrong.append((rows, newest))
                newest = rows["a"].n

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        folder = tmp_path / "data" / "views" / "First"
        try:
            for number in (1, 2, 3):
                view.rebuild()
                while (folder / "serving").read_text() == str(number):
                    live.send_many(
                        [(Drone, f"d-{i}", Battery(zone="z", percent=1)) for i in range(50)]
                    )
                    sent += 50
                    time.sleep(0.01)  # the rebuild has to catch up with it
        finally:
            done.set()
            for reader in readers:
                reader.join()
        live.settle()
        view.catch_up()
        assert wrong == []
        assert view.rows()["a"].n == sent + 1
        until(lambda: [each.name for each in folder.glob("*.db")] == ["000004.db"])


def test_other_code_is_built_anew(tmp_path: Path) -> None:
    """The old rows serve until the new ones are complete; the same code is not built again."""

    def version(step: int) -> type[View[Tally]]:
        if step == 1:

            class Sum(View[Tally]):
                @on
                def drained(self, event: Battery, about: About) -> None:
                    self["all"].n += 1

            return Sum

        class Sum(View[Tally]):  # type: ignore[no-redef]
            @on
            def drained(self, event: Battery, about: About) -> None:
                self["all"].n += 10

        return Sum

    url = f"sqlite:{tmp_path / 'data'}"
    serving = tmp_path / "data" / "views" / "Sum" / "serving"
    for step, factor, number in ((1, 1, "1"), (1, 1, "1"), (2, 10, "2")):
        view = version(step)
        with Fleet("zones", agents=[Drone], views=[view]).open(url) as live:
            live.send(Drone, "d-1", Battery(zone="z", percent=50))
            live.settle()
            until(lambda wanted=number: serving.exists() and serving.read_text() == wanted)  # type: ignore[misc]
            live.view(view).catch_up()
            count = live.state(Drone, "d-1").seen
            assert live.view(view).rows()["all"].n == count * factor
    assert version(1).__holdfast__.fingerprint == version(1).__holdfast__.fingerprint


def test_the_old_rows_serve_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        live.send(Drone, "d-1", Battery(zone="z", percent=50))
        rows = caught_up(live)
        (tmp_path / "data" / "views" / "ZoneLoad" / "000002.db").write_bytes(b"")  # half a file
        assert live.view(ZoneLoad).rows() == rows
        engine = open_engine(url, None)
        with pytest.raises(InUse, match=rf"process {os.getpid()} folds view ZoneLoad already"):
            Runner(engine, ZoneLoad, tmp_path / "data" / "views").tick()
        engine.close()
    with fleet.open(url) as live:  # what cannot be read is built anew
        until(lambda: live.view(ZoneLoad).standing().doing == "folds")
        assert caught_up(live) == rows


def started(url: str, *options: str) -> subprocess.Popen[str]:
    reference = f"{Path(__file__).parent / 'zones.py'}:ZoneLoad"
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "view", "run", reference, "--engine", url, *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.kill
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_killed_views_neither_lose_nor_double(seed: int, tmp_path: Path) -> None:
    """kill -9 of the process that folds it, at random moments, also while it is rebuilt."""
    chance = random.Random(seed)
    url = f"sqlite:{tmp_path / 'data'}"
    without = Fleet("zones", agents=[Drone])
    sent = []
    with without.open(url, partitions=2) as live:
        for number in range(ROUNDS):
            process = started(url)
            try:
                assert process.stdout is not None
                assert "folding view ZoneLoad" in process.stdout.readline()
                if number % 3 == 2:
                    live.view(ZoneLoad).rebuild()
                more = stream(chance, 300)
                sent += more
                send(live, more)
                time.sleep(chance.uniform(0.0, 0.15))
            finally:
                process.kill()
            output, _ = process.communicate(timeout=30)
            assert output == ""
        process = started(url)
        try:
            live.settle()
            until(lambda: live.view(ZoneLoad).standing().doing == "folds")
            live.view(ZoneLoad).catch_up(timeout=30)
            assert live.view(ZoneLoad).rows() == expected(sent)
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=30)
        assert output.endswith("view ZoneLoad is folded no more\n")


def test_trouble_doubles_nothing_and_a_rebuild_switches_when_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INPUTS_PER_TURN", 10)
    monkeypatch.setattr(folding, "INPUTS_PER_COMMIT", 10)
    sent = stream(random.Random(7), 100)
    commit = RowFile.commit
    full = [True]

    def refuse(file: RowFile, *given: Any) -> None:
        if full:
            raise DiskFull("no space")
        commit(file, *given)

    monkeypatch.setattr(RowFile, "commit", refuse)
    with Fleet("zones", agents=[Drone]).open(f"sqlite:{tmp_path / 'data'}") as live:
        for key, event in sent:
            live.send(Drone, key, event)
        live.settle()
        runner = Runner(live.engine, ZoneLoad, tmp_path / "data" / "views")
        for _ in range(3):
            with pytest.raises(DiskFull):
                runner.tick()
        full.clear()
        while runner.tick():
            pass
        assert live.view(ZoneLoad).rows() == expected(sent)
        live.view(ZoneLoad).rebuild()
        serving = tmp_path / "data" / "views" / "ZoneLoad" / "serving"
        while runner.tick():
            assert serving.read_text() == "1"
            assert live.view(ZoneLoad).rows() == expected(sent)
        assert serving.read_text() == "2"
        assert live.view(ZoneLoad).rows() == expected(sent)
        runner.close()
