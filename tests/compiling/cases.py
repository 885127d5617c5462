"""An agent whose methods are one case each: what a compiled handler may do, and where Python is
particular. `probe` calls the one that the event names, so that all of them are one kernel."""

import math
from enum import Enum, IntEnum
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Length, Width, on

LIMIT = 3
RATIO = 0.1
WORDS = ("a", "ab", "é")
NUMBERS = (1, 5, -3)


class Mode(Enum):
    IDLE = "idle"
    BUSY = "busy"
    GONE = "gone"


class Level(IntEnum):
    LOW = 1
    HIGH = 30


class Weight(Enum):
    LIGHT = 1
    HEAVY = 7


class Probe(Event):
    case: int
    a: float = 0.0
    b: float = 0.0
    n: int = 0
    m: int = 0
    flag: bool = False
    s: Annotated[str, Width(8)] = ""
    t: Annotated[str, Width(8)] = ""
    mode: Mode = Mode.IDLE
    level: Level = Level.LOW
    weight: Weight = Weight.LIGHT
    xs: Annotated[list[float], Length(4)] = []
    ns: Annotated[list[int], Length(4)] = []

    def twice(self, by: float) -> float:
        return self.a * by + self.a * by


class Ring(Event):
    n: int = 7
    s: Annotated[str, Width(12)] = "ring"
    x: float = 0.0


class Note(Action):
    f: float
    i: int = 5
    s: Annotated[str, Width(12)] = "note"
    b: bool = True
    mode: Mode = Mode.BUSY
    xs: Annotated[list[float], Length(3)] = []


def halved(x: float, times: int = 1) -> float:
    for _ in range(times):
        x = x / 2.0
    return x


def larger(n: int, m: int) -> bool:
    return n > m


