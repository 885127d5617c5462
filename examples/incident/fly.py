"""A morning of telemetry: 40 drones, and one whose battery sensor has a loose contact."""

from fleet import Battery, Drone, Moved, fleet

from holdfast import Event

DRONES = 40
ROUNDS = 100
LOOSE_CONTACT = 17, 60  # drone, round


def telemetry(number: int) -> list[tuple[type[Drone], str, Event]]:
    events: list[tuple[type[Drone], str, Event]] = []
    for drone in range(DRONES):
        percent = 3.0 if (drone, number) == LOOSE_CONTACT else 100.0 - number * (0.4 + drone / 70)
        place = Moved(lat=52.50 + drone / 1000, lon=13.40 + number / 10_000)
        events += [(Drone, f"d-{drone}", place), (Drone, f"d-{drone}", Battery(percent=percent))]
    return events


with fleet.connect() as live:
    for number in range(ROUNDS):
        live.send_many(telemetry(number), source="uplink", first_seq=1 + number * 2 * DRONES)
    live.settle(timeout=60.0)
    print(f"{ROUNDS * DRONES * 2:,} events, {len(live.actions())} actions")
