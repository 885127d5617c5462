"""The yard of `fleet_v1.py`, second release. Data of the first is read, events of it are taken.

New: `Job.urgent`, `Level.volts`, `Late.tries`, `Robot.volts`, `Audited.late` and the function
`survey`. Renamed with an `upcast`: `Robot.level` (percent) is `charge` (0 to 1), `Visit.stay` is
`seconds`. Changed: nobody stops at a negative weight.
"""

from __future__ import annotations

import random
from enum import Enum

from holdfast import Action, Agent, CallFailed, Context, Event, Fleet, call, on


class Mode(Enum):
    IDLE = "idle"
    CARRYING = "carrying"
    CHARGING = "charging"


class Tray(Enum):
    FREE = "free"
    FULL = "full"


class Job(Event):
    shelf: str
    weight: float = 1.0
    urgent: bool = False


class Dropped(Event, priority="urgent"):
    pass


class Level(Event):
    percent: float
    volts: float = 0.0


class Late(Event):
    shelf: str
    tries: int = 0


class Wanted(Event):
    percent: float


class Granted(Event, priority="urgent"):
    pad: int
    path: list[str] = []


class Parcel(Event):
    label: str
    path: list[str] = []


class Weigh(Event):
    kilograms: float


class Beat(Event):
    pass


class Visit(Event, priority="urgent"):
    seconds: float = 0.0
    rude: bool = False

    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        if "stay" in old:
            old["seconds"] = old.pop("stay")
        return old


class Bye(Event):
    rude: bool


class HowMany(Event):
    pass


class Count(Event):
    number: int


class Routed(Event):
    legs: int
    path: list[str] = []


class Audited(Event):
    number: int
    late: bool = False


@call(concurrency=2)
def route(shelf: str, weight: float, call_id: str) -> Routed:
    """Simulated runs make up what it returns."""
    raise NotImplementedError


@call
async def audit(total: float) -> Audited:
    raise NotImplementedError


def survey(shelf: str) -> Routed:
    """New in this release: a caller of the first one does not have it."""
    raise NotImplementedError


class Drive(Action, expires=30.0):
    to: str
    id: str


class Alarm(Action, priority="urgent"):
    shelf: str


class Stored(Action):
    label: str
    path: list[str]


class Weighed(Action):
    kilograms: float


class Greeted(Action):
    tag: str
    luck: float


class Robot(Agent, unhandled="defer"):
    """Modes, deferred events, a watchdog, messages out and answers in."""

    mode: Mode = Mode.IDLE
    shelf: str = ""
    jobs: int = 0
    charge: float = 1.0  # 0 to 1
    pads: list[int] = []
    volts: float = 0.0

    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        if "level" in old:
            level = old.pop("level")
            assert isinstance(level, float)
            old["charge"] = level / 100.0
        return old

    @on(mode=Mode.IDLE)
    def start(self, event: Job, ctx: Context) -> None:
        self.mode, self.shelf = Mode.CARRYING, event.shelf
        ctx.call(route, event.shelf, event.weight, reply=Routed, timeout=1.5, retries=1)
        ctx.after(3.0, Late(shelf=event.shelf), name="late")
        ctx.emit(Drive(to=event.shelf, id=ctx.new_id()))
        if event.weight > 2.0:
            ctx.emit(Weighed(kilograms=event.weight))
        if event.weight > 1000.0:
            self.jobs = "too many"  # type: ignore[assignment]  # what Holdfast has to refuse

    @on(mode=Mode.CARRYING)
    def finish(self, event: Dropped, ctx: Context) -> None:
        self.mode, self.jobs = Mode.IDLE, self.jobs + 1
        ctx.cancel("late")
        depot = ctx.random.choice(["d-1", "d-2", "d-3"])
        ctx.send(Depot, depot, Parcel(label=ctx.new_id(), path=[self.shelf]))

    @on(mode=Mode.CARRYING)
    def routed(self, event: Routed, ctx: Context) -> None:
        self.pads = [*self.pads[-3:], event.legs]
        if event.legs % 7 == 3:
            raise ValueError(f"a route of {event.legs} legs")
        if event.legs % 2:
            ctx.call(survey, self.shelf, reply=Routed, timeout=0.5, retries=0)

    @on
    def lost(self, event: CallFailed, ctx: Context) -> None:
        ctx.emit(Alarm(shelf=f"{event.call} {event.reason} {event.attempts}"))

    @on(mode=[Mode.IDLE, Mode.CARRYING], when=lambda self, event: event.percent < 15.0)
    def low(self, event: Level, ctx: Context) -> None:
        self.mode, self.charge = Mode.CHARGING, event.percent / 100.0
        ctx.log.warning(f"low at {ctx.now:.3f}")
        ctx.send(Charger, f"c-{ctx.random.randint(1, 2)}", Wanted(percent=event.percent))

    @on
    def charged(self, event: Level, ctx: Context) -> None:
        self.charge, self.volts = event.percent / 100.0, event.volts

    @on(mode=Mode.CHARGING)
    def dock(self, event: Granted, ctx: Context) -> None:
        self.pads.append(event.pad)
        self.mode, self.charge = Mode.IDLE, 1.0

    @on
    def late(self, event: Late, ctx: Context) -> None:
        ctx.emit(Alarm(shelf=event.shelf))
        if self.mode is Mode.CARRYING:
            again = Late(shelf=event.shelf, tries=event.tries + 1)
            ctx.after(10.0, again, name="late")

    @on
    def how_many(self, event: HowMany, ctx: Context) -> None:
        ctx.reply(Count(number=self.jobs))
        ctx.reply(Count(number=-1))  # only the first one counts


