"""Delivery drones, with the fix of docs/time.md: one low reading is no low battery."""

from enum import Enum

from holdfast import Action, Agent, CallFailed, Context, Event, Fleet, call, on


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Battery(Event):
    percent: float


class Moved(Event):
    lat: float
    lon: float


class Resumed(Event):
    pass


class Pad(Event):
    name: str
    metres: float


class Land(Action, priority="urgent"):
    def undo(self) -> Action:
        return FlyOn()


class FlyOn(Action):
    pass


class Divert(Action):
    pad: str


@call(kind="process", concurrency=2)
def nearest_pad(lat: float, lon: float) -> Pad:
    pads = {"north": (52.55, 13.40), "south": (52.47, 13.39)}
    name = min(pads, key=lambda pad: abs(pads[pad][0] - lat) + abs(pads[pad][1] - lon))
    return Pad(name=name, metres=111_000 * abs(pads[name][0] - lat))


class Drone(Agent):
    mode: Mode = Mode.FLYING
    battery: float = 100.0
    low_readings: int = 0
    lat: float = 52.5
    lon: float = 13.4

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.lat, self.lon = event.lat, event.lon

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        self.low_readings = self.low_readings + 1 if event.percent < 15.0 else 0
        if self.low_readings == 2:
            self.mode = Mode.LANDING
            ctx.emit(Land())
            ctx.call(nearest_pad, round(self.lat, 2), round(self.lon, 2), reply=Pad, timeout=5.0)

    @on
    def found(self, event: Pad, ctx: Context) -> None:
        ctx.emit(Divert(pad=event.name))

    @on
    def lost(self, event: CallFailed, ctx: Context) -> None:
        ctx.log.warning(f"no pad: {event.error}")

    @on(mode=Mode.LANDING)
    def resumed(self, event: Resumed, ctx: Context) -> None:
        self.mode = Mode.FLYING


fleet = Fleet("couriers", agents=[Drone])
