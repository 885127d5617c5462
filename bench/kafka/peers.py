"""Quix Streams and Faust on a real Kafka broker, with two workers each.

    python -m bench.kafka.peers [--seconds 30] [--events N] [--only NAME] [--moving]

Prints JSON. Workers join on an empty topic and are paused while it is filled. The clock begins when
they go on, and ends after `seconds` or when a partition has no more; what counts are events whose
offsets are committed. The workers may finish the rest, for at most `--finish` seconds, and are
stopped. What they have committed by then is compared with the oracle, also where it is only a part
of the input: every action, and every drone's state.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka.admin import AdminClient

from bench.contenders.venvs import PEERS, install
from bench.events import Stream
from bench.kafka.checking import ReadState, number_in, outcome
from bench.kafka.group import Group, Offsets, steady, wait_busy, watch
from bench.kafka.loading import counts_of, make_topics, preload
from bench.oracle import expect

STOP_SECONDS_MAX = 15.0  # Faust often says its last word and then does not end
SETTLE_SECONDS = 5.0


@dataclass(frozen=True)
class Peer:
    name: str
    folder: str
    guarantee: str
    commit_seconds: float
    events: int  # as many as it does in half a minute or so
    changelog: Callable[[str, str], str]  # the topic's name, from those of the app and its input
    key_of: Callable[[bytes], str]
    read_state: ReadState


def quix_state(key: bytes, value: bytes) -> tuple[int, Sequence[float]]:
    """Keys are `<message key>|"<name of the value>"`."""
    return number_in(key.partition(b"|")[0].decode()), msgspec.json.decode(value)


def faust_state(key: bytes, value: bytes) -> tuple[int, Sequence[float]]:
    return number_in(msgspec.json.decode(key)), msgspec.json.decode(value)


QUIX = Peer(
    name="Quix Streams",
    folder="quix",
    guarantee="exactly-once",
    commit_seconds=1.0,
    events=2_000_000,
    changelog=lambda app, topic: f"changelog__{app}--{topic}--default",
    key_of=bytes.decode,
    read_state=quix_state,
)
FAUST = Peer(
    name="Faust",
    folder="faust",
    guarantee="exactly_once",
    commit_seconds=1.0,
    events=300_000,
    changelog=lambda app, topic: f"{app}-drones-changelog",
    key_of=bytes.decode,
    read_state=faust_state,
)


PEERS_ON_KAFKA = (QUIX, FAUST)


@dataclass(frozen=True)
class Run:
    """One peer, from an empty input topic on. Topics are named after the peer."""

    bootstrap: str
    folder: Path
    stream: Stream
    events: int
    seconds: float = 30.0
    finish_seconds: float = 120.0
    workers: int = 2
    partitions: int = 4
    # Workers start on a full topic, so that partitions move while events are processed. Else each
    # worker has its partitions before the first event is there.
    moving: bool = False

    @property
    def ends(self) -> Offsets:
        return tuple(counts_of(self.events, self.partitions))


class Workers:
    """Processes of one peer. Their words go to a log each."""

    def __init__(self, peer: Peer, plan: Path, count: int) -> None:
        python = install(peer.folder)
        program = PEERS / peer.folder / "drones.py"
        self._logs = [plan.with_name(f"log-{n}.txt") for n in range(count)]
        self._processes = []
        for n, log in enumerate(self._logs):
            with log.open("w") as file:
                words = [str(word) for word in (python, program, plan, n)]
                process = subprocess.Popen(words, cwd=plan.parent, stdout=file, stderr=file)
            self._processes.append(process)

    def pause(self) -> None:
        """For a moment: after a session (45 s and 60 s) they would be missed."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """An error if one has ended by itself."""
        for process, log in zip(self._processes, self._logs, strict=True):
            if process.poll() is not None:
                words = log.read_text(errors="replace")[-1_500:]
                raise RuntimeError(f"a worker ended with {process.returncode}: {words}")

    def stop(self) -> list[int]:
        """With a goodbye; who does not hear it is killed."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS_MAX
        for process in self._processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        return [process.wait() for process in self._processes]

    def errors(self) -> list[str]:
        lines = [line for log in self._logs for line in log.read_text(errors="replace").split("\n")]
        return [line for line in lines if "ERROR" in line or "CRITICAL" in line]


