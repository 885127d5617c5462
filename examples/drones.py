# The program of the README, character for character: its layout is its own.
# ruff: noqa: E501, I001
# fmt: off
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

fleet = Fleet("delivery", agents=[Drone])

if __name__ == "__main__":
    with fleet.open("memory:") as live:                         # embedded, in this process
        live.send(Drone, "d-1", Battery(percent=9.0), source="gcs", seq=1)     # returns when durable
        live.send(Drone, "d-1", Battery(percent=9.0), source="gcs", seq=1)     # a resend is a no-op
        live.settle()
        assert live.state(Drone, "d-1").battery == 9.0
        assert [a.action for a in live.actions()] == [Land()]
