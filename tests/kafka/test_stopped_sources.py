"""Goal: a reader of source topics does no harm when it dies before it could say what it has done,
or was stopped while others went on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.engine.admission import WINDOW
from holdfast.runtime.loading import load_fleet
from tests.cli.commands import Running, eventually, holdfast_here
from tests.kafka.dying_reader import EXIT
from tests.kafka.sourced import SESSION, Site, Telemetry

ROOT = Path(__file__).parents[2]
LEFT = 10  # what the stopped reader has read, and not sent yet
AHEAD = WINDOW + 5_000


@contextmanager
def reader(
    site: Site,
    url: str,
    source: str,
    errors: Path,
    program: Sequence[str] = ("holdfast.runtime.sourcing.process",),
) -> Iterator[subprocess.Popen[bytes]]:
    """Without a supervisor, which would end one that is silent."""
    ours, theirs = os.pipe()
    words = [url, f"{site.bootstrap}?{SESSION}", site.name, json.dumps([source]), str(theirs)]
    with errors.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *program, *words],
            pass_fds=[theirs],
            cwd=site.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=said,
        )
    os.close(theirs)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def make(site: Site) -> None:
    """The data, with nobody who folds it."""
    load_fleet(str(site.folder / "fleet.py")).open(
        f"sqlite:{site.folder / 'data'}", partitions=2
    ).close()


def fill(site: Site) -> None:
    """One event that waits, which is as many as may."""
    words = ("send", "Drone/d-0", "Battery", "percent=5", "--engine", "sqlite:data")
    holdfast_here(*words, cwd=site.folder)


@pytest.mark.kill
def test_what_was_sent_but_not_committed_is_sent_again_and_taken_once(
    kafka: str, tmp_path: Path
) -> None:
    site = Site(kafka, tmp_path)
    topic = site.topic("dying")
    source = f"{topic}=Drone/Position"
    make(site)
    telemetry = Telemetry(site, topic, "json", "murmur2_random")
    said = tmp_path / "reader.err"
    for commits in (0, 3, 0, 1):
        telemetry.produce(500)
        program = ("tests.kafka.dying_reader", str(commits))
        with reader(site, "sqlite:data", source, said, program) as dying:
            while dying.poll() is None:
                telemetry.produce(50)
                time.sleep(0.2)
            assert dying.wait(60) == EXIT, said.read_text()
        assert site.committed(topic) != site.ends(topic)
    words = ("fleet.py", "--engine", "sqlite:data", "--snapshots", "none")
    with Running(*words, cwd=tmp_path), reader(site, "sqlite:data", source, said):
        site.wait_committed(topic)
        site.wait_for("sqlite", {key: dict(each) for key, each in telemetry.expected().items()})
        assert site.letters("sqlite") == ""
        assert site.rejected() == []


@pytest.mark.kill
def test_a_full_inbox_is_waited_for(kafka: str, tmp_path: Path) -> None:
    """For longer than a session, and without leaving anything out."""
    site = Site(kafka, tmp_path)
    topic = site.topic("full")
    source = f"{topic}=Drone/Position"
    make(site)
    fill(site)
    telemetry = Telemetry(site, topic, "json", "murmur2_random")
    telemetry.produce(1_000)
    said = tmp_path / "reader.err"
    full = "sqlite:data?backlog_events_max=1"
    with reader(site, full, source, said) as process:
        eventually("the inbox is full", lambda: "source topics wait" in said.read_text())
        telemetry.produce(2_000)
        time.sleep(5.0)
        assert site.committed(topic) == [0, 0, 0]
        words = ("fleet.py", "--engine", "sqlite:data", "--snapshots", "none")
        with Running(*words, cwd=tmp_path):
            site.wait_committed(topic)
            site.wait_for("sqlite", {k: dict(each) for k, each in telemetry.expected().items()})
        assert process.poll() is None, said.read_text()
    assert site.rejected() == []


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(600)
def test_what_a_stopped_reader_has_left_is_not_sent_when_others_are_far_ahead(
    kafka: str, tmp_path: Path
) -> None:
    """Its numbers are older than the dedupe knows: sent again, they would be no repeats."""
    site = Site(kafka, tmp_path)
    topic = site.topic("stopped", 1)
    source = f"{topic}=Drone/Position"
    make(site)
    fill(site)
    telemetry = Telemetry(site, topic, "json", "murmur2_random")
    telemetry.produce(LEFT)
    said = tmp_path / "first.err"
    full = "sqlite:data?backlog_events_max=1"
    with reader(site, full, source, said) as first:
        eventually("the inbox is full", lambda: "source topics wait" in said.read_text())
        time.sleep(0.4)  # it polls for a moment, then it tries to send again for longer than that
        first.send_signal(signal.SIGSTOP)
        telemetry.produce(AHEAD)
        with reader(site, "sqlite:data", source, tmp_path / "second.err"):
            site.wait_committed(topic, partitions=1)
        words = ("fleet.py", "--engine", "sqlite:data", "--snapshots", "none")
        with Running(*words, cwd=tmp_path):
            site.wait_for("sqlite", {k: dict(each) for k, each in telemetry.expected().items()})
            first.send_signal(signal.SIGCONT)
            time.sleep(4.0)  # two sessions: now it would have sent what it had
            telemetry.produce(LEFT)
            site.wait_committed(topic, partitions=1)
            assert first.poll() is None, said.read_text()
            site.wait_for("sqlite", {k: dict(each) for k, each in telemetry.expected().items()})
            assert site.letters("sqlite") == ""
            assert site.rejected() == []
