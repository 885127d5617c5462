"""The fleet of `python -m bench.mqtt`."""

from holdfast import Agent, Context, Event, Fleet, on


class Position(Event):
    lat: float
    lon: float
    sent: float  # the device's clock, which is ours too


class Drone(Agent):
    lat: float = 0.0
    lon: float = 0.0
    reports: int = 0

    @on(Position)
    def moved(self, event: Position, ctx: Context) -> None:
        self.lat, self.lon = event.lat, event.lon
        self.reports += 1


fleet = Fleet("bench-mqtt", agents=[Drone])
