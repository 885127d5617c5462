"""The fleet of the demo, as a user would write it: drones that deliver, stations that charge them.

Everything numbers what it sends, and every state counts what it took, so that an event or message
that is lost, doubled or out of order can be seen from the stored states alone.
"""

from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on

STATIONS = 20
PADS = 8  # drones that one station charges at a time
CEILING = 120.0  # metres
BATTERY_LOW = 25.0  # percent
FLIGHT_TELEMETRIES = 8  # a parcel is delivered at this one after the start
ORDERS_MAX = 3  # that wait in a drone; further ones are declined
CHARGE_SECONDS = 0.3
SILENT_SECONDS = 1.0  # without telemetry; then somebody has to look for the drone


# From outside. `serial` counts the events of one drone.


class Telemetry(Event):
    serial: int
    x: float
    y: float
    altitude: float
    battery: float


class Order(Event):
    serial: int
    parcel: int


# Messages between drones and stations. `number` counts those of one pair in one direction.


class Delivered(Event):
    number: int
    parcel: int


class ChargeWanted(Event):
    number: int
    battery: float


class PadLeft(Event):
    number: int
    pad: int


class PadGranted(Event):
    number: int
    pad: int


# Timers.


class Charged(Event):
    pad: int


class Watch(Event):
    pass


# To the drones and to people.


class FlyTo(Action):
    parcel: int


class Dock(Action):
    pad: int


class Decline(Action, priority="low"):
    parcel: int


class Descend(Action, expires=5.0, priority="urgent"):
    serial: int
    to: float


class Search(Action, priority="urgent"):
    last_serial: int


class Mode(Enum):
    IDLE = "idle"
    FLYING = "flying"
    WAITING = "waiting"
    CHARGING = "charging"


def mixed(trail: int, number: int) -> int:
    """One number that depends on every input so far and on their order."""
    return (trail * 1_000_003 + number) % 2**61


class Station(Agent):
    """Gives its pads to drones, first come, first served."""

    pads: dict[int, str] = {}  # pad to the drone on it
    queue: list[str] = []
    delivered: int = 0
    heard: dict[str, int] = {}  # number of the last message from each drone
    granted: dict[str, int] = {}  # number of the last message to each drone
    folded: int = 0
    out_of_order: int = 0
    trail: int = 0

    @on
    def count(self, event: Delivered, ctx: Context) -> None:
        self._note(event.number, ctx)
        self.delivered += 1

    @on
    def admit(self, event: ChargeWanted, ctx: Context) -> None:
        self.queue.append(self._note(event.number, ctx))
        self._grant(ctx)

    @on
    def release(self, event: PadLeft, ctx: Context) -> None:
        self._note(event.number, ctx)
        del self.pads[event.pad]
        self._grant(ctx)

    def _note(self, number: int, ctx: Context) -> str:
        if ctx.sender is None:
            raise ValueError("stations hear from drones only")
        drone = ctx.sender.key
        self.folded += 1
        if number != self.heard.get(drone, 0) + 1:
            self.out_of_order += 1
        self.heard[drone] = number
        self.trail = mixed(self.trail, number)
        return drone

    def _grant(self, ctx: Context) -> None:
        if self.queue and len(self.pads) < PADS:
            drone = self.queue.pop(0)
            pad = next(pad for pad in range(PADS) if pad not in self.pads)
            self.pads[pad] = drone
            number = self.granted.get(drone, 0) + 1
            self.granted[drone] = number
            ctx.send(Drone, drone, PadGranted(number=number, pad=pad))


