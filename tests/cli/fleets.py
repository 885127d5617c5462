"""Fleet files for the tests of the command line, as a user would write them."""

from __future__ import annotations

# The program of the design, with an event that is answered and one that fails.
DELIVERY = """
from enum import Enum
from holdfast import Action, Agent, Context, Event, Fleet, on

class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"

class Position(Event):
    lat: float
    lon: float
    alt: float

class Battery(Event):
    percent: float

class Status(Event):
    pass

class StatusReply(Event):
    mode: Mode
    battery: float

class Calibrate(Event):
    factor: float = 1.0
    note: str = ""

class Descend(Action):
    to: float

class Land(Action, expires=5.0, priority="urgent"):
    pass

class Drone(Agent):                      # fields are the state: typed, with defaults
    mode: Mode = Mode.FLYING
    lat: float = 0.0
    lon: float = 0.0
    alt: float = 0.0
    battery: float = 100.0
    note: str = ""

    @on
    def moved(self, event: Position, ctx: Context) -> None:     # the annotation says which event
        self.lat, self.lon, self.alt = event.lat, event.lon, event.alt
        if event.alt > 100.0:
            ctx.emit(Descend(to=80.0))

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        if event.percent < 15.0:
            self.mode = Mode.LANDING
            ctx.emit(Land())

    @on
    def asked(self, event: Status, ctx: Context) -> None:
        ctx.reply(StatusReply(mode=self.mode, battery=self.battery))

    @on
    def calibrated(self, event: Calibrate, ctx: Context) -> None:
        self.battery = self.battery / event.factor
        self.note = event.note

fleet = Fleet("delivery", agents=[Drone])
"""

# One fleet in three versions: `charge` replaces `battery`, then a field is added to that.
CARTS_1 = """
from holdfast import Agent, Context, Event, Fleet, on

class Drove(Event):
    metres: int

class Cart(Agent):
    metres: int = 0
    battery: float = 100.0

    @on
    def drove(self, event: Drove, ctx: Context) -> None:
        self.metres += event.metres
        self.battery -= 1.0

fleet = Fleet("carts", agents=[Cart])
"""
CARTS_2 = CARTS_1.replace("battery: float = 100.0", "charge: float = 1.0").replace(
    "self.battery -= 1.0", "self.charge -= 0.01"
)
CARTS_2_UPCAST = CARTS_2.replace(
    "    @on\n",
    """    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        return {"metres": old["metres"], "charge": old.pop("battery") / 100}

    @on
""",
    1,
)
CARTS_3 = CARTS_2.replace("charge: float = 1.0", 'charge: float = 1.0\n    zone: str = "yard"')
MIGRATION = """
def migrate(agent: str, key: str, state: dict) -> dict | None:
    assert agent == "Cart"
    return {"metres": state["metres"], "charge": state["battery"] / 100}
"""
