"""Apache Flink, Java DataStream API, with its state on the heap or in RocksDB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.contenders.base import Guarantees, call, judged, read
from bench.contenders.venvs import PEERS, finish, install, jars
from bench.results import Result
from bench.slow_sync import build
from bench.workloads import Workload

HEAP = "4g"
START_SECONDS_MAX = 300.0  # on top of the length of the run: a cluster starts, a checkpoint ends

# What Flink's own configuration asks of Java 17: its serializers look into these.
OPENS = [
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
    for package in (
        *("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util"),
        *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
    )
]

BACKENDS = {"heap": "hashmap", "RocksDB": "rocksdb"}


class Flink:
    guarantees = Guarantees(
        log="none: its generator makes each event again from a number after a failure",
        state="exactly once, as of the last checkpoint (every second, synced to a local directory)",
        actions="committed with the checkpoint, so up to a second and more after the event",
        not_given="an event outlives a crash only if its source can give it again; messages "
        "between drones go one way, to a second operator; nobody can read a state while it runs",
    )

    def __init__(self, state: str) -> None:
        self.name = f"Flink Java, {state}"
        self._backend = BACKENDS[state]
        self._jars = Path()
        self._classes = PEERS / "flink" / "built"

    def prepare(self) -> None:
        self._jars = jars(install("flink"))
        self._classes.mkdir(exist_ok=True)
        sources = sorted((PEERS / "flink" / "src" / "bench").glob("*.java"))
        path = f"{self._jars}/*"
        finish(["javac", "-nowarn", "-proc:none", "-d", self._classes, "-cp", path, *sources])

    def settings(self) -> Sequence[str]:
        return ("parallelism 1", "parallelism 2")

    def refuses(self, workload: Workload) -> str:
        return "it has no sends" if workload.name.startswith("send-") or workload.kill else ""

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        plan, out = folder / "plan.properties", folder / "result.json"
        plan.write_text("".join(f"{k}={v}\n" for k, v in self._plan(workload, setting, folder)))
        environment = {"LD_PRELOAD": str(build())} if workload.slow_sync else {}
        path = f"{self._classes}:{self._jars}/*"
        words = ["java", f"-Xmx{HEAP}", *OPENS, "-cp", path, "bench.Main"]
        seconds = workload.seconds + workload.warmup + START_SECONDS_MAX
        call([*words, str(plan), str(out)], folder, environment, seconds)
        found = read(out)
        names = ("latency", "arrival", "resident_kb", "heap_bytes")
        figures = {name: found[name] for name in names if workload.rate or "_" in name}
        return judged(self.name, workload, setting, found, **figures)

    def _plan(self, workload: Workload, setting: str, folder: Path) -> list[tuple[str, object]]:
        stream = workload.stream
        return [
            ("seed", stream.seed),
            ("agents", stream.agents),
            ("mix", stream.mix),
            ("every", stream.every),
            ("backend", self._backend),
            ("parallelism", setting.split()[1]),
            ("seconds", workload.seconds),
            ("warmup", workload.warmup),
            ("most", workload.most),
            ("rate", workload.rate),
            ("watchdog", 3600 if workload.watchdog else 0),
            ("folder", folder),
        ]
