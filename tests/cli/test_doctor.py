"""Goal: `holdfast doctor` says of each thing that can go wrong whether it did, and what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast import Agent, Context, Event, Fleet, Live, on
from holdfast.engine.sqlite.segment import Segment, list_segments
from holdfast.engine.urls import open_engine
from holdfast.runtime.checkup import Checkup, Finding
from tests.cli.commands import Running, holdfast, holdfast_here, refused
from tests.cli.fleets import DELIVERY
from tests.kills.harness import key_in


class Went(Event):
    metres: float


class Robot(Agent):
    metres: float = 0.0

    @on
    def went(self, event: Went, ctx: Context) -> None:
        self.metres += 1 / event.metres


fleet = Fleet("robots", agents=[Robot])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'data'}"


@pytest.fixture
def live(url: str) -> Iterator[Live]:
    with fleet.open(url, partitions=2) as live:
        yield live


def findings(url: str) -> dict[str, Finding]:
    return {finding.subject: finding for finding in Checkup(url).findings()}


def bad_ones(url: str) -> list[str]:
    return [x.subject for x in Checkup(url).findings() if x.level == "bad"]


def test_a_fleet_that_runs(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(DELIVERY)
    words = ["fleet.py", "--workers", 2, "--data", "data", "--snapshots", "none"]
    with Running(*words, cwd=tmp_path) as running:
        for drone in (f"Drone/{key_in(n, 2)}" for n in range(2)):  # each worker has folded one
            sent = holdfast_here(
                "send", drone, "Battery", "percent=9", "--data", "data", cwd=tmp_path
            )
            words = ["state", drone, "--after", sent.stdout.strip(), "--timeout", 120]
            holdfast_here(*words, "--data", "data", cwd=tmp_path)
        text = holdfast("doctor", "--data", "data", cwd=tmp_path).stdout
        levels = {line[:4].strip() for line in text.splitlines()}
        assert levels <= {"ok", "warn"}, text  # a slow disk may earn a warning
        assert f"process {running.process.pid} runs this fleet" in text
        for pid in running.workers():
            assert f"process {pid}, position " in text
        for subject in ("SQLite", "directory", "format", "fleet", "disk", "sync", "clock"):
            assert f"  {subject} " in text


def test_nobody_runs_it(url: str, live: Live) -> None:
    live.close()
    engine = open_engine(url, None)
    engine.close()
    found = findings(url)
    assert found["holder"].level == "warn"
    assert found["holder"].advice == f"start it with `holdfast run fleet.py --engine {url}`"
    assert bad_ones(url) == []


def test_dead_letters_and_paused_agents(url: str, live: Live) -> None:
    live.send(Robot, "r-1", Went(metres=0.0))
    live.wait_for(live.pause(Robot, "r-2", "low oil"))
    live.wait_for(live.send(Robot, "r-2", Went(metres=1.0)))
    live.settle()
    found = findings(url)
    assert (found["dead letters"].level, found["dead letters"].text[:2]) == ("warn", "1,")
    assert found["paused agents"].text == "1, which hold 1 events"
    live.redrive(live.dead_letters()[0].id)
    live.resume(Robot, "r-2")
    live.settle()
    found = findings(url)
    assert found["paused agents"].level == "ok"


def test_events_that_wait(url: str, live: Live) -> None:
    live.close()
    with fleet.connect(url) as sender:
        sender.send(Robot, "r-1", Went(metres=1.0))
        sender.send(Robot, "r-1", Went(metres=1.0))
    partition = [x for x in Checkup(url).findings() if "lag 2" in x.text]
    assert len(partition) == 1
    assert "no owner, position 0, lag 2, oldest waits" in partition[0].text


def test_what_newer_code_sent_holds_the_partition(url: str, live: Live) -> None:
    class Flew(Event):
        metres: float

    newer = Fleet("robots", agents=[Robot], events=[Flew])
    with newer.connect(url) as sender:
        sender.send(Robot, "r-1", Flew(metres=1.0))
    found = [x for x in Checkup(url).findings() if "held by event Flew" in x.text]
    assert [(x.level, x.advice) for x in found] == [
        ("bad", "run the newer program that defines it")
    ]


def test_a_clock_that_was_set(url: str, live: Live) -> None:
    live.send(Robot, "r-1", Went(metres=1.0))
    live.settle()
    live.close()
    for name in ("p000", "p001"):
        folder = Checkup(url).root / name / "inbox"
        segment = Segment(folder, list_segments(folder)[-1])
        head = segment.head()
        if head.next:
            ahead = head.stamp._replace(wall=time.time() + 500)
            segment.put_head(head._replace(stamp=ahead))
        segment.close()
    clock = findings(url)["clock"]
    assert clock.level == "warn"
    assert "stamped 500 s later than it is now" in clock.text or "499 s" in clock.text


def test_little_space(url: str, live: Live) -> None:
    free = f"{url}?disk_reserve_bytes={10**18}"
    assert findings(free)["disk"].level == "bad"
    assert "nothing is accepted" in findings(free)["disk"].text


def test_damage_is_named_and_the_rest_examined(url: str, live: Live, tmp_path: Path) -> None:
    live.close()
    path = Checkup(url).root / "p001" / "state.db"
    for more in ("-wal", "-shm"):
        Path(f"{path}{more}").unlink(missing_ok=True)
    path.write_bytes(b"\0" * 20_000)
    found = findings(url)
    assert found["partition 0"].level == "ok"
    assert found["partition 1"].level == "bad"
    assert f"{path}: damaged" in found["partition 1"].text
    done = holdfast_here("doctor", "--engine", url, cwd=tmp_path, code=1)
    assert "bad   partition 1" in done.stdout
    assert done.stderr == ""


def test_salvage_lists_what_is_intact(url: str, live: Live, tmp_path: Path) -> None:
    for i in range(20):
        live.send(Robot, f"r-{i}", Went(metres=1.0))
    live.settle()
    live.close()
    root = Checkup(url).root
    words = ["doctor", "--salvage", "--engine", url]
    text = holdfast_here(*words, cwd=tmp_path).stdout
    assert {line[:4] for line in text.splitlines()} == {"ok  "}
    assert "fleet.db" in text
    for more in ("", "-wal", "-shm"):
        Path(f"{root / 'p001' / 'state.db'}{more}").unlink(missing_ok=True)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    text = holdfast_here(*words, cwd=tmp_path, code=1).stdout
    assert [line[5:20].strip() for line in text.splitlines() if line.startswith("bad")] == [
        "p001/state.db"
    ]
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    done = holdfast_here("doctor", "--salvage", "--data", "nowhere", cwd=tmp_path, code=2)
    refused(done, "nowhere: no directory")


def test_no_data_newer_data_no_directory(url: str, live: Live, tmp_path: Path) -> None:
    live.close()
    assert findings(f"{url}-none")["directory"].level == "bad"
    (tmp_path / "file").write_text("")
    assert "is a file" in findings(f"sqlite:{tmp_path / 'file'}")["directory"].text
    connection = apsw.Connection(str(Checkup(url).root / "fleet.db"))
    connection.execute("PRAGMA user_version=99")
    connection.close()
    assert "format 99" in findings(url)["format"].text
    done = holdfast_here("doctor", "--engine", "memory:", cwd=tmp_path, code=2)
    refused(done, "nothing to examine")
