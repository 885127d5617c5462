"""Everything that runs around one fleet on Kafka: brokers, machines with workers, producers.

A machine is a `holdfast run` with a cache folder of its own, so it shares nothing with the other
but the brokers. What ends is started again, as an init system would; how often, and why, is noted.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.kafka.ledger import Ledger, Reader
from tests.kills.harness import Site, children, ended, wait_until
from tests.kills.producer import Progress
from tests.kills.script import SOURCES, Row, first_rows
from tests.run.speed import patient
from tests.servers.kafka import KafkaCluster
from tests.servers.proxy import Proxy

PARTITIONS = 4
SETTINGS = "session_seconds=2&transaction_seconds=5"
CALM_SECONDS = patient(60.0)
END_SECONDS = 90.0  # a clean end, on a machine that has other things to do
WORKER = "holdfast.runtime.process"


# Killed, told to finish (at once, or once it could), fenced, unable to reach brokers, stuck.
EXPECTED_ENDS = {"-9", "-15", "0", "4", "1", "6"}


class Machine:
    """A supervisor, its workers and their cache."""

    def __init__(self, place: Place, name: str) -> None:
        self.name = name
        self._place = place
        self._process = self._start(2)

    def _start(self, workers: int) -> subprocess.Popen[bytes]:
        return self._place.start(
            self.name,
            [
                *("tests.kills.holdfast_command", "run", self._place.fleet),
                *("--engine", self._place.url, "--workers", str(workers)),
                *("--partitions", str(PARTITIONS)),
            ],
            {"HOLDFAST_CACHE": str(self._place.folder / f"cache-{self.name}")},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def workers(self) -> list[int]:
        return children(self._process.pid, WORKER)

    def kill(self, workers: int = 2) -> None:
        """And at once another one, while the kernel still ends the workers of the first."""
        ended(self._process)
        self._process = self._start(workers)

    def stop(self, workers: int = 2) -> None:
        self._process.terminate()
        self._process.wait(END_SECONDS)
        self._process = self._start(workers)

    def start_again(self) -> None:
        self._process = self._start(2)


class Place(Site):
    def __init__(self, folder: Path, cluster: KafkaCluster, proxy: Proxy, seed: int) -> None:
        super().__init__(folder, "")
        self.cluster = cluster
        self.proxy = proxy
        self.seed = seed
        self._begun = time.monotonic()
        self.url = f"kafka://{cluster.bootstrap}/swarm?{SETTINGS}"
        self.environment["HOLDFAST_PORT"] = "none"  # also outside pytest: nobody asks a gateway
        self.environment["SWARM_FIXED"] = "1"  # nobody pauses here: that is another test's matter
        # Brokers need a part of the machine too.
        self.environment["SWARM_ROWS_PER_SECOND"] = os.environ.get("SWARM_ROWS_PER_SECOND", "300")
        self.machines: list[Machine] = []
        self.producers: dict[str, subprocess.Popen[bytes]] = {}
        self.onlooker: subprocess.Popen[bytes] | None = None
        self.complaints = folder / "complaints.txt"
        self.ends: Counter[str] = Counter()  # of those that ended by themselves

    def begin(self, machines: Sequence[str] = ("north-wing", "south-wing")) -> None:
        self.machines = [Machine(self, name) for name in machines]
        started = "swarm runs on"
        wait_until(lambda: started in self.log(machines[0]), END_SECONDS, "the fleet is made")
        self.start_producers()
        self.start_onlooker()

    def start_onlooker(self) -> None:
        self.onlooker = self._onlooker()

    def start_producers(self) -> None:
        self.producers = {source: self._producer(source) for source in SOURCES}

    @property
    def reading_url(self) -> str:
        """For this process, which has copies of its own."""
        return f"{self.url}&cache={self.folder / 'cache-reader'}"

    # Producers.

    def _producer(self, source: str) -> subprocess.Popen[bytes]:
        arguments = ["connect", self.url, source, str(self.seed), str(self.progress(source))]
        return self.start(
            f"producer-{source}",
            ["tests.kills.producer", *arguments],
            {"HOLDFAST_CACHE": str(self.folder / f"cache-{source}")},
        )

    def _onlooker(self) -> subprocess.Popen[bytes]:
        cache = {"HOLDFAST_CACHE": str(self.folder / "cache-onlooker")}
        arguments = ["tests.kafka.onlooker", self.url, str(self.complaints)]
        return self.start("onlooker", arguments, cache)

    def progress(self, source: str) -> Path:
        return self.folder / f"{source}.progress"

    def end_producer(self, source: str, how: signal.Signals) -> None:
        self.producers[source].send_signal(how)
        self.producers[source].wait(END_SECONDS)
        self.producers[source] = self._producer(source)

    def acknowledged(self) -> int:
        return sum(Progress(self.progress(source)).acknowledged for source in SOURCES)

    def mark(self, line: str) -> None:
        """A line in every log, so that one sees what came after it."""
        for path in self.folder.glob("*.log"):
            with path.open("a") as log:
                log.write(f"---- {time.monotonic() - self._begun:.1f} s: {line}\n")

    # As an init system would.

    def tend(self) -> None:
        for machine in self.machines:
            if machine.exit_code is not None:
                self.ends[f"{machine.name} with {machine.exit_code}"] += 1
                machine.start_again()
        for source, process in self.producers.items():
            if process.poll() is not None and not self._has_finished(source):
                self.ends[f"producer {source} with {process.returncode}"] += 1
                self.producers[source] = self._producer(source)
        if self.onlooker is not None and self.onlooker.poll() is not None:
            self.ends[f"onlooker with {self.onlooker.returncode}"] += 1
            self.onlooker = self._onlooker()

    def _has_finished(self, source: str) -> bool:
        told = Path(f"{self.progress(source)}.stop").exists()
        return told and self.producers[source].poll() == 0

    def calm(self, seconds: float = CALM_SECONDS) -> dict[str, list[Row]]:
        """Let the producers finish; what they sent, per source, in order. Nobody asks any more."""
        if self.onlooker is not None:
            ended(self.onlooker)
            self.onlooker = None
        for source in SOURCES:
            Path(f"{self.progress(source)}.stop").touch()
        deadline = time.monotonic() + seconds
        while not all(map(self._has_finished, SOURCES)):
            assert time.monotonic() < deadline, f"producers have not finished in {seconds:g} s"
            self.tend()
            time.sleep(0.2)
        sent = {}
        for source in SOURCES:
            progress = Progress(self.progress(source))
            assert progress.acknowledged == progress.attempted
            sent[source] = first_rows(self.seed, source, progress.acknowledged)
        return sent

    # What came of it.

    def worker_ends(self) -> Counter[str]:
        """By exit code."""
        logs = "\n".join(self.log(machine.name) for machine in self.machines)
        return Counter(re.findall(r"worker \d+ ended \((.*)\)", logs))

    def surprises(self) -> list[str]:
        """What no fault of a plan explains."""
        found = [f"worker ended with {code}" for code in self.worker_ends().keys() - EXPECTED_ENDS]
        if self.complaints.exists():
            found += [f"the onlooker says: {line}" for line in _lines(self.complaints)]
        for machine in self.machines:
            lines = self.log(machine.name).splitlines()
            found += [f"{machine.name}: {line}" for line in lines if "Traceback" in line]
        return found

    def ledger(self) -> Ledger:
        return Reader(self._brokers(), PARTITIONS).read()

    def groups(self) -> str:
        """Who is to fold what, as the brokers have it."""
        admin = AdminClient({"bootstrap.servers": self._brokers()})
        names = [each.group_id for each in admin.list_consumer_groups().result().valid]
        lines = []
        for name, asked in admin.describe_consumer_groups(names).items():
            group = asked.result()
            lines.append(f"group {name} is {group.state.name}")
            for each in group.members:
                numbers = sorted(one.partition for one in each.assignment.topic_partitions)
                lines.append(f"  {each.group_instance_id or each.member_id} has {numbers}")
        return "\n".join(lines)

    def _brokers(self) -> str:
        return ",".join(f"127.0.0.1:{each.internal_port}" for each in self.cluster.brokers)

    def close(self) -> None:
        for machine in self.machines:
            for pid in (*machine.workers(), machine.pid):
                _continue(pid)
        super().close()


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()


def _continue(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


@contextmanager
def place(seed: int, brokers: int = 1, disk_bytes: int | None = None) -> Iterator[Place]:
    """A cluster behind a proxy, in a folder that goes with a test that passes."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-kafka-{seed}-"))
    try:
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy())
            cluster = KafkaCluster(
                brokers,
                folder=folder / "kafka",
                advertised=lambda _, port: proxy.in_front_of(port),
                disk_bytes=disk_bytes,
            )
            stack.enter_context(cluster)
            made = Place(folder, cluster, proxy, seed)
            stack.callback(made.close)
            yield made
    except Exception:
        print(f"seed {seed}: the logs of all processes are kept in {folder}")
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # a skip, or somebody's Ctrl-C
        raise
    shutil.rmtree(folder)
