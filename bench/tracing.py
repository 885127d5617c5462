"""`python -m bench.tracing`: what traces cost, with and without them in turn within one run.

Workers on fleets of their own take the same blocks of commits one after the other: one whose events
have no context; one that gets contexts which are not sampled, one per send, as from a gateway; and
those of whose events 1 of 10,000, of 1,000 and of 100 are sampled. All but the first export to a
receiver. Told is the processor time of the threads that fold, and the median of the ratios to the
first. Exporting is on another thread: its processor time per span is told by itself. Commits of one
event and of 16,384, interpreted and compiled. BENCH_BLOCKS says how many blocks.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.events import Events, Stream, key_of
from bench.in_turn import (
    AGENTS,
    BLOCKS,
    LARGE,
    ONE_KIND,
    SMALL,
    Size,
    block_of,
    print_both_kinds,
)
from bench.ours.producing import rows_of
from bench.program import COMPILED, Drone, Position, fleet
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.tracing.exporting import ENDPOINT, Exporter
from holdfast.runtime.tracing.spans import Span
from holdfast.runtime.worker import Worker

# So many events there are to one that is sampled.
SAMPLED = {"1_of_10000": 10_000, "1_of_1000": 1_000, "1_of_100": 100}
KINDS = ("none", "unsampled", *SAMPLED)
Contexts = Callable[[int], str | Sequence[str]]


def context(flags: str) -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-{flags}"


def contexts_of(kind: str) -> Contexts:
    if kind in SAMPLED:
        return one_of(SAMPLED[kind])
    return lambda count: context("00") if kind == "unsampled" else ""


def one_of(every: int) -> Contexts:
    sent = 0

    def contexts(count: int) -> Sequence[str]:
        nonlocal sent
        sent += count
        return [context("01") if n % every == 0 else "" for n in range(sent - count, sent)]

    return contexts


def in_turn(folder: Path, size: Size, tracer: Exporter) -> dict[str, float]:
    blocks = [prepare(folder / kind, kind, size, tracer) for kind in KINDS]
    turns = [[block() for block in blocks] for _ in range(blocks_wanted())][1:]  # one warms up
    commits = size[2]
    figures: dict[str, float] = {}
    for place, kind in enumerate(KINDS):
        taken = statistics.median(turn[place] for turn in turns)
        figures[f"microseconds_{kind}"] = round(1e6 * taken / commits, 1)
        if place:
            ratio = statistics.median(turn[place] / turn[0] for turn in turns)
            figures[f"percent_{kind}"] = round(100 * (ratio - 1), 2)
    return figures


def blocks_wanted() -> int:
    return int(os.environ.get("BENCH_BLOCKS", BLOCKS))


def prepare(folder: Path, kind: str, size: Size, tracer: Exporter) -> Callable[[], float]:
    """A worker, and how much processor time a block of commits takes it."""
    stream = Stream(agents=AGENTS)
    engine = open_engine(f"sqlite:{folder}", fleet.name, create_partitions=1)
    send = sender(Live(fleet, engine), stream, contexts_of(kind))
    worker = Worker(fleet, engine, [0], metered=True, tracer=None if kind == "none" else tracer)
    return block_of(worker, stream, size, send)


def sender(live: Live, stream: Stream, contexts: Contexts) -> Callable[[Events, int], None]:
    names = [key_of(n) for n in range(stream.agents)]
    if not COMPILED:

        def send_rows(part: Events, first: int) -> None:
            trace = contexts(len(part))
            live.send_many(rows_of(part, names), source="one", first_seq=first, trace=trace)

        return send_rows
    keys = live.keys(Drone, names)

    def send_columns(part: Events, first: int) -> None:
        values = {"lat": part.lat, "lon": part.lon, "alt": part.alt}
        trace = contexts(len(part))
        live.send_columns(
            Drone, Position, keys[part.agent], values, source="one", first_seq=first, trace=trace
        )

    return send_columns


def exporting(tracer: Exporter) -> float:
    """Microseconds of processor time for a span, on the thread that exports."""
    attributes = {f"holdfast.{n}": n for n in range(8)}
    spans = [
        Span("Drone.Position", "consumer", context("01"), context("01"), 1.0, 2.0, attributes)
        for _ in range(512)
    ]
    taken = []
    for _ in range(20):
        begin = time.thread_time()
        tracer._export(spans)
        taken.append(time.thread_time() - begin)
    return round(1e6 * statistics.median(taken) / len(spans), 1)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """It is quiet."""


@contextmanager
def receiver() -> Iterator[str]:
    """In a process of its own: it takes nothing from what is measured but a core."""
    words = [sys.executable, "-m", "bench.tracing", "receive"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def receive() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def one_kind() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, receiver() as url:
        os.environ[ENDPOINT] = url
        tracer = Exporter(fleet.name, "bench")
        folder = Path(name)
        figures: dict[str, object] = {
            "commits_of_1": in_turn(folder / "small", SMALL, tracer),
            "commits_of_16384": in_turn(folder / "large", LARGE, tracer),
        }
        figures["spans_exported"], figures["spans_dropped"] = tracer.exported, tracer.dropped
        figures["exporting_microseconds_per_span"] = exporting(tracer)
        tracer.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    known = {"receive": receive, ONE_KIND: one_kind}
    known.get("".join(sys.argv[1:]), partial(print_both_kinds, "bench.tracing"))()
