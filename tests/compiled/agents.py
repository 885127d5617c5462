"""A fleet whose compiled agents together do all that can be compiled, beside interpreted ones.

Events say what to do, so that a generated stream decides: which operator on which numbers, which
timer, whom to write to. Handlers are as unkind as their users would be.
"""

from __future__ import annotations

from holdfast import Agent, Context, Fleet, on
from tests.compiled.events import (
    Do,
    Flags,
    Gear,
    Gears,
    Landed,
    Mode,
    Name,
    Parts,
    Question,
    Raised,
    Ring,
    Said,
    Tick,
    Told,
    Whole,
    Words,
    Write,
)
from tests.compiled.meter import Meter


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
