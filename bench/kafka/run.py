"""`make bench-kafka`: ours and the peers on one broker, one after the other, then a report.

    python -m bench.kafka.run [--seconds 20] [--part NAME] [--add] [--publish]

Nothing else should run on the machine. Figures go to bench-data/kafka.json after each part, so an
interrupted benchmark is not lost; with --publish they also go into docs/BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.events import Stream
from bench.kafka import ours, peers
from bench.kafka.report import publish
from bench.results import machine
from tests.servers.kafka import KafkaCluster

OUT = Path("bench-data/kafka.json")
PARTS = (*ours.PARTS, "peers")


def peers_on(bootstrap: str, seconds: float) -> dict[str, Any]:
    """On mixed events, as single JSON records that wait."""
    found = {}
    for peer in peers.PEERS_ON_KAFKA:
        with tempfile.TemporaryDirectory(prefix="bench-kafka-") as place:
            stream = Stream(mix="mixed")
            run = peers.Run(bootstrap, Path(place), stream, peer.events, seconds)
            found[peer.name] = peers.measure(peer, run)
    return found


def warm_up(bootstrap: str) -> None:
    """For about a minute the JVM of a new broker needs a core for its own compiling."""
    ours.throughput(bootstrap, 10.0)
    ours.waiting(bootstrap, 0.0)


def tell(what: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--part", action="append", default=[], choices=PARTS)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--add", action="store_true", help="to the figures that are there")
    parser.add_argument("--publish", action="store_true", help="into docs/, as measured now")
    wanted = parser.parse_args()
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "seconds": wanted.seconds,
        "machine": machine(wanted.out.parent),
    }
    if wanted.add and wanted.out.exists():
        document = json.loads(wanted.out.read_text()) | document
    with KafkaCluster(tests=False, heap_mb=1024) as cluster:
        tell("warming up the broker")
        warm_up(cluster.bootstrap)
        for name in wanted.part or PARTS:
            tell(name)
            measure = peers_on if name == "peers" else ours.PARTS[name]
            document[name] = measure(cluster.bootstrap, wanted.seconds)
            wanted.out.write_text(json.dumps(document, indent=1) + "\n")
    print(publish(document, Path("docs") if wanted.publish else wanted.out.parent))


if __name__ == "__main__":
    main()
