"""The bridge's process: `python -m holdfast.gateway.mqtt.process URL BROKER TABLE FLEET PIPE`.

Started by the supervisor, never by hand. It needs no classes of the user and runs none.
"""

from __future__ import annotations

import threading

from holdfast.engine.urls import open_engine
from holdfast.gateway.mqtt.starting import run_bridge
from holdfast.runtime import logs
from holdfast.runtime.supervised import attend, serve, when_told_to_finish


def run(url: str, broker: str, table: str, fleet: str, pipe: str) -> int:
    attend(pipe)
    engine = open_engine(url, fleet)
    stopping = threading.Event()
    when_told_to_finish(stopping.set)
    try:
        run_bridge(engine, url, broker, table or None, None, stopping.is_set, say=logs.say)
    finally:
        engine.close()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="MQTT bridge")
