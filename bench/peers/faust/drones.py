"""The drone program on Faust: one worker of an app, until SIGTERM.

    python drones.py PLAN.json WORKER

Reads single events from a topic, keeps each drone's state in a table with a changelog topic, and
writes actions to another topic; bench/kafka/peers.py starts it and checks the rest. Faust has no
timers per key, so there is no watchdog here.

What is chosen for throughput, after one short run of each on a busy machine, when actions were not
yet in transactions: to be measured again on an idle one.
- `producer_linger` and a big batch: about 3 times as fast. Without, there are many small requests.
- The table is in memory; after a crash the changelog gives it back. With RocksDB: half the rate.
- A commit (one Kafka transaction per partition) after `commit_seconds` and none by count: 1 s, as
  the other peers have; 2.8 s, the usual, was not faster.
- No threaded producer, which had half the rate. A bigger stream buffer and uvloop: no clear change.
- Events one by one: by its code, a table takes the partition of the current event, so a batch
  (`take`) would not fit.

What exactly_once needs: the app subscribes to its own actions, and an action goes to the partition
of its event. Records to topics that the app does not read are written outside of transactions, with
no word about it (faust-streaming/faust #177); among those it reads, a record's own partition says
which transaction it is in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import faust

# In this order: lat, lon, alt, battery, closest, mode, moves, beats, warnings.
FRESH = (0.0, 0.0, 0.0, 100.0, 1.0, 0, 0, 0, 0)


def folded(event: dict[str, Any], state: list[Any]) -> dict[str, Any] | None:
    """The action that an event makes, if any; the state is changed in place."""
    kind = event["type"]
    if kind == "Position":
        state[0], state[1], state[2] = event["lat"], event["lon"], event["alt"]
        state[6] += 1
        if state[2] > 100.0:
            return {"action": "Descend", "to": state[2] - 20.0}
    elif kind == "Battery":
        percent = state[3] = event["percent"]
        if not state[5] and percent < 15.0:
            state[5] = 1
            return {"action": "Land"}
        if state[5] and percent >= 90.0:
            state[5] = 0
    elif kind == "Heartbeat":
        state[7] += 1
    return None


def application(plan: dict[str, Any], worker: str) -> faust.App:
    app = faust.App(
        plan["app"],
        broker=f"kafka://{plan['bootstrap']}",
        store="memory://",
        processing_guarantee=plan["guarantee"],
        broker_commit_interval=plan["commit_seconds"],
        broker_commit_every=10**9,
        producer_linger=0.1,
        producer_max_batch_size=1 << 20,
        topic_partitions=plan["partitions"],
        topic_replication_factor=1,
        table_standby_replicas=0,
        topic_disable_leader=True,
        datadir=Path(plan["folder"]) / f"state-{worker}",
    )
    events = app.topic(plan["input"], key_type=str, key_serializer="raw", value_serializer="json")
    actions = app.topic(plan["output"], key_type=str, key_serializer="raw", value_serializer="json")
    drones = app.Table("drones", partitions=plan["partitions"])

    @app.agent(events)
    async def fold(stream: faust.StreamT) -> None:
        async for event in stream.events():
            key = event.key
            state = drones.get(key) or list(FRESH)
            action = folded(event.value, state)
            drones[key] = state
            if action is not None:
                await actions.send(key=key, value=action, partition=event.message.partition)

    @app.agent(actions)
    async def ignored(stream: faust.StreamT) -> None:
        async for _ in stream:
            pass

    return app


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    app = application(plan, sys.argv[2])
    sys.argv[1:] = ["worker", "--without-web", "-l", "info"]
    app.main()


if __name__ == "__main__":
    main()
