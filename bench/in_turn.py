"""What benchmarks share that have workers take the same blocks of commits one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from bench.events import Events, Stream
from holdfast.runtime.worker import Worker

Size = tuple[int, int, int]  # events in a send, sends in a commit, commits in a block
SMALL: Size = (1, 1, 50)
LARGE: Size = (4_096, 4, 4)
AGENTS = 1_000
BLOCKS = 60  # of each worker
ONE_KIND = "one-kind"


def block_of(
    worker: Worker, stream: Stream, size: Size, send: Callable[[Events, int], object]
) -> Callable[[], float]:
    """How much processor time a block of commits takes this worker's thread."""
    events, sends, commits = size
    sent = 0

    def block() -> float:
        nonlocal sent
        taken = 0.0
        for _ in range(commits):
            for _ in range(sends):
                send(Events(stream, 0, 1, sent, events), sent + 1)
                sent += events
            begin = time.thread_time()
            while worker.tick():
                pass
            taken += time.thread_time() - begin
        return taken

    return block


def print_both_kinds(module: str) -> None:
    """Each in a process of its own: whether the class is compiled is decided when it is
    imported."""
    figures = {}
    for kind, compiled in (("interpreted", "0"), ("compiled", "1")):
        done = subprocess.run(
            [sys.executable, "-m", module, ONE_KIND],
            env={**os.environ, "BENCH_COMPILED": compiled},
            stdout=subprocess.PIPE,
            check=True,
        )
        figures[kind] = json.loads(done.stdout)
    print(json.dumps(figures, indent=1))
