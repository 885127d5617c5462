"""What is run: streams, lengths, sizes of sends, offered rates, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bench.events import Stream

# Seconds of a run, by part of the benchmark.
SECONDS = {
    "throughput": 60.0,
    "sends": 60.0,
    "latency": 30.0,
    "slow-sync": 30.0,
    "growth": 60.0,
    "on-off": 20.0,
}
QUICK_SECONDS = 2.0
RATES = (1_000, 10_000, 50_000, 200_000)
SAMPLES_PER_SECOND = 5_000  # at most so many events of a latency run make an action
SIZES = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Workload:
    name: str
    stream: Stream = field(default_factory=Stream)
    seconds: float = SECONDS["throughput"]
    # Events in a send, and threads of the one producer process that send. 0: as the contender does
    # best; peers without sends do not look at it.
    send: int = 0
    threads: int = 1
    rate: int = 0  # offered events per second; 0: as many as go
    most: int = 0  # events at most; 0: until the time is over
    watchdog: bool = True
    kill: bool = False  # kill -9 of everybody in the middle, then on
    slow_sync: bool = False  # 2 ms more for every sync
    recover: bool = False  # open again in a fresh process, with a cold page cache
    # Seconds before these that do not count: for latency everybody's, else of who runs on a JVM.
    warmup: float = 0.0

    @property
    def offered(self) -> int:
        """Events of a run at a rate."""
        return int((self.warmup + self.seconds) * self.rate)

    @property
    def first_counted(self) -> int:
        """Of a run at a rate: events before this number warm it up."""
        return int(self.warmup * self.rate)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Workload:
        return cls(**{**fields, "stream": Stream(**fields["stream"])})


def throughput(seconds: float, warmup: float) -> list[Workload]:
    """For every contender."""
    return [
        Workload("base", seconds=seconds, warmup=warmup),
        Workload("mixed", Stream(mix="mixed"), seconds=seconds, warmup=warmup),
        Workload("messages", Stream(mix="messages"), seconds=seconds, warmup=warmup),
    ]


def sends(seconds: float) -> list[Workload]:
    """For ours, which is told in sends. Small ones come from threads that share transactions."""
    return [
        Workload("send-8192", seconds=seconds, send=8_192),
        Workload("send-4096", seconds=seconds, send=4_096),
        Workload("send-256", seconds=seconds, send=256, threads=8),
        Workload("no-timer", seconds=seconds, watchdog=False),
        Workload("kill", Stream(mix="mixed"), seconds=seconds, kill=True),
    ]


def latency(seconds: float) -> list[Workload]:
    return [
        Workload(
            f"latency-{rate}",
            Stream(every=max(1, rate // SAMPLES_PER_SECOND)),
            seconds=seconds,
            rate=rate,
            warmup=seconds / 4,
        )
        for rate in RATES
    ]


def growth(seconds: float, sizes: tuple[int, ...] = SIZES) -> list[Workload]:
    """Every agent gets at least one event, however short the run."""
    return [
        Workload(f"agents-{size}", Stream(agents=size), seconds=seconds, recover=True)
        for size in sizes
    ]
