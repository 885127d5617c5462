"""The drone program on Quix Streams: one worker of a consumer group, until SIGTERM.

    python drones.py PLAN.json WORKER

Reads single events from a topic, keeps each drone's state in RocksDB with a changelog topic, and
writes actions to another topic, exactly once: bench/kafka/peers.py starts it and checks the rest.
Quix has no timers, so there is no watchdog here.

What is chosen for throughput:
- State is one value per drone, a list: each value more is a read and a write more for every event.
- A checkpoint (one Kafka transaction, with one changelog record per drone that has changed) after
  `commit_seconds`, with no limit by count: 1 s, as the other peers have. In one short run of each,
  5 s (the usual) and bigger fetches were not clearly faster. The rest is as Quix has it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from quixstreams import Application, State

# In this order: lat, lon, alt, battery, closest, mode, moves, beats, warnings.
FRESH = (0.0, 0.0, 0.0, 100.0, 1.0, 0, 0, 0, 0)


def folded(event: dict[str, Any], store: State) -> list[dict[str, Any]]:
    """The actions that an event makes."""
    state = store.get("drone") or list(FRESH)
    actions: list[dict[str, Any]] = []
    kind = event["type"]
    if kind == "Position":
        state[0], state[1], state[2] = event["lat"], event["lon"], event["alt"]
        state[6] += 1
        if state[2] > 100.0:
            actions.append({"action": "Descend", "to": state[2] - 20.0})
    elif kind == "Battery":
        percent = state[3] = event["percent"]
        if not state[5] and percent < 15.0:
            state[5] = 1
            actions.append({"action": "Land"})
        elif state[5] and percent >= 90.0:
            state[5] = 0
    elif kind == "Heartbeat":
        state[7] += 1
    store.set("drone", state)
    return actions


def application(plan: dict[str, Any], worker: str) -> Application:
    app = Application(
        broker_address=plan["bootstrap"],
        consumer_group=plan["app"],
        auto_offset_reset="earliest",
        processing_guarantee=plan["guarantee"],
        commit_interval=plan["commit_seconds"],
        state_dir=Path(plan["folder"]) / f"state-{worker}",
        loglevel="INFO",
    )
    events = app.topic(plan["input"], value_deserializer="json")
    actions = app.topic(plan["output"], value_serializer="json")
    drones = app.dataframe(events).apply(folded, stateful=True, expand=True)
    drones.to_topic(actions)
    return app


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    application(plan, sys.argv[2]).run()


if __name__ == "__main__":
    main()
