"""A morning of telemetry: 40 drones, and one battery sensor that reports nonsense now and then."""

import random

from fleet import Battery, Drone, Moved, fleet

from holdfast import Event

DRONES = 40
ROUNDS = 200


def telemetry() -> list[tuple[type[Drone], str, Event]]:
    chance = random.Random(7)
    events: list[tuple[type[Drone], str, Event]] = []
    for number in range(ROUNDS):
        for drone in range(DRONES):
            key = f"d-{drone}"
            events.append((Drone, key, Moved(lat=52.5 + drone / 1000, lon=13.4 + number / 1e4)))
            percent = 100.0 - number * (0.2 + drone / 90)
            if drone == 17 and chance.random() < 0.02:
                percent = 3.0  # a loose contact
            events.append((Drone, key, Battery(percent=percent)))
    return events


with fleet.connect() as live:
    receipt = live.send_many(telemetry(), source="uplink", first_seq=1)
    live.settle(timeout=60)
    print(f"{len(telemetry()):,} events, {len(live.actions())} actions")