class Charger(Agent, unhandled="dead-letter"):
    """Answers messages, at once or by a periodic timer that it cancels."""

    given: int = 0
    waiting: list[str] = []

    @on
    def wanted(self, event: Wanted, ctx: Context) -> None:
        if ctx.sender is None:
            raise LookupError("nobody to charge")
        self.given += 1
        if self.given % 4 == 0:
            ctx.call(audit, float(self.given), reply=Audited, retries=0, timeout=1.0)
        if self.given % 3:
            ctx.reply(Granted(pad=self.given, path=self.waiting))
        else:
            self.waiting.append(ctx.sender.key)
            ctx.every(0.7, Beat(), name="beat")

    @on
    def audited(self, event: Audited, ctx: Context) -> None:
        self.given += event.number % 2

    @on(when=lambda self, event: bool(self.waiting))
    def beat(self, event: Beat, ctx: Context) -> None:
        ctx.send(Robot, self.waiting.pop(0), Granted(pad=-self.given))
        if not self.waiting:
            ctx.cancel("beat")

    @on
    def how_many(self, event: HowMany, ctx: Context) -> None:
        ctx.reply(Count(number=self.given))


class Depot(Agent):
    """Parcels go on from depot to depot; "endless" ones until the bound of hops."""

    parcels: int = 0
    labels: list[str] = []
    seen: dict[str, int] = {}

    @on
    def parcel(self, event: Parcel, ctx: Context) -> None:
        self.parcels += 1
        self.labels = [*self.labels[-3:], event.label]
        self.seen[event.path[-1] if event.path else ""] = self.parcels
        event.path.append(ctx.key)
        if self.parcels % 3 == 0:
            ctx.call(audit, float(self.parcels), reply=Audited, backoff=0.2)
        if event.label == "endless" or (len(event.path) < 4 and ctx.random.random() < 0.5):
            ctx.send(Depot, f"d-{ctx.random.randint(1, 3)}", event)
        else:
            ctx.emit(Stored(label=event.label, path=event.path))

    @on
    def audited(self, event: Audited, ctx: Context) -> None:
        self.seen[f"audit {event.number}"] = self.parcels
        if event.number % 2:
            ctx.call(audit, -1.0, reply=Audited, timeout=2.0, backoff=0.1)

    @on
    def how_many(self, event: HowMany, ctx: Context) -> None:
        if self.parcels % 2:
            ctx.reply(Count(number=self.parcels))