class Cases(Agent, compiled=True):
    f: float = 0.0
    g: float = 0.0
    i: int = 0
    j: int = 0
    b: bool = False
    s: Annotated[str, Width(12)] = ""
    mode: Mode = Mode.IDLE
    level: Level = Level.LOW
    xs: Annotated[list[float], Length(6)] = []
    ns: Annotated[list[int], Length(6)] = []
    FACTOR = 1.5

    @on
    def probe(self, event: Probe, ctx: Context) -> None:
        case = event.case
        if case < 30:
            self.numbers(event, case)
        elif case < 60:
            self.more(event, case)
        elif case < 80:
            self.texts(event, case, ctx)
        elif case < 100:
            self.lists(event, case)
        else:
            self.context(event, case, ctx)

    def numbers(self, event: Probe, case: int) -> None:
        if case == 0:
            self.i = event.n + event.m
        elif case == 1:
            self.i = event.n - event.m
        elif case == 2:
            self.i = event.n * event.m
        elif case == 3:
            self.i = event.n // event.m
            self.j = event.n % event.m
        elif case == 4:
            self.f = event.n / event.m
        elif case == 5:
            self.f = event.a // event.b
        elif case == 6:
            self.f = event.a % event.b
        elif case == 7:
            self.f = event.a / event.b
        elif case == 8:
            self.f = event.a**event.b
        elif case == 9:
            self.i = event.n ** (event.m % 40 - 2)  # Python would try any exponent
        elif case == 10:
            self.f = event.a**2 + 2.0**event.b
        elif case == 11:
            self.f = event.n**-1
        elif case == 12:
            self.f = min(event.a, event.b, self.f)
            self.g = max(event.a, event.b, self.g)
        elif case == 13:
            self.i = round(event.a)
        elif case == 14:
            self.f = round(event.a, 2)
            self.g = round(event.b, event.m)
        elif case == 15:
            self.i = int(event.a)
            self.j = math.floor(event.b) + math.ceil(event.a) + math.trunc(event.b)
        elif case == 16:
            self.b = event.a < event.n <= event.b
        elif case == 17:
            self.b = event.a == event.n or event.n != event.b
        elif case == 18:
            self.i = (event.n << event.m % 80 - 2) + (event.n >> event.m % 80 - 2)
        elif case == 19:
            self.i = (event.n & event.m) ^ (event.n | ~event.m)
        elif case == 20:
            self.i = -event.n + abs(event.m) + (+event.flag)
            self.f = -event.a
        elif case == 21:
            self.f = float(event.n) + event.flag
        elif case == 22:
            self.i = event.flag + event.flag * event.n - (not event.flag)
            self.b = event.flag & self.b
        elif case == 23:
            self.f = event.a + event.b * event.a - event.b
        elif case == 24:
            self.f = math.hypot(event.a, event.b)
        elif case == 25:
            self.f = math.fmod(event.a, event.b) + math.copysign(event.a, event.b)
        elif case == 26:
            self.f = math.sin(event.a) + math.cos(event.a) * math.tan(event.b)
        elif case == 27:
            self.f = math.exp(event.a) - math.log(event.b) + math.log(event.b, 3)
        elif case == 28:
            self.f = math.sqrt(event.a) + math.atan2(event.a, event.b) + math.degrees(event.a)
        elif case == 29:
            self.f = math.pow(event.a, event.b) + math.pi * RATIO

    def more(self, event: Probe, case: int) -> None:
        if case == 30:
            self.i = event.n or event.m
            self.f = event.a and event.b
        elif case == 31:
            self.b = event.flag or (self.count_up() > 3 and self.count_up() > 4)
        elif case == 32:
            self.i = self.i + self.count_up() * 10 + self.i
        elif case == 33:
            self.i += self.count_up()
        elif case == 34:
            for k in range(event.n % 7, event.m % 9, -2 if event.flag else 2):
                self.i = self.i * 3 + k
        elif case == 35:
            k = 0
            while k < event.n % 10:
                k += 1
                if k == 4:
                    continue
                if k == 7:
                    break
                self.i += k
            else:
                self.j += 1
        elif case == 36:
            for k in range(event.n % 6):
                if k == event.m % 6:
                    break
            else:
                self.j += 100
        elif case == 37:
            self.mode = event.mode if event.flag else Mode.GONE
            self.b = self.mode is Mode.BUSY or self.mode in (Mode.IDLE, event.mode)
        elif case == 38:
            self.level = event.level
            self.b = event.level == Level.HIGH
            self.i = event.weight.value + Weight.HEAVY.value
        elif case == 39:
            self.b = event.n in NUMBERS or event.n not in (event.m, 2)
        elif case == 40:
            self.b = event.a in (1.0, event.b, 2)
        elif case == 41:
            self.i, self.j = self.j, self.i
            self.f = self.g = event.a
        elif case == 42:
            assert event.n > 0
            self.i = event.n
        elif case == 43:
            if event.n < 0:
                raise ValueError("negative")
            self.i = event.n
        elif case == 44:
            self.f = halved(event.a) + halved(event.b, 3) + halved(times=2, x=event.a)
        elif case == 45:
            self.b = larger(event.n, m=event.m) if event.flag else larger(event.m, event.n)
        elif case == 46:
            self.f = event.twice(self.FACTOR)
        elif case == 47:
            self.b = (not (event.n and event.m) and bool(event.a)) or event.s != ""
        elif case == 48:
            self.i = 1 if event.n > LIMIT else (2 if event.flag else self.count_up())
        elif case == 49:
            total = 0
            for k in range(4):
                for other in range(k, 6):
                    if other == event.n:
                        break
                    total += other
                total *= 2
            self.i = total
        elif case == 50:
            self.i = self.early(event)
        elif case == 51:
            if isinstance(event, Probe) and math.isnan(event.a):
                self.i += 1
            elif math.isinf(event.a) or not math.isfinite(event.b):
                self.i += 2
        elif case == 52:
            self.i = pow(event.n, 3) + int(event.flag)
        elif case == 53:
            self.f = event.n + event.a - event.m * event.b
        elif case == 54:
            self.f = math.asin(event.a) + math.acos(event.b) + math.tanh(event.a)
        elif case == 55:
            self.f = math.expm1(event.a) + math.log1p(event.b) + math.erf(event.a)
        elif case == 56:
            self.f = math.log2(event.a) + math.log10(event.b) + math.radians(event.a)
        elif case == 57:
            self.f = math.sinh(event.a) + math.cosh(event.b) + math.atan(event.a)
        elif case == 58:
            self.f = math.asinh(event.a) + math.acosh(event.b) + math.atanh(event.a)
        elif case == 59:
            self.b = -1.0 < event.a < event.b < 1e300 != event.b

    def count_up(self) -> int:
        self.i += 1
        return self.i

    def early(self, event: Probe) -> int:
        while True:
            if event.n > 5:
                return 1
            for k in range(3):
                if k == event.m:
                    return k + 10
            return 99

    def texts(self, event: Probe, case: int, ctx: Context) -> None:
        if case == 60:
            self.s = event.s + event.t
        elif case == 61:
            self.b = event.s == event.t or event.s < event.t
            self.i = (event.s <= event.t) + (event.s > event.t) * 2 + (event.s >= event.t) * 4
        elif case == 62:
            self.s = event.s[event.n :]
        elif case == 63:
            self.s = event.s[event.n : event.m] + event.t[:2] + event.t[-1:]
        elif case == 64:
            self.s = event.s[event.n]
        elif case == 65:
            self.s = f"{event.s}:{event.n}"
        elif case == 66:
            self.b = event.s in event.t or event.t not in self.s
        elif case == 67:
            self.b = event.s.startswith(event.t) or event.t.endswith("a")
        elif case == 68:
            self.b = event.s in WORDS or event.t == "é"
        elif case == 69:
            self.i = len(event.s) + len(self.s)
            self.s = str(event.n) + str(event.t)
        elif case == 70:
            self.s = event.s or event.t or "none"
        elif case == 71:
            self.s = event.mode.value + event.mode.name
        elif case == 72:
            word = event.s if event.flag else "x" + event.t
            word += word[:1]
            self.s = word
        elif case == 73:
            self.s = self.s[1:] + event.s[:3]
        elif case == 74:
            self.s = ctx.key[:5] + f"{event.m}"

    def lists(self, event: Probe, case: int) -> None:
        if case == 80:
            self.xs.append(event.a)
            self.ns.append(event.n)
        elif case == 81:
            self.f = self.xs[event.n]
        elif case == 82:
            self.xs[event.n] = event.a
        elif case == 83:
            self.ns[event.n] += event.m
        elif case == 84:
            self.xs = list(event.xs)
            self.xs.append(event.a)
        elif case == 85:
            self.ns = list(event.ns)
            self.i = len(event.ns)
        elif case == 86:
            self.f = self.xs.pop(0)
            self.g = self.xs.pop()
        elif case == 87:
            self.i = self.ns.pop(event.n)
        elif case == 88:
            self.f = min(event.xs)
            self.g = max(event.xs)
            self.i = sum(event.ns)
        elif case == 89:
            self.b = event.n in event.ns or event.a in event.xs
        elif case == 90:
            self.f = 0.0
            for x in event.xs:
                self.f += x
        elif case == 91:
            for n in self.ns:
                if 3 < n < 9:
                    self.ns.append(n - 1)
                self.i += n
        elif case == 92:
            self.xs = [event.a, self.f, event.b]
        elif case == 93:
            self.xs.clear()
            self.ns = []
            self.b = not self.xs
        elif case == 94:
            for n in event.ns:
                if n == event.n:
                    break
            else:
                self.j += 1
        elif case == 95:
            self.i = self.ns[self.shorten()]
        elif case == 96:
            self.ns[event.n] += self.shorten()

    def shorten(self) -> int:
        if len(self.ns) > 2:
            self.ns.pop()
        return -1

    def context(self, event: Probe, case: int, ctx: Context) -> None:
        if case == 100:
            ctx.emit(Note(event.a, i=event.n, s=event.s, xs=self.xs))
        elif case == 101:
            ctx.emit(Note(f=event.n))
            ctx.emit(Note(1.5, b=event.flag, mode=event.mode))
        elif case == 102:
            ctx.send(Cases, f"k-{event.n}", Ring(n=event.m, s=event.s))
        elif case == 103:
            ctx.send(Cases, event.s, Ring())
        elif case == 104:
            ctx.after(event.a, Ring(s=event.s), name="one")
        elif case == 105:
            ctx.every(event.a, Ring(n=event.n, x=event.b), "two")
            self.b = ctx.cancel("one")
        elif case == 106:
            ctx.at(event.a, Ring(x=event.b))
            ctx.after(event.n, Ring())
        elif case == 107:
            self.f = ctx.random.random()
            self.g = ctx.random.uniform(event.a, event.b) + ctx.random.gauss()
            self.i = ctx.random.randint(event.n, event.m)
        elif case == 108:
            self.s = ctx.new_id()[-9:] + ctx.new_id()[-3:]
        elif case == 109:
            self.f = ctx.now
            self.g = ctx.event_time
        elif case == 110:
            ctx.log.info(f"{event.a}")
        elif case == 111:
            ctx.reply(Ring(n=event.n))
            self.i = event.n
        elif case == 112:
            ctx.emit(Note(ctx.random.gauss(event.a, 2), xs=self.xs, i=self.grow(event.a)))
        elif case == 113:
            ctx.send(Cases, ctx.new_id()[-3:], Ring(n=self.count_up(), x=event.n))
        elif case == 114:
            ctx.after(5, Probe(case=event.n, s=event.s, xs=event.xs), name="three")
            ctx.cancel("two")
        elif case == 115:
            event.n // event.m
            self.xs.append(event.a)
            self.b = event.a in self.xs

    def grow(self, x: float) -> int:
        self.xs.append(x)
        return len(self.xs)


class Guarded(Agent, compiled=True, unhandled="dead-letter"):
    """Modes, guards and several handlers of one event."""

    mode: Mode = Mode.IDLE
    taken: int = 0
    n: int = 0
    ns: Annotated[list[int], Length(4)] = []

    @on(mode=Mode.IDLE, when=lambda self, event: event.n > self.n)
    def rises(self, event: Probe, ctx: Context) -> None:
        self.taken = 1
        self.n = event.n

    @on(mode=Mode.IDLE)
    def idle(self, event: Probe, ctx: Context) -> None:
        self.taken = 2
        self.mode = event.mode

    @on(mode=[Mode.BUSY, Mode.GONE], when=lambda self, event: event.flag)
    def busy(self, event: Probe, ctx: Context) -> None:
        self.taken = 3
        if event.n < 0:
            self.mode = Mode.IDLE

    @on(when=lambda self, event: larger(event.m, 10))
    def otherwise(self, event: Probe, ctx: Context) -> None:
        self.taken = 4
        self.ns = event.ns

    @on(Ring)
    def rings(self, event: Ring, ctx: Context) -> None:
        self.taken = 5 + event.n
