"""A fleet for devices, and what the tests know of it without its code."""

from holdfast import Action, Agent, Context, Event, Fleet, on


class Position(Event):
    lat: float
    lon: float


class LowBattery(Event):
    percent: float


class Noted(Event):
    number: int


class Order(Event):
    what: str


class LandNow(Event, priority="urgent"):
    pass


class Descend(Action):
    to: float


class Land(Action, expires=30.0, priority="urgent"):
    pass


class Blink(Action, expires=5.0):
    pass


class Drone(Agent):
    lat: float = 0.0
    lon: float = 0.0
    battery: float = 100.0
    noted: list[int] = []
    landed_at: int = -1  # so much was noted by then

    @on(Position)
    def moved(self, event: Position, ctx: Context) -> None:
        self.lat, self.lon = event.lat, event.lon

    @on(LowBattery)
    def drained(self, event: LowBattery, ctx: Context) -> None:
        self.battery = event.percent
        ctx.emit(Descend(to=event.percent))
        if event.percent < 10.0:
            ctx.emit(Land())

    @on(Noted)
    def note(self, event: Noted, ctx: Context) -> None:
        self.noted.append(event.number)

    @on(LandNow)
    def land(self, event: LandNow, ctx: Context) -> None:
        self.landed_at = len(self.noted)
        ctx.emit(Land())

    @on(Order)
    def ordered(self, event: Order, ctx: Context) -> None:
        if event.what == "blink":
            ctx.emit(Blink())
        else:
            ctx.emit(Descend(to=float(event.what)))


fleet = Fleet("yard", agents=[Drone])
