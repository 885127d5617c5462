"""A reader without any copy: `python -m bench.kafka.copying URL CACHE` tells how long one takes."""

from __future__ import annotations

import json
import re
import sys
import time

from bench.program import Drone, fleet
from holdfast.engine.kafka.engine import KafkaEngine


def main() -> None:
    url = re.sub("cache=[^&]*", f"cache={sys.argv[2]}", sys.argv[1])
    begin = time.perf_counter()
    with fleet.connect(url) as live:
        engine = live._engine
        assert isinstance(engine, KafkaEngine)
        for number in engine.catalog.layout.numbers:
            engine._copies.of(number).catch_up()  # not asked of the owner
        seconds = time.perf_counter() - begin
        agents = sum(1 for key, _ in live.states(Drone) if key.startswith("d-"))
    print(json.dumps({"seconds": seconds, "agents": agents}))


if __name__ == "__main__":
    main()
