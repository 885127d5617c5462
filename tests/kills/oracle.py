"""The oracle: what the swarm must end up as, worked out in plain Python.

It shares no code with Holdfast and none with the fleet: it reads the rows that were acknowledged,
per source in the order they were sent, and says what every state, action and dead letter must be.
A message is accounted for at both ends, a timer by how often it must have rung.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.kills.script import DRONES, HOUR, METERS, VALVES, Row

HUBS = 4
Plain = dict[str, object]
Output = tuple[str, str, str, tuple[object, ...]]  # agent, key, class, fields


def chain_of(before: str, *parts: object) -> str:
    joined = "|".join([before] + [str(part) for part in parts])
    return hashlib.blake2b(joined.encode(), digest_size=6).hexdigest()


@dataclass
class DroneTruth:
    mode: str = "docked"
    seen: int = 0
    chains: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    trips: int = 0
    cargo: str = ""
    rung: dict[str, int] = field(default_factory=dict)
    early: int = 0
    cancelled: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    batons: int = 0
    baton_sum: int = 0
    sent: dict[str, int] = field(default_factory=dict)


@dataclass
class HubTruth:
    tallies: int = 0
    chains: dict[str, str] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    gaps: int = 0


@dataclass
class MeterTruth:
    seen: int = 0
    chains: dict[str, str] = field(default_factory=dict)
    carries: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    gaps: int = 0
    beats: int = 0


@dataclass
class ValveTruth:
    chains: dict[str, str] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    gaps: int = 0
    settled: dict[str, int] = field(default_factory=dict)
    early: int = 0


class Oracle:
    """All that must be true once every row was folded and every short timer has rung."""

    def __init__(self, sent: Mapping[str, Sequence[Row]]) -> None:
        self.drones: dict[str, DroneTruth] = {}
        self.hubs: dict[str, HubTruth] = {}
        self.meters: dict[str, MeterTruth] = {}
        self.valves: dict[str, ValveTruth] = {}
        self.actions: Counter[Output] = Counter()
        self.letters: Counter[Output] = Counter()
        self.beats: dict[str, list[int]] = {}  # per solo meter, in order: one action each
        self.bad_turns: set[str] = set()
        self._waiting_cargo: dict[str, list[int]] = {}
        for source, rows in sent.items():
            for row in rows:
                self._take(source, row)
        self._milestones()

    def states(self) -> dict[str, dict[str, Plain]]:
        """Per class and key the fields of the state."""
        groups: dict[str, Mapping[str, object]] = {
            "Drone": self.drones,
            "Hub": self.hubs,
            "Meter": self.meters,
            "Valve": self.valves,
        }
        return {n: {k: dict(vars(t)) for k, t in group.items()} for n, group in groups.items()}

    def _take(self, source: str, row: Row) -> None:
        number, key, fields = row.number, row.key, row.fields
        if row.event == "Moved":
            self._moved(source, number, key, int(str(fields["value"])))
        elif row.event == "Pulse":
            self._pulsed(source, number, key, int(str(fields["value"])))
        elif row.event == "Beat":
            self.meters.setdefault(key, MeterTruth()).beats += 1
            self.beats.setdefault(key, []).append(number)
            self.actions["Meter", key, "Beaten", (number,)] += 1
        elif row.event in ("Takeoff", "Landed", "Cargo"):
            self._travelled(key, row.event, number)
        elif row.event == "Arm":
            # One of an hour never rings here: it hangs, or it is disarmed.
            times = 0 if fields["delay"] == HOUR else 1 + int(str(fields["again"]))
            self._rang(source, number, key, times)
        elif row.event == "Query":
            drone, hub = self._drone(key), f"h-{number % HUBS}"
            self._message(key, hub)
            pair = f"{hub}/{source}"
            drone.answers[pair] = chain_of(drone.answers.get(pair, ""), number)
        elif row.event == "Baton":
            self._handed(int(key[2:]), number, int(str(fields["left"])))
        elif row.event == "Visit":
            self.actions["Visitor", key, "Visited", (source, number)] += 1
        elif row.event == "Turn":
            self._turned(source, number, key, bool(fields["bad"]))
        else:
            assert row.event == "Disarm"
            self._drone(key).cancelled += 1  # it was there to be cancelled, whatever died between

    def _drone(self, key: str) -> DroneTruth:
        return self.drones.setdefault(key, DroneTruth())

    def _message(self, drone: str, to: str) -> None:
        """A numbered message: counted by who sends it and by who gets it."""
        sent = self._drone(drone).sent
        sent[to] = sent.get(to, 0) + 1
        if to.startswith("h-"):
            heard = self.hubs.setdefault(to, HubTruth()).heard
        else:
            heard = self.valves.setdefault(to, ValveTruth()).heard
        heard[drone] = heard.get(drone, 0) + 1

    def _tally(self, drone: str, hub: str, source: str, number: int) -> None:
        self._message(drone, hub)
        truth = self.hubs[hub]
        truth.tallies += 1
        pair = f"{drone}/{source}"
        truth.chains[pair] = chain_of(truth.chains.get(pair, ""), number)

    def _moved(self, source: str, number: int, key: str, value: int) -> None:
        if value % 53 == 7:
            self.letters["Drone", key, "Moved", (source, number, value)] += 1
            return
        drone = self._drone(key)
        drone.seen += 1
        drone.counts[source] = drone.counts.get(source, 0) + 1
        drone.chains[source] = chain_of(drone.chains.get(source, ""), number, value)
        hub = f"h-{value % HUBS}"
        if number % 3 == 0:
            self._tally(key, hub, source, number)
        if number % 5 == 0:
            self.actions["Drone", key, "Report", (source, number)] += 1
        if number % 11 == 0:
            self._message(key, f"v-{value % VALVES}")
        if number % 41 == 0:
            self.letters["Hub", hub, "Fragile", (source, number)] += 1

    def _travelled(self, key: str, event: str, number: int) -> None:
        """Cargo waits while the drone flies and is taken, in order, once it has landed."""
        drone, waiting = self._drone(key), self._waiting_cargo.setdefault(key, [])
        if event == "Cargo":
            waiting.append(number)
        else:
            drone.mode = "flying" if event == "Takeoff" else "docked"
            drone.trips += event == "Landed"
        if drone.mode == "docked":
            for held in waiting:
                drone.cargo = chain_of(drone.cargo, held, drone.trips)
            waiting.clear()

    def _rang(self, source: str, number: int, key: str, times: int) -> None:
        drone = self._drone(key)
        if times:
            drone.rung[f"{source}-{number}"] = times
            self.actions["Drone", key, "Rang", (source, number)] += times
            self._tally(key, f"h-{number % HUBS}", "ring", 0)

    def _handed(self, drone: int, number: int, left: int) -> None:
        for _ in range(left + 1):
            truth = self._drone(f"d-{drone}")
            truth.batons += 1
            truth.baton_sum += number
            drone = (drone * 5 + 3) % DRONES

    def _pulsed(self, source: str, number: int, key: str, value: int) -> None:
        if value == 500:
            self.letters["Meter", key, "Pulse", (source, number, value)] += 1
            return
        meter = self.meters.setdefault(key, MeterTruth())
        meter.seen += 1
        meter.chains[source] = chain_of(meter.chains.get(source, ""), number, value)
        if value > 900:
            for part in (0, 1):
                self.actions["Meter", key, "Peak", (source, number, part)] += 1
        if number % 7 == 0:
            meter.sent += 1
            following = f"m-{(int(key[2:]) + 1) % METERS}"
            carries = self.meters.setdefault(following, MeterTruth()).carries
            carries[key] = carries.get(key, 0) + 1

    def _turned(self, source: str, number: int, key: str, bad: bool) -> None:
        valve = self.valves.setdefault(key, ValveTruth())
        valve.chains[source] = chain_of(valve.chains.get(source, ""), number)
        if number % 4 == 0:
            valve.settled[f"{source}-{number}"] = 1
        if bad:
            self.bad_turns.add(key)

    def _milestones(self) -> None:
        for key, hub in self.hubs.items():
            for count in range(10, hub.tallies + 1, 10):
                self.actions["Hub", key, "Milestone", (count,)] += 1


def differences(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    """One line per entry that differs, both sides shown."""
    return [
        f"{name}: expected {expected.get(name)!r}, found {found.get(name)!r}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
