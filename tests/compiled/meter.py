"""The compiled agent that calculates: every operator, loop and function of `math`."""

from __future__ import annotations

import math

from holdfast import Agent, Context, on
from tests.compiled.events import Calc, Computed, Op

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
    at: float = 0.0

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
        self.at = ctx.event_time
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
