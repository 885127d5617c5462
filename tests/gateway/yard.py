"""A fleet with what the tests of the gateway need: replies, timers, handlers that fail."""

from __future__ import annotations

from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on


class Mode(Enum):
    PARKED = "parked"
    MOVING = "moving"


class Moved(Event):
    x: float
    y: float
    note: str = ""


class Counted(Event):
    number: int


class Ask(Event):
    question: str


class Told(Event):
    text: str


class Remind(Event):
    seconds: float


class Break(Event):
    pass


class Halt(Event, priority="urgent"):
    pass


class Stop(Action, expires=30.0, priority="urgent"):
    why: str


class Beep(Action):
    pass


class Cart(Agent):
    mode: Mode = Mode.PARKED
    x: float = 0.0
    y: float = 0.0
    numbers: list[int] = []
    reminded: int = 0
    mended: bool = False
    halted_at: int = -1  # so many numbers were there by then

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.mode = Mode.MOVING
        self.x, self.y = event.x, event.y
        if event.x > 100.0:
            ctx.emit(Stop(why=event.note))

    @on
    def counted(self, event: Counted, ctx: Context) -> None:
        self.numbers = [*self.numbers[-99:], event.number]
        ctx.emit(Beep())

    @on
    def asked(self, event: Ask, ctx: Context) -> None:
        if event.question:
            ctx.reply(Told(text=f"{ctx.key} heard {event.question}"))

    @on
    def remind(self, event: Remind, ctx: Context) -> None:
        ctx.after(event.seconds, Counted(number=-1), name="reminder")

    @on
    def halt(self, event: Halt, ctx: Context) -> None:
        self.halted_at = len(self.numbers)

    @on
    def broken(self, event: Break, ctx: Context) -> None:
        raise ValueError("a wheel is off")


fleet = Fleet("yard", agents=[Cart], events=[Told])
