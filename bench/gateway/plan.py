"""What client number so and so sends under sequence number so and so: all of it follows from these
two numbers, so that the oracle needs no record of the events."""

from __future__ import annotations

from typing import NamedTuple

DRONES_PER_CLIENT = 5
HIGH_EVERY = 49  # every so many events of a client make one action


class Planned(NamedTuple):
    key: str
    alt: int


def source_of(client: int) -> str:
    return f"client-{client}"


def keys_of(client: int) -> list[str]:
    return [f"d-{client}-{n}" for n in range(DRONES_PER_CLIENT)]


def planned(client: int, seq: int) -> Planned:
    alt = 120 if seq % HIGH_EVERY == 0 else 40 + seq % 50
    return Planned(f"d-{client}-{seq % DRONES_PER_CLIENT}", alt)


def events_for(drone: int, last: int) -> int:
    """How many of a client's events 1 to `last` are for one of its drones."""
    first = drone or DRONES_PER_CLIENT
    return 0 if last < first else (last - first) // DRONES_PER_CLIENT + 1


def as_json(client: int, first: int, count: int) -> bytes:
    """One event as an object, several as an array."""
    rows = []
    for seq in range(first, first + count):
        key, alt = planned(client, seq)
        rows.append(
            f'{{"agent":"Drone","key":"{key}","type":"Position","data":{{"number":{seq},'
            f'"lat":52.1,"lon":4.3,"alt":{alt}}},"source":"{source_of(client)}","seq":{seq}}}'
        )
    return (rows[0] if count == 1 else f"[{','.join(rows)}]").encode()
