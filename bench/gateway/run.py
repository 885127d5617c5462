"""`make bench-gateway`: 200 clients on a real gateway, judged by an oracle, then a client alone.

    python -m bench.gateway.run [--seconds 120] [--quick] [--clients 200] [--workers 1] [--pause 0]

Nothing else should run on the machine. Figures go to bench-data/gateway.json and to the screen; the
exit code is 1 where anything was lost, doubled or out of order, or where memory grew.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.gateway import oracle
from bench.gateway.drones import Drone, fleet
from bench.gateway.rows import rows
from bench.gateway.running import Running, running
from bench.gateway.watching import Watch
from bench.results import machine

SECONDS, QUICK_SECONDS = 120.0, 10.0
ROW_SECONDS, QUICK_ROW_SECONDS = 5.0, 1.0
SETTLE_SECONDS = 120.0


def under_load(
    folder: Path, clients: int, seconds: float, pause: float, workers: int
) -> dict[str, Any]:
    with running(folder, workers) as there:
        watch = Watch(there.pid)
        words = [str(there.port), str(clients), str(seconds), str(pause)]
        command = [sys.executable, "-m", "bench.gateway.clients", *words]
        load = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        processes = watch.end()
        wrong = judged(there, load)
    figures = load["figures"]
    requests = figures["requests_per_second"] * figures["seconds"]
    spent = processes["gateway"]["cpu_seconds"]
    figures["gateway_cpu_us_per_request"] = round(1e6 * float(str(spent)) / requests)
    grown = [name for name, each in processes.items() if each.get("flat") is False]
    wrong += [f"the memory of the {name} grew" for name in grown]
    return {**figures, "processes": processes, "wrong": wrong}


def judged(there: Running, load: dict[str, Any]) -> list[str]:
    """What is wrong, by everybody who can tell."""
    wanted = oracle.expected(load["lasts"])
    with fleet.connect(there.url) as live:
        live.settle(timeout=SETTLE_SECONDS)
        states = {key: (drone.count, drone.digest) for key, drone in live.states(Drone)}
        letters = live.dead_letters()
    exported = there.folder / "events.ndjson"
    holdfast = Path(sys.executable).with_name("holdfast")
    command = [
        str(holdfast),
        "export",
        "events",
        "--engine",
        there.url,
        "--to",
        f"ndjson:{exported}",
    ]
    subprocess.run(command, check=True, capture_output=True)
    inbox, foreign = oracle.inbox_of(exported)
    return [
        *load["findings"],
        *oracle.judge_states(wanted, states),
        *foreign,
        *oracle.judge_inbox(wanted, inbox),
        *oracle.judge_actions(wanted, load["actions"]),
        *[f"a dead letter: {letter}" for letter in letters[:5]],
    ]


def alone(folder: Path, seconds: float, workers: int) -> list[dict[str, object]]:
    with running(folder, workers) as there:
        return rows(there.port, seconds)


def times(of: dict[str, Any]) -> str:
    return f"p50 {of['p50_ms']:>8.2f} ms  p99 {of['p99_ms']:>8.2f} ms"


def shown(document: dict[str, Any]) -> str:
    load = document["load"]
    lines = [
        f"{load['clients']} clients for {load['seconds']} s: "
        f"{load['requests_per_second']:,} requests/s, {load['events_per_second']:,} events/s, "
        f"{load['gateway_cpu_us_per_request']} us of the gateway's processor per request",
        f"answers by status: {load['statuses']}, connections broken: {load['broken_connections']}",
    ]
    lines += [
        f"  {kind:10} {each['samples']:>9,.0f} {times(each)}"
        for kind, each in load["answered_ms"].items()
    ]
    lines += [f"  {name}: {each}" for name, each in load["processes"].items()]
    lines += [
        f"  {row['form']:24} {row['events_per_request']:>5} a request "
        f"{row['events_per_second']:>9,} events/s {times(row)}"
        for row in document.get("alone", [])
    ]
    lines += [f"WRONG: {line}" for line in load["wrong"]]
    if not load["wrong"]:
        lines.append(f"of {load['events']:,} events none lost, doubled or out of order")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quick", action="store_true", help="10 seconds: says nothing of memory")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="of a client, seconds on average")
    parser.add_argument("--no-rows", action="store_true", help="only the load")
    parser.add_argument("--out", type=Path, default=Path("bench-data/gateway.json"))
    wanted = parser.parse_args()
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    folder = wanted.out.parent
    seconds = wanted.seconds or (QUICK_SECONDS if wanted.quick else SECONDS)
    document: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(folder),
        "load": under_load(folder, wanted.clients, seconds, wanted.pause, wanted.workers),
    }
    if not wanted.no_rows:
        each = QUICK_ROW_SECONDS if wanted.quick else ROW_SECONDS
        document["alone"] = alone(folder, each, wanted.workers)
    wanted.out.write_text(json.dumps(document, indent=1) + "\n")
    print(shown(document))
    sys.exit(bool(document["load"]["wrong"]))


if __name__ == "__main__":
    main()
