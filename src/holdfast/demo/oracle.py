"""What the fleet of the demo must have done, in plain Python: the rules stated a second time.

Nothing of Holdfast and nothing of the demo's fleet is used here, on purpose: what is compared with
the stored data must not share its mistakes. Fed with the inputs of an agent in their stored order,
a twin tells the state, actions, messages and timers that follow. A rule changed in the fleet is
changed here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

Values = tuple[float, ...]  # all that this fleet sends are numbers; an int counts as float here


class Did(NamedTuple):
    """An action. Version and number identify it: the event that caused it, the place in it."""

    version: int
    number: int
    now: float
    name: str
    values: Values


class Told(NamedTuple):
    """A message to another agent."""

    agent: str
    key: str
    name: str
    values: Values


class Twin:
    """The part that all twins share: counting inputs, keeping timers, collecting outputs."""

    agent = ""
    only_in: ClassVar[dict[str, str]] = {}  # events that one mode takes and no other

    def __init__(self, key: str) -> None:
        self.key = key
        self.mode = ""
        self.rules: dict[str, Callable[[Values, str], None]] = {
            name.removeprefix("on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("on_")
        }
        self.version = 0
        self.timers: dict[str, tuple[float, str, Values]] = {}  # name to due, event, values
        self.now = 0.0
        self.actions: list[Did] = []
        self.messages: list[Told] = []
        self.trail: float = 0
        self.folded = 0
        self.out_of_order = 0

    def take(self, name: str, values: Values, sender: str, now: float) -> None:
        """One input. Whatever an agent has no handler for leaves it as it is."""
        rule = self.rules.get(name)
        if rule is None or self.only_in.get(name, self.mode) != self.mode:
            return
        self.version += 1
        self.now = now
        rule(values, sender)

    def fire(self, timer: str, due: float, name: str, values: Values) -> str | None:
        """Use up a timer that fired. What is wrong with that, if anything."""
        armed = self.timers.get(timer)
        if armed is None:
            return "it was not set"
        if armed != (due, name, values):
            return f"it was set as {armed}"
        del self.timers[timer]
        return None

    def emit(self, name: str, *values: float) -> None:
        number = 0
        if self.actions and self.actions[-1].version == self.version:
            number = self.actions[-1].number + 1
        self.actions.append(Did(self.version, number, self.now, name, values))

    def mix(self, number: float) -> None:
        self.trail = (self.trail * 1000003 + number) % 2305843009213693952

    def state(self) -> dict[str, object]:
        raise NotImplementedError


class DroneTwin(Twin):
    agent = "Drone"
    only_in: ClassVar[dict[str, str]] = {"PadGranted": "waiting", "Charged": "charging"}

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.mode = "idle"
        self.place: Values = (0.0, 0.0, 0.0, 100.0)
        self.parcel: float = 0
        self.remaining = 0
        self.orders: list[float] = []
        self.delivered = 0
        self.watched = False
        self.last_seen = 0.0
        self.last_serial: float = 0
        self.told = 0
        self.grants: float = 0

    def tell(self, name: str, value: float) -> None:
        self.told += 1
        station = f"s-{int(self.key[2:]) % 20}"
        self.messages.append(Told("Station", station, name, (self.told, value)))

    def note(self, serial: float) -> None:
        self.folded += 1
        if serial != self.last_serial + 1:
            self.out_of_order += 1
        self.last_serial = serial
        self.mix(serial)

    def fly(self, parcel: float) -> None:
        self.mode, self.parcel, self.remaining = "flying", parcel, 8
        self.emit("FlyTo", parcel)

    def on_Telemetry(self, values: Values, sender: str) -> None:
        serial, x, y, altitude, battery = values
        self.note(serial)
        self.place = (x, y, altitude, battery)
        self.last_seen = self.now
        if not self.watched:
            self.watched = True
            self.timers["watch"] = (self.now + 1.0, "Watch", ())
        if altitude > 120.0:
            self.emit("Descend", serial, 100.0)
        if self.mode == "flying":
            self.remaining -= 1
            if self.remaining == 0:
                self.mode = "idle"
                self.delivered += 1
                self.tell("Delivered", self.parcel)
        elif self.mode == "idle":
            if battery < 25.0:
                self.mode = "waiting"
                self.tell("ChargeWanted", battery)
            elif self.orders:
                self.fly(self.orders.pop(0))

    def on_Order(self, values: Values, sender: str) -> None:
        serial, parcel = values
        self.note(serial)
        if self.mode == "idle":
            self.fly(parcel)
        elif len(self.orders) < 3:
            self.orders.append(parcel)
        else:
            self.emit("Decline", parcel)

    def on_PadGranted(self, values: Values, sender: str) -> None:
        number, pad = values
        if number != self.grants + 1:
            self.out_of_order += 1
        self.grants = number
        self.mix(-number)
        self.mode = "charging"
        self.emit("Dock", pad)
        self.timers["charge"] = (self.now + 0.3, "Charged", (pad,))

    def on_Charged(self, values: Values, sender: str) -> None:
        self.mix(-1)
        self.mode = "idle"
        self.tell("PadLeft", values[0])

    def on_Watch(self, values: Values, sender: str) -> None:
        self.mix(-2)
        due = self.last_seen + 1.0
        if self.now < due:
            self.timers["watch"] = (due, "Watch", ())
        else:
            self.watched = False
            self.emit("Search", self.last_serial)

    def state(self) -> dict[str, object]:
        x, y, altitude, battery = self.place
        return {
            "mode": self.mode,
            "x": x,
            "y": y,
            "altitude": altitude,
            "battery": battery,
            "parcel": self.parcel,
            "remaining": self.remaining,
            "orders": self.orders,
            "delivered": self.delivered,
            "watched": self.watched,
            "last_seen": self.last_seen,
            "last_serial": self.last_serial,
            "folded": self.folded,
            "out_of_order": self.out_of_order,
            "told": self.told,
            "grants": self.grants,
            "trail": self.trail,
        }


class StationTwin(Twin):
    agent = "Station"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.pads: dict[float, str] = {}
        self.queue: list[str] = []
        self.delivered = 0
        self.heard: dict[str, float] = {}
        self.granted: dict[str, int] = {}

    def note(self, number: float, drone: str) -> None:
        self.folded += 1
        if number != self.heard.get(drone, 0) + 1:
            self.out_of_order += 1
        self.heard[drone] = number
        self.mix(number)

    def grant(self) -> None:
        if not self.queue or len(self.pads) >= 8:
            return
        drone, self.queue = self.queue[0], self.queue[1:]
        pad = min(pad for pad in range(8) if pad not in self.pads)
        self.pads[pad] = drone
        self.granted[drone] = self.granted.get(drone, 0) + 1
        self.messages.append(Told("Drone", drone, "PadGranted", (self.granted[drone], pad)))

    def on_Delivered(self, values: Values, sender: str) -> None:
        self.note(values[0], sender)
        self.delivered += 1

    def on_ChargeWanted(self, values: Values, sender: str) -> None:
        self.note(values[0], sender)
        self.queue.append(sender)
        self.grant()

    def on_PadLeft(self, values: Values, sender: str) -> None:
        self.note(values[0], sender)
        self.pads.pop(values[1], None)
        self.grant()

    def state(self) -> dict[str, object]:
        return {
            "pads": self.pads,
            "queue": self.queue,
            "delivered": self.delivered,
            "heard": self.heard,
            "granted": self.granted,
            "folded": self.folded,
            "out_of_order": self.out_of_order,
            "trail": self.trail,
        }


TWINS: dict[str, type[Twin]] = {"Drone": DroneTwin, "Station": StationTwin}
