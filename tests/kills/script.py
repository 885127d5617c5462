"""What the producers send: endless, the same at every start, made of plain values only.

Producers and the oracle read the same script; neither side learns anything of the other from it.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

SOURCES = ("north", "south")
DRONES = 16
METERS = 6
VALVES = 3
VISITORS = 40  # seldom enough that they expire between visits
HOUR = 3600.0


class Row(NamedTuple):
    """One event from outside; `number` is also its sequence number."""

    number: int
    agent: str
    key: str
    event: str
    fields: dict[str, object]


def rows(seed: int, source: str) -> Iterator[Row]:
    """Modes and cargo of a drone come from one source only: their order decides what happens."""
    chance = random.Random(f"{seed}/{source}")
    own = [i for i in range(DRONES) if i % len(SOURCES) == SOURCES.index(source)]
    flying: set[int] = set()
    hanging: list[tuple[str, int]] = []  # armed for an hour, to be disarmed
    number = 0
    while True:
        number += 1
        drone = chance.randrange(DRONES)
        roll = chance.random()
        agent, key, event = "Drone", f"d-{drone}", ""
        fields: dict[str, object] = {"source": source, "number": number}
        if roll < 0.30:
            event, fields["value"] = "Moved", chance.randrange(1000)
        elif roll < 0.60:
            agent, key, event = "Meter", f"m-{chance.randrange(METERS)}", "Pulse"
            fields["value"] = chance.choice((chance.randrange(1000), chance.randrange(600, 1000)))
        elif roll < 0.62:
            agent, key, event = "Visitor", f"x-{chance.randrange(VISITORS)}", "Visit"
        elif roll < 0.65:
            agent, key, event = "Meter", f"solo-{source}", "Beat"
            fields = {"number": number}
        elif roll < 0.76:
            drone = chance.choice(own)
            key, fields = f"d-{drone}", {"number": number}
            if chance.random() < 0.6:
                event = "Cargo"
            else:
                event = "Landed" if drone in flying else "Takeoff"
                flying ^= {drone}
        elif roll < 0.82:
            event = "Arm"
            fields |= {"delay": round(chance.uniform(0.0, 1.5), 3), "again": chance.randrange(3)}
            if chance.random() < 0.3:
                fields["delay"] = HOUR
                hanging.append((key, number))
        elif roll < 0.85 and hanging:
            event = "Disarm"
            key, fields["number"] = hanging.pop(0)
        elif roll < 0.91:
            event = "Query"
        elif roll < 0.96:
            event, fields = "Baton", {"number": number, "left": chance.randrange(8)}
        else:
            agent, key, event = "Valve", f"v-{chance.randrange(VALVES)}", "Turn"
            fields["bad"] = key != "v-2" and chance.random() < 0.1
        yield Row(number, agent, key, event, fields)


def first_rows(seed: int, source: str, count: int) -> list[Row]:
    script = rows(seed, source)
    return [next(script) for _ in range(count)]
