"""Goal: exporters that follow a working fleet and are killed at random times and at the worst ones
leave, in every target, exactly the rows that the fleet has: none doubled, none lost, in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.exporting.target import KINDS, Kind
from tests.runtime.exporting.fleets import Arm, Drone, Tell, Tick, Visitor, fleet
from tests.runtime.exporting.sinks import SINKS, Sink, export
from tests.runtime.exporting.test_states import committed

ROOT = Path(__file__).parents[3]
ROUNDS = 3  # one for each kind; twice as many for the database
AGENTS = 12
# The command line, with many small writes instead of few large ones.
COMMAND = """
from holdfast.cli.main import main
from holdfast.runtime.exporting import reading
reading.ROWS_PER_BATCH = 100
print("ready", flush=True)
main()
"""


class Producer(threading.Thread):
    """Sends until told to stop, and knows what it has sent."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self.done = threading.Event()
        self.sent: dict[str, list[int]] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            n = 0
            while not self.done.is_set():
                self._send(n)
                n += 1
                time.sleep(0.02)
        except Exception as error:
            self.error = error

    def _send(self, n: int) -> None:
        batch = [(Drone, f"d-{(n + i) % AGENTS}", Tick(n=n + i)) for i in range(40)]
        self._live.send_many(batch)
        for _, key, tick in batch:
            self.sent.setdefault(key, []).append(tick.n)
        if n % 10 == 0:
            self._live.send(Drone, f"d-{n % AGENTS}", Arm(seconds=0.05))
            self._live.send(Drone, f"d-{n % AGENTS}", Tell(to=f"d-{(n + 1) % AGENTS}"))
            self._live.send(Visitor, f"v-{n}", Tick(n=n))


def started(url: str, kind: Kind, sink: Sink, fault: str) -> subprocess.Popen[bytes]:
    to = sink.to.format(kind=kind)
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "export", kind, "--follow", "--to", to, "--engine", url],
        env={**os.environ, "HOLDFAST_FAULT": fault},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def kill(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Let it live so long after its start, at most; it may have found its own end."""
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    output, _ = process.communicate(timeout=30)
    assert output == b""
    return process.returncode


SOAK = pytest.mark.soak  # which deaths leave what, test_crashes shows for every sink


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "seed"),
    [
        ("folder", 1),
        ("postgres", 1),
        *(pytest.param(name, seed, marks=SOAK) for name in SINKS for seed in (2, 3)),
    ],
    indirect=["sink"],
)
def test_killed_exporters_leave_each_row_once(
    sink: Sink, seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(seed)
    points = ["", "export.before", "export.after"]
    if sink.name in ("folder", "parquet"):
        points.append("export.inside")
    url = f"sqlite:{tmp_path / 'data'}?partitions=2"
    with fleet.open(url) as live:
        producer = Producer(live)
        producer.start()
        try:
            for i in range(ROUNDS * (2 if sink.name == "postgres" else 1)):
                kind = KINDS[i % len(KINDS)]
                point = chance.choice(points)
                fault = f"{point}:{chance.randint(1, 25)}:kill" if point else ""
                process = started(url, kind, sink, fault)
                assert kill(process, chance.uniform(0.0, 1.0) if not point else 2.0) == -9
        finally:
            producer.done.set()
            producer.join()
        assert producer.error is None
        live.settle()
        time.sleep(0.1)  # timers of the last round
        live.settle()
    engine = open_engine(url, None)
    try:
        kept = [export(engine, kind, sink) for kind in KINDS]
        check(sink, producer.sent, engine)
        record_property("summary", f"{sum(map(len, producer.sent.values()))} events, {kept} left")
        assert [export(engine, kind, sink) for kind in KINDS] == [0, 0, 0]
    finally:
        engine.close()


def check(sink: Sink, sent: dict[str, list[int]], engine: object) -> None:
    exported = sink.rows("events")
    ticks: dict[str, list[int]] = {}
    for row in exported:
        if row["type"] == "Tick" and row["agent"] == "Drone":
            ticks.setdefault(row["key"], []).append(row["payload"]["n"])
    assert ticks == sent
    for number in (0, 1):
        head = engine.view(number).head()  # type: ignore[attr-defined]
        own = [row for row in exported if row["partition"] == number]
        assert [r["position"] for r in own if r["fired"] is None] == list(range(head.position))
        assert [r["fired"] for r in own if r["fired"] is not None] == list(range(head.journal_next))
        numbers = [row["number"] for row in sink.rows("actions") if row["partition"] == number]
        assert numbers == list(range(head.actions_next))
    assert sink.states() == committed(engine)  # type: ignore[arg-type]
    beeps = {key: [n for n in numbers if n % 2] for key, numbers in sent.items()}
    found: dict[str, list[int]] = {}
    for row in sink.rows("actions"):
        found.setdefault(row["key"], []).append(row["payload"]["n"])
    assert found == {key: numbers for key, numbers in beeps.items() if numbers}