class Drone(Agent):
    mode: Mode = Mode.IDLE
    x: float = 0.0
    y: float = 0.0
    altitude: float = 0.0
    battery: float = 100.0
    parcel: int = 0
    remaining: int = 0  # telemetries until the parcel is there
    orders: list[int] = []
    delivered: int = 0
    watched: bool = False
    last_seen: float = 0.0
    last_serial: int = 0
    folded: int = 0
    out_of_order: int = 0
    told: int = 0  # number of the last message to the station
    grants: int = 0  # number of the last message from it
    trail: int = 0

    # Telemetry. The handler of a mode comes before the one that serves all.

    @on(mode=Mode.IDLE)
    def idle(self, event: Telemetry, ctx: Context) -> None:
        self._track(event, ctx)
        if event.battery < BATTERY_LOW:
            self.mode = Mode.WAITING
            self.told += 1
            ctx.send(Station, home(ctx.key), ChargeWanted(number=self.told, battery=event.battery))
        elif self.orders:
            self.mode = Mode.FLYING
            self._fly(self.orders.pop(0), ctx)

    @on(mode=Mode.FLYING)
    def flying(self, event: Telemetry, ctx: Context) -> None:
        self._track(event, ctx)
        self.remaining -= 1
        if self.remaining == 0:
            self.mode = Mode.IDLE
            self.delivered += 1
            self.told += 1
            ctx.send(Station, home(ctx.key), Delivered(number=self.told, parcel=self.parcel))

    @on
    def resting(self, event: Telemetry, ctx: Context) -> None:
        self._track(event, ctx)

    # Orders.

    @on(mode=Mode.IDLE)
    def take(self, event: Order, ctx: Context) -> None:
        self._note(event.serial)
        self.mode = Mode.FLYING
        self._fly(event.parcel, ctx)

    @on
    def postpone(self, event: Order, ctx: Context) -> None:
        self._note(event.serial)
        if len(self.orders) < ORDERS_MAX:
            self.orders.append(event.parcel)
        else:
            ctx.emit(Decline(parcel=event.parcel))

    # Charging.

    @on(mode=Mode.WAITING)
    def dock(self, event: PadGranted, ctx: Context) -> None:
        if event.number != self.grants + 1:
            self.out_of_order += 1
        self.grants = event.number
        self.trail = mixed(self.trail, -event.number)
        self.mode = Mode.CHARGING
        ctx.emit(Dock(pad=event.pad))
        ctx.after(CHARGE_SECONDS, Charged(pad=event.pad), name="charge")

    @on(mode=Mode.CHARGING)
    def charged(self, event: Charged, ctx: Context) -> None:
        self.trail = mixed(self.trail, -1)
        self.mode = Mode.IDLE
        self.told += 1
        ctx.send(Station, home(ctx.key), PadLeft(number=self.told, pad=event.pad))

    # The watchdog: one timer, looked at when it fires, is cheaper than one timer per telemetry.

    @on
    def watch(self, event: Watch, ctx: Context) -> None:
        self.trail = mixed(self.trail, -2)
        due = self.last_seen + SILENT_SECONDS
        if ctx.now < due:
            ctx.at(due, Watch(), name="watch")
        else:
            self.watched = False
            ctx.emit(Search(last_serial=self.last_serial))

    def _track(self, event: Telemetry, ctx: Context) -> None:
        self._note(event.serial)
        self.x, self.y, self.altitude = event.x, event.y, event.altitude
        self.battery = event.battery
        self.last_seen = ctx.now
        if not self.watched:
            self.watched = True
            ctx.after(SILENT_SECONDS, Watch(), name="watch")
        if event.altitude > CEILING:
            ctx.emit(Descend(serial=event.serial, to=CEILING - 20.0))

    def _fly(self, parcel: int, ctx: Context) -> None:
        self.parcel, self.remaining = parcel, FLIGHT_TELEMETRIES
        ctx.emit(FlyTo(parcel=parcel))

    def _note(self, serial: int) -> None:
        self.folded += 1
        if serial != self.last_serial + 1:
            self.out_of_order += 1
        self.last_serial = serial
        self.trail = mixed(self.trail, serial)


def home(drone: str) -> str:
    """The station that a drone belongs to: d-27 charges at s-7."""
    return f"s-{int(drone.removeprefix('d-')) % STATIONS}"


fleet = Fleet("delivery-demo", agents=[Drone, Station])