class Scale(Agent, on_error="pause", unhandled="defer"):
    """Stops at an event that fails, also with events deferred; timers of all kinds go on."""

    tray: Tray = Tray.FREE
    total: float = 0.0
    count: int = 0
    beats: int = 0

    @on(mode=Tray.FREE)
    def weigh(self, event: Weigh, ctx: Context) -> None:
        self.count += 1
        ctx.emit(Weighed(kilograms=event.kilograms))
        if self.count % 3 == 0:
            ctx.call(audit, self.total, reply=Audited, timeout=1.0, retries=1, backoff=0.1)
        self.total += max(0.0, event.kilograms)
        if self.count % 4 == 1:
            ctx.every(1.5, Beat(), name="beat")
        if event.kilograms > 50.0:
            self.tray = Tray.FULL
            ctx.after(0.4, Weigh(kilograms=0.5))
            ctx.after(0.0, Weigh(kilograms=0.25))

    @on
    def audited(self, event: Audited, ctx: Context) -> None:
        if event.number % 5 == 2:
            raise ValueError(f"audit {event.number}")
        self.total += event.number

    @on(mode=Tray.FULL)
    def clear(self, event: Dropped, ctx: Context) -> None:
        self.tray = Tray.FREE
        if self.count % 5 == 0:
            raise RuntimeError("the tray is stuck")

    @on
    def beat(self, event: Beat, ctx: Context) -> None:
        self.beats += 1
        if self.beats % 3 == 0:
            ctx.cancel("beat")

    @on
    def how_many(self, event: HowMany, ctx: Context) -> None:
        ctx.reply(Count(number=10 // self.count))


class Visitor(Agent, expire_after=2.5):
    """Forgotten soon; a timer keeps it, also one whose event fails."""

    visits: int = 0
    tag: str = ""
    left: int = 0

    @on
    def visit(self, event: Visit, ctx: Context) -> None:
        self.visits, self.tag = self.visits + 1, ctx.new_id()
        ctx.emit(Greeted(tag=self.tag, luck=ctx.random.gauss()))
        if event.seconds:
            ctx.call(route, self.tag, 0.0, reply=Routed, timeout=0.5, retries=0)
            ctx.at(ctx.now + event.seconds, Bye(rude=event.rude), name="bye")

    @on
    def routed(self, event: Routed, ctx: Context) -> None:
        self.left += event.legs % 3

    @on
    def bye(self, event: Bye, ctx: Context) -> None:
        self.left += 1
        ctx.send(Depot, "d-1", Parcel(label=self.tag))
        if event.rude:
            raise RuntimeError("left without a word")


fleet = Fleet("yard", agents=[Robot, Charger, Depot, Scale, Visitor])

Row = tuple[type[Agent], str, Event]


def stimulus(draw: random.Random) -> Row:
    """An event as the world may send it."""
    number = draw.randint(1, 4)
    seconds = draw.choice([0.0, 0.5, 4.0])
    robot: list[Event] = [
        Job(shelf=f"s-{number}", weight=draw.choice([1.0, 2.5, -1.0, 2000.0])),
        Job(shelf=f"s-{number}", urgent=True),
        Dropped(),
        Dropped(),
        Level(percent=draw.choice([5.0, 40.0, 90.0]), volts=11.5),
    ]
    rows: list[Row] = [(Robot, f"r-{number}", event) for event in robot]
    rows += [
        (Depot, f"d-{number}", Parcel(label="endless" if draw.random() < 0.05 else f"p-{number}")),
        (Depot, f"d-{number}", Level(percent=1.0)),
        (Charger, f"c-{number}", draw.choice([Wanted(percent=1.0), Level(percent=1.0)])),
        (Scale, f"w-{number}", Weigh(kilograms=draw.choice([1.5, 60.0, 3.0, -4.0]))),
        (Scale, f"w-{number}", Weigh(kilograms=draw.choice([1.5, 60.0, 3.0]))),
        (Scale, f"w-{number}", Dropped()),
        (Visitor, f"v-{number}", Visit(seconds=seconds, rude=draw.random() < 0.3)),
        (Visitor, f"v-{number}", Visit()),
    ]
    return draw.choice(rows)


def question(draw: random.Random) -> Row:
    """An event that somebody may ask: answered, left without an answer, failed or deferred."""
    number = draw.randint(1, 4)
    rows: list[Row] = [
        (Robot, f"r-{number}", draw.choice([HowMany(), HowMany(), Dropped()])),
        (Charger, f"c-{number}", draw.choice([HowMany(), Level(percent=2.0)])),
        (Depot, f"d-{number}", draw.choice([HowMany(), Level(percent=2.0)])),
        (Scale, f"w-{number}", HowMany()),
    ]
    return draw.choice(rows)