def measure(peer: Peer, run: Run) -> dict[str, Any]:
    """One run of a peer, as figures for JSON."""
    folder = run.folder / f"{peer.folder}-{time.time_ns()}"
    folder.mkdir(parents=True)
    app = folder.name
    topics = {"input": f"{app}-events", "output": f"{app}-actions"}
    admin = AdminClient({"bootstrap.servers": run.bootstrap})
    make_topics(admin, run.partitions, *topics.values())
    load = partial(preload, run.bootstrap, topics["input"], run.partitions, run.stream, run.events)
    if run.moving:
        load()
    plan = folder / "plan.json"
    told = {
        "bootstrap": run.bootstrap,
        "app": app,
        **topics,
        "partitions": run.partitions,
        "folder": str(folder),
        "guarantee": peer.guarantee,
        "commit_seconds": peer.commit_seconds,
    }
    plan.write_text(json.dumps(told))
    group = Group(admin, app, topics["input"], run.partitions)
    workers = Workers(peer, plan, run.workers)
    try:
        starting = wait_busy(group, workers.check, run.workers)
        if not run.moving:
            time.sleep(SETTLE_SECONDS)
            workers.pause()
            load()
            workers.resume()
        seen = watch(group, workers.check, run.seconds, run.ends)
        watch(group, workers.check, run.finish_seconds, run.ends)
    finally:
        codes = workers.stop()
    counts = group.committed()
    changelog = peer.changelog(app, topics["input"])
    found = outcome(
        *(run.bootstrap, topics["output"], changelog, run.partitions, run.stream.agents),
        *(peer.key_of, peer.read_state),
    )
    per_second, seconds, commits = steady(seen, run.ends)
    return {
        "peer": peer.name,
        "guarantee": peer.guarantee,
        "commit_seconds": peer.commit_seconds,
        **{name: getattr(run, name) for name in ("events", "workers", "partitions")},
        "stream": asdict(run.stream),
        "moving": run.moving,
        "per_second": round(per_second),
        "steady_seconds": round(seconds, 1),
        "commits": commits,
        "starting_seconds": round(starting, 1),
        "processed": sum(counts),
        "unfinished": [end - count for end, count in zip(run.ends, counts, strict=True)],
        "wrong": expect(run.stream, counts).differences(found),
        "exit_codes": codes,
        "errors": workers.errors()[:5],
    }


def main() -> None:
    from tests.servers.kafka import KafkaCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--finish", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--events", type=int, help="else by peer")
    parser.add_argument("--agents", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--mix", choices=("positions", "mixed"), default="mixed")
    parser.add_argument("--moving", action="store_true", help="partitions, while events come")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--folder", type=Path, help="kept, with the logs of the workers")
    wanted = parser.parse_args()
    stream = Stream(agents=wanted.agents, mix=wanted.mix)
    folder = wanted.folder or Path(tempfile.mkdtemp(prefix="bench-kafka-"))
    results = []
    with KafkaCluster(tests=False, heap_mb=1024) as kafka:
        for peer in PEERS_ON_KAFKA:
            run = Run(
                *(kafka.bootstrap, folder, stream, wanted.events or peer.events),
                *(wanted.seconds, wanted.finish),
                partitions=wanted.partitions,
                moving=wanted.moving,
            )
            if wanted.only.lower() in peer.name.lower():
                print(f"{peer.name}, {peer.guarantee} …", file=sys.stderr, flush=True)
                results.append(measure(peer, run))
    print(json.dumps({"cores": os.cpu_count(), "results": results}, indent=1))
    if any(result["wrong"] for result in results):
        sys.exit("a peer's states or actions differ from the oracle's: see above")


if __name__ == "__main__":
    main()
