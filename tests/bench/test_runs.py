"""Goal: a run of ours with real processes is judged by the oracle, also after kill -9 of everybody;
and whoever cannot run is reported."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import bench.run
from bench.contenders.base import Guarantees
from bench.contenders.holdfast import Holdfast
from bench.events import Stream
from bench.results import Result, Unavailable, without_places
from bench.slow_sync import build
from bench.workloads import Workload

STREAM = Stream(agents=80, mix="mixed")


@pytest.mark.kill
def test_states_and_actions_are_right_after_kill_minus_nine(tmp_path: Path) -> None:
    workload = Workload("kill", STREAM, seconds=0.5, send=256, kill=True)
    result = Holdfast(compiled=False).run(workload, "2 workers", tmp_path)
    assert result.wrong == ()
    assert sum(result.counts) > sum(result.figures["killed_at"]) > 0


@pytest.mark.kill
def test_open_loop_latency_with_slow_syncs_is_measured(tmp_path: Path) -> None:
    stream = Stream(agents=80, every=2)
    workload = Workload("latency-400", stream, seconds=0.5, rate=400, slow_sync=True)
    result = Holdfast(compiled=False).run(workload, "1 worker", tmp_path)
    assert result.wrong == ()
    assert result.counts == (200,)
    assert result.figures["latency"]["samples"] == 100
    # A send and a commit each wait for a sync of 2 ms more.
    assert result.figures["latency"]["p50_ms"] > 4.0


def test_a_slow_sync_takes_longer_and_keeps_its_result(tmp_path: Path) -> None:
    program = (
        "import json, os, time\n"
        f"file = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "begin = time.monotonic()\n"
        "os.fsync(file); os.fdatasync(file)\n"
        "taken = time.monotonic() - begin\n"
        "os.close(file)\n"
        "try: os.fsync(file)\n"
        "except OSError as error: print(json.dumps([taken, error.errno]))\n"
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build()),
        "SLOW_SYNC_MICROSECONDS": "100000",
    }
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    taken, error = json.loads(told)
    assert taken >= 0.2  # no timer ends early
    assert error == errno.EBADF


class Absent:
    name = "Absent"
    guarantees = Guarantees("", "", "", "")

    def prepare(self) -> None:
        raise Unavailable("no network")

    def settings(self) -> Sequence[str]:
        return ("1",)

    def refuses(self, workload: Workload) -> str:
        return ""

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        raise AssertionError("it could not be prepared")


class Broken(Absent):
    name = "Broken"

    def prepare(self) -> None:
        pass

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        raise RuntimeError("ended with 1: no disk")


def test_who_cannot_run_or_fails_is_in_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.run, "everybody", lambda: [Absent(), Broken()])
    out = tmp_path / "out" / "results.json"
    it = bench.run.Bench(tmp_path, out, True, [], None)
    it.throughput()
    found = json.loads(out.read_text())
    assert found["missing"] == {"Absent": "no network"}
    assert [(each["contender"], each["missing"]) for each in found["results"]] == [
        ("Broken", "RuntimeError: ended with 1: no disk")
    ]
    assert list(tmp_path.iterdir()) == [out.parent], "a run left its folder behind"


def test_a_run_that_adds_replaces_what_it_measures_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.run, "everybody", lambda: [Broken()])
    out = tmp_path / "results.json"
    first = bench.run.Bench(tmp_path, out, True, [], None)
    first.throughput()
    first.document["results"].append({**first.document["results"][0], "workload": "other"})
    first.save()
    second = bench.run.Bench(tmp_path, out, True, ["nobody"], None)
    second.take_up(out)
    assert second.document["missing"] == {}, "it was measured before"
    second.peers = [Broken()]
    second.throughput()
    assert [each["workload"] for each in json.loads(out.read_text())["results"]] == [
        "other",
        "base",
    ]


def test_published_reasons_name_no_place() -> None:
    told = "pip failed: https://registry.example/simple: no /opt/x.whl, and/or 1/2"
    assert without_places(told) == "pip failed: … no … and/or 1/2"
