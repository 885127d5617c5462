"""A fleet whose compiled agents together do all that can be compiled, beside interpreted ones.

Events say what to do, so that a generated stream decides: which operator on which numbers, which
timer, whom to write to. Handlers are as unkind as their users would be.
"""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.model.marks import Length, Width


class Op(Enum):
    """Not in the order of their values."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR = "//"
    REST = "%"
    POWER = "**"
    LEFT = "<<"
    RIGHT = ">>"
    BITS = "&|^"
    NEGATE = "neg"
    CONVERT = "int"
    ROUND = "round"
    ROUND_TO = "round2"
    COMPARE = "<"
    EXTREME = "min"
    LOGIC = "and"
    LOOP = "for"
    ROOT = "sqrt"
    WAVES = "sin"
    LOGS = "log"
    HYPERBOLIC = "sinh"
    WHOLE = "floor"
    SIZE = "hypot"


class Gear(IntEnum):
    HIGH = 2**40
    LOW = -7
    NONE = 0


class Mode(Enum):
    IDLE = "zzz"
    BUSY = "busy"
    BROKEN = "aaa"


Name = Annotated[str, Width(8)]
Words = Annotated[str, Width(96)]
Whole = Annotated[list[int], Length(4)]
Parts = Annotated[list[float], Length(5)]
Gears = Annotated[list[Gear], Length(3)]
Flags = Annotated[list[bool], Length(3)]


class Calc(Event):
    op: Op
    a: int = 0
    b: int = 0
    x: float = 0.0
    y: float = 0.0
    flag: bool = False


class Write(Event):
    what: int
    text: Words = ""
    number: int = 0
    item: float = 0.0
    gear: Gear = Gear.NONE
    items: Parts = []
    flag: bool = False


class Do(Event):
    """For agents that keep timers, write to others, draw and so on."""

    what: int
    seconds: float = 1.0
    number: int = 0
    to: Name = "d-1"
    gear: Gear = Gear.LOW


class Ring(Event):
    number: int = 0
    text: Name = ""
    part: float = 0.0
    items: Whole = []


class Tick(Event):
    pass


class Told(Event):
    number: int
    item: float = 0.0
    name: Words = ""
    mode: Mode = Mode.IDLE


class Question(Event):
    number: int


class Stranger(Event):
    """Nobody has a handler for it."""

    number: int = 0


class Computed(Action):
    n: int
    x: float
    up: bool
    op: Op


class Said(Action):
    text: Words
    gear: Gear = Gear.LOW
    items: Parts = []
    whole: Whole = []
    modes: Annotated[list[Mode], Length(2)] = []
    flag: bool = False


class Landed(Action):
    pass


class Raised(Action):
    number: int

    def undo(self) -> Raised:
        return Raised(-self.number)


LIMIT = 1_000
CHOICES = (3, 5, 8)


def halved(x: float, times: int = 1) -> float:
    for _ in range(times):
        x = x / 2.0
    return x


def risky(a: int, b: int) -> int:
    return a // b if b != 13 else 10 // (b - 13)


class Meter(Agent, compiled=True):
    n: int = 0
    x: float = 0.0
    up: bool = False
    count: int = 0
    last: Op = Op.LOOP

    @on
    def calculate(self, event: Calc, ctx: Context) -> None:
        op = event.op
        self.count += 1
        if op is Op.ADD:
            self.n = event.a + event.b
            self.x = event.x + event.y + self.n
        elif op == Op.SUBTRACT:
            self.n = event.a - event.b
            self.x -= event.x - event.y
        elif op == Op.MULTIPLY:
            self.n = event.a * event.b
            self.x = event.x * event.y
        elif op == Op.DIVIDE:
            self.x = event.x / event.y if event.flag else event.a / event.b
        elif op == Op.FLOOR:
            self.x = event.x // event.y
            self.n = event.a // event.b
        elif op == Op.REST:
            self.x = event.x % event.y
            self.n = event.a % event.b
        elif op == Op.POWER:
            if event.flag:
                self.x = event.x**event.y
            else:
                self.n = event.a ** (event.b % 80 - 5)
                self.x = event.x**2 + 2.0**event.y
        elif op == Op.LEFT:
            self.n = event.a << event.b % 80 - 5
        elif op == Op.RIGHT:
            self.n = event.a >> event.b
        elif op == Op.BITS:
            self.n = ((event.a & event.b) | self.n) ^ ~event.a
            self.up = self.up ^ event.flag
        else:
            self.further(event)
        self.last = op
        ctx.emit(Computed(n=self.n, x=self.x, up=self.up, op=self.last))

    def further(self, event: Calc) -> None:
        op = event.op
        if op == Op.NEGATE:
            self.n = -event.a + abs(event.b)
            self.x = -event.x + abs(event.y)
        elif op == Op.CONVERT:
            self.n = int(event.x) + int(event.flag)
            self.x = float(event.a)
            self.up = bool(event.b)
        elif op == Op.ROUND:
            self.n = round(event.x)
        elif op == Op.ROUND_TO:
            self.x = round(event.x, event.b)
        elif op == Op.COMPARE:
            self.up = event.x < event.y <= event.a or event.a > event.x
            if 0 < event.a < LIMIT and event.b in CHOICES:
                self.n += 1
            if event.a == event.b != self.n:
                self.n += 2
        elif op == Op.EXTREME:
            self.n = min(event.a, event.b, 7)
            self.x = max(event.x, event.y)
        elif op == Op.LOGIC:
            self.n = event.a or event.b
            self.up = not self.up and (event.flag or event.x > 0.0)
            self.x = event.x and event.y
        elif op == Op.LOOP:
            self.loop(event.a, event.b)
        else:
            self.mathematics(event.op, event.x, event.y)

    def loop(self, a: int, b: int) -> None:
        total = 0
        for i in range(a % 50, b % 50, 3):
            if i == 7:
                continue
            if i > 40:
                break
            total += i
        else:
            total += 1_000
        while total > 10:
            total = total // 2
            self.x += 0.1
        for i in range(5, -(b % 9), -2):
            total += risky(i, b % 20)
        self.n = total

    def mathematics(self, op: Op, x: float, y: float) -> None:
        if op == Op.ROOT:
            self.x = math.sqrt(x) + halved(y, times=3)
        elif op == Op.WAVES:
            self.x = math.sin(x) * math.cos(x) + math.tan(y) + math.atan2(x, y)
            if abs(y) <= 1.0:
                self.x += math.asin(y) - math.acos(y)
        elif op == Op.LOGS:
            self.x = math.log(x) + math.log10(y) + math.log2(x) + math.log1p(x) + math.log(x, y)
        elif op == Op.HYPERBOLIC:
            self.x = math.sinh(x) + math.cosh(y) + math.tanh(x) + math.exp(y) + math.expm1(x)
            self.x += math.asinh(x) + math.erf(y) + math.erfc(x)
        elif op == Op.WHOLE:
            self.n = math.floor(x) + math.ceil(y) + math.trunc(x)
            self.up = math.isnan(x) or math.isinf(y) or math.isfinite(x)
        elif op == Op.SIZE:
            self.x = math.hypot(x, y) + math.fmod(x, y) + math.copysign(x, y) + math.degrees(x)
            self.x += math.radians(y) + math.fabs(x)
        else:
            raise ValueError(f"no such operator: {op}")


class Scribe(Agent, compiled=True):
    text: Words = "begin"
    name: Name = ""
    whole: Whole = []
    parts: Parts = []
    gears: Gears = []
    flags: Flags = []
    gear: Gear = Gear.HIGH
    found: int = 0

    @on
    def write(self, event: Write, ctx: Context) -> None:
        what = event.what % 18
        if what == 0:
            self.text = event.text
        elif what == 1:
            self.name = event.text
        elif what == 2:
            self.text = self.text + event.text[1:] + f"<{event.number}>"
        elif what == 3:
            self.name = self.text[-4:-1] + event.text[event.number]
        elif what == 4:
            self.whole.append(event.number)
        elif what == 5:
            self.parts.append(event.item)
        elif what == 6:
            self.gears.append(event.gear)
            self.flags.append(event.flag)
        elif what == 7:
            self.whole[event.number] += 3
        elif what == 8:
            self.found = self.whole.pop(event.number)
        elif what == 9:
            self.parts = list(event.items)
        elif what == 10:
            self.parts.clear()
            self.whole = [event.number, len(self.text), len(self.parts)]
        else:
            self.look(what, event)
        ctx.emit(Said(text=self.text, gear=self.gear, items=self.parts, whole=self.whole))

    def look(self, what: int, event: Write) -> None:
        if what == 11:
            self.found = sum(self.whole) + max(self.whole) - min(self.whole)
        elif what == 12:
            if "ab" in self.text or self.text.startswith("x") or event.text.endswith(self.name):
                self.found += 1
            if event.item in self.parts:
                self.found += 10
            if event.number not in self.whole:
                self.found += 100
        elif what == 13:
            total = 0
            for part in self.parts:
                if part > 0.5:
                    total += 1
            for gear in self.gears:
                if gear is Gear.LOW:
                    total += self.found
            for i in range(len(self.flags)):
                if self.flags[i]:
                    total -= 1
            self.found = total
        elif what == 14:
            if self.text < event.text:
                self.text = event.text
            self.gear = event.gear if event.gear != self.gear else Gear.LOW
        elif what == 15:
            self.text = self.gear.name + str(event.number)
            self.found = self.gear.value
        elif what == 16:
            self.found += len(event.items) + len(event.text) + len(self.name)
            if event.items:
                self.parts.append(event.items[-1])
        else:
            raise KeyError(what)

    @on
    def told(self, event: Told, ctx: Context) -> None:
        self.text = event.name
        self.found = event.number


class Drone(Agent, compiled=True):
    """Timers, messages, ids and chance."""

    mode: Mode = Mode.IDLE
    seen: int = 0
    drawn: float = 0.0
    id: Words = ""
    rung: int = 0
    heard: float = 0.0

    @on(when=lambda self, event: event.what == 99)
    def guarded(self, event: Do, ctx: Context) -> None:
        self.seen += 1_000

    @on(when=lambda self, event: 100 // (event.what + 3) > 40 and self.mode == Mode.IDLE)
    def doubtful(self, event: Do, ctx: Context) -> None:
        self.mode = Mode.BUSY

    @on
    def do(self, event: Do, ctx: Context) -> None:
        self.seen += 1
        what = event.what % 18
        if what == 0:
            ctx.after(event.seconds, Ring(number=event.number, part=event.seconds), name="watchdog")
        elif what == 1:
            ctx.after(event.seconds, Ring(number=self.seen, text=event.to))
        elif what == 2:
            ctx.every(event.seconds, Tick(), name="beat")
        elif what == 3:
            ctx.every(seconds=event.seconds, event=Tick())
        elif what == 4:
            ctx.at(event.seconds * 1_000.0, Ring(number=-1), name="alarm")
        elif what == 5:
            if ctx.cancel("watchdog"):
                self.seen += 10
            if ctx.cancel("beat") and ctx.cancel("never"):
                self.seen += 100
        elif what == 6:
            ctx.after(event.seconds, Tick(), name="watchdog")
        elif what == 7:
            ctx.send(Drone, event.to, Told(number=event.number, name=ctx.key))
            ctx.send(Clerk, event.to, Told(number=event.number, mode=self.mode))
        elif what == 8:
            ctx.send(Scribe, f"s-{event.number}", Told(number=self.seen, name=ctx.new_id()))
            ctx.emit(Landed())
            ctx.emit(Said(text=ctx.new_id(), flag=self.seen > 3))
        elif what == 9:
            self.drawn = ctx.random.random() + ctx.random.gauss(event.seconds, 2.0)
            self.seen += ctx.random.randint(event.number, event.number + 10)
        else:
            self.more(what, event, ctx)

    def more(self, what: int, event: Do, ctx: Context) -> None:
        if what == 10:
            ctx.log.info(f"number {event.number}")
            ctx.emit(Raised(number=event.number))
        elif what == 11:
            self.id = ctx.call(work, event.number, reply=Told)
        elif what == 12:
            self.heard = ctx.event_time + ctx.now
            self.mode = Mode.BROKEN if self.mode == Mode.BUSY else Mode.IDLE
        elif what == 13:
            for _ in range(20):
                ctx.after(1.0 + event.seconds, Tick())
        elif what == 14:
            for i in range(event.number % 7):
                ctx.emit(Raised(number=i))
        elif what == 15:
            self.seen = 10 // event.number
            ctx.send(Strict, "p-1", Question(number=1))
        elif what == 16:
            ctx.after(0.0, Ring(number=2**62 + self.seen), name="soon")
            ctx.reply(Told(number=self.seen))
        else:
            assert event.number > 0, "nothing to do"

    @on
    def ring(self, event: Ring, ctx: Context) -> None:
        self.rung += event.number
        self.heard = event.part
        if event.number % 3 == 1:
            ctx.after(event.part, Ring(number=event.number + 2), name="watchdog")
        if event.number == 5:
            raise ValueError("five")
        ctx.emit(Raised(number=event.number))

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.rung += 1
        self.drawn = ctx.random.uniform(-2, self.heard)
        if self.rung % 4 == 0:
            ctx.emit(Landed())
        if self.rung % 5 == 0:
            ctx.cancel("beat")

    @on(mode=Mode.BROKEN)
    def ignored(self, event: Told, ctx: Context) -> None:
        pass

    @on(mode=[Mode.IDLE, Mode.BUSY])
    def told(self, event: Told, ctx: Context) -> None:
        self.seen += event.number
        if event.number > 0:
            ctx.send(Drone, f"d-{event.number % 4}", Told(number=event.number - 1))
        elif event.number == 0:
            ctx.reply(Told(number=-1, item=self.drawn))

    @on
    def asked(self, event: Question, ctx: Context) -> None:
        if event.number % 3:
            ctx.reply(Told(number=self.seen, name=ctx.key))


class Strict(Agent, compiled=True, unhandled="dead-letter", on_error="pause"):
    """Takes little, and stops when it fails."""

    mode: Mode = Mode.IDLE
    total: int = 0

    @on(mode=Mode.IDLE)
    def start(self, event: Do, ctx: Context) -> None:
        self.mode = Mode.BUSY
        self.total += event.number
        ctx.every(2.0, Tick(), name="beat")
        ctx.after(3.0, Ring(number=event.number), name="once")

    @on(mode=Mode.BUSY, when=lambda self, event: event.what != 5)
    def work(self, event: Do, ctx: Context) -> None:
        self.total += 100 // event.number
        if event.what == 2:
            self.mode = Mode.IDLE
        ctx.emit(Raised(number=self.total))

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.total += 1
        if self.total % 11 == 0:
            raise RuntimeError("eleven")

    @on(mode=Mode.BUSY)
    def rung(self, event: Ring, ctx: Context) -> None:
        self.total = self.total // (event.number % 3)

    @on
    def asked(self, event: Question, ctx: Context) -> None:
        ctx.reply(Told(number=7 // event.number))


class Clerk(Agent):
    """Interpreted: fails now and then, so that whole batches are folded twice."""

    heard: list[int] = []
    words: dict[str, float] = {}

    @on
    def told(self, event: Told, ctx: Context) -> None:
        self.heard = [*self.heard[-4:], event.number]
        if event.number % 4 == 2:
            raise ValueError("no")
        ctx.send(Drone, f"d-{event.number % 9}", Ring(number=event.number))
        ctx.emit(Raised(number=event.number))
        ctx.after(1.5, Tick(), name="tick")

    @on
    def do(self, event: Do, ctx: Context) -> None:
        self.words[event.to] = ctx.random.random()
        if event.what == 3:
            raise KeyError(event.to)
        ctx.send(Strict, event.to, event)
        ctx.emit(Said(text=ctx.new_id()))

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        ctx.emit(Landed())


async def work(number: int) -> Told:
    return Told(number=number)


FLEET = Fleet("twins", agents=[Meter, Scribe, Drone, Strict, Clerk])
COMPILED = ("Meter", "Scribe", "Drone", "Strict")
