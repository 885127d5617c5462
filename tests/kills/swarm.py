"""The fleet that the kill tests run. Public names only.

Built so that an oracle can decide everything: what depends on order is kept per source or per
sender, everything else is a sum or a count. Handlers that fail do all they can before they fail, so
that whatever is not undone shows. `SWARM_FIXED` stands for the release that repairs the valves.
"""

import hashlib
import os
from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on

FIXED = os.environ.get("SWARM_FIXED") == "1"
DRONES = 16
HUBS = 4
METERS = 6
VALVES = 3
RING_AGAIN_SECONDS = 0.2
SETTLE_SECONDS = 0.3
EXPIRE_SECONDS = 0.3


def link(chain: str, *parts: object) -> str:
    """One more link of a hash chain: equal ends mean equal inputs in equal order."""
    text = "|".join([chain, *map(str, parts)])
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


# From outside.


class Moved(Event):
    source: str
    number: int
    value: int


class Takeoff(Event):
    number: int


class Landed(Event):
    number: int


class Cargo(Event):
    number: int


class Arm(Event):
    source: str
    number: int
    delay: float
    again: int


class Disarm(Event):
    source: str
    number: int


class Query(Event):
    source: str
    number: int


class Baton(Event):
    """Also from drone to drone, until none are left to visit."""

    number: int
    left: int


class Pulse(Event):
    source: str
    number: int
    value: int


class Beat(Event):
    number: int


class Turn(Event):
    source: str
    number: int
    bad: bool


class Visit(Event):
    source: str
    number: int


class HowMany(Event):
    pass


# Between agents, and timers.


class Ring(Event):
    source: str
    number: int
    due: float
    again: int


class Tally(Event):
    serial: int
    source: str
    number: int


class Ask(Event):
    serial: int
    source: str
    number: int


class Answer(Event):
    source: str
    number: int


class Fragile(Event):
    source: str
    number: int


class Press(Event):
    serial: int
    number: int


class Carry(Event):
    serial: int


class Settle(Event):
    source: str
    number: int
    due: float


class Total(Event):
    tallies: int


# To the outside.


class Report(Action):
    source: str
    number: int


class Rang(Action):
    source: str
    number: int


class Milestone(Action):
    count: int


class Peak(Action):
    source: str
    number: int
    part: int


class Beaten(Action):
    number: int


class Visited(Action):
    source: str
    number: int


class Mode(Enum):
    DOCKED = "docked"
    FLYING = "flying"


class Drone(Agent, unhandled="defer"):
    mode: Mode = Mode.DOCKED
    seen: int = 0
    chains: dict[str, str] = {}
    counts: dict[str, int] = {}
    trips: int = 0
    cargo: str = ""
    rung: dict[str, int] = {}
    early: int = 0
    cancelled: int = 0
    answers: dict[str, str] = {}
    batons: int = 0
    baton_sum: int = 0
    sent: dict[str, int] = {}

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.seen += 1
        self.counts[event.source] = self.counts.get(event.source, 0) + 1
        chain = self.chains.get(event.source, "")
        self.chains[event.source] = link(chain, event.number, event.value)
        if event.number % 3 == 0:
            hub = hub_of(event.value)
            ctx.send(Hub, hub, Tally(self._serial(hub), event.source, event.number))
        if event.number % 5 == 0:
            ctx.emit(Report(event.source, event.number))
        if event.number % 11 == 0:
            valve = f"v-{event.value % VALVES}"
            ctx.send(Valve, valve, Press(self._serial(valve), event.number))
        if event.number % 41 == 0:
            ctx.send(Hub, hub_of(event.value), Fragile(event.source, event.number))
        if event.value % 53 == 7:
            ctx.after(0.1, Ring(event.source, event.number, ctx.now + 0.1, 0))
            raise ValueError(f"value {event.value}")

    def _serial(self, to: str) -> int:
        self.sent[to] = self.sent.get(to, 0) + 1
        return self.sent[to]

    @on(mode=Mode.DOCKED)
    def took_off(self, event: Takeoff, ctx: Context) -> None:
        self.mode = Mode.FLYING

    @on(mode=Mode.FLYING)
    def landed(self, event: Landed, ctx: Context) -> None:
        self.mode = Mode.DOCKED
        self.trips += 1

    @on(mode=Mode.DOCKED)
    def loaded(self, event: Cargo, ctx: Context) -> None:
        self.cargo = link(self.cargo, event.number, self.trips)

    @on
    def armed(self, event: Arm, ctx: Context) -> None:
        ring = Ring(event.source, event.number, ctx.now + event.delay, event.again)
        ctx.after(event.delay, ring, name=f"{event.source}-{event.number}")

    @on
    def disarmed(self, event: Disarm, ctx: Context) -> None:
        self.cancelled += ctx.cancel(f"{event.source}-{event.number}")

    @on
    def rang(self, event: Ring, ctx: Context) -> None:
        name = f"{event.source}-{event.number}"
        self.rung[name] = self.rung.get(name, 0) + 1
        self.early += ctx.now < event.due
        ctx.emit(Rang(event.source, event.number))
        if event.again > 0:
            due = ctx.now + RING_AGAIN_SECONDS
            again = Ring(event.source, event.number, due, event.again - 1)
            ctx.after(RING_AGAIN_SECONDS, again, name=name)
        else:
            hub = hub_of(event.number)
            ctx.send(Hub, hub, Tally(self._serial(hub), "ring", 0))

    @on
    def queried(self, event: Query, ctx: Context) -> None:
        hub = hub_of(event.number)
        ctx.send(Hub, hub, Ask(self._serial(hub), event.source, event.number))

    @on
    def answered(self, event: Answer, ctx: Context) -> None:
        assert ctx.sender is not None
        pair = f"{ctx.sender.key}/{event.source}"
        self.answers[pair] = link(self.answers.get(pair, ""), event.number)

    @on
    def handed(self, event: Baton, ctx: Context) -> None:
        self.batons += 1
        self.baton_sum += event.number
        if event.left > 0:
            ctx.send(Drone, after_drone(ctx.key), Baton(event.number, event.left - 1))


class Hub(Agent):
    tallies: int = 0
    chains: dict[str, str] = {}
    heard: dict[str, int] = {}
    gaps: int = 0

    @on
    def tallied(self, event: Tally, ctx: Context) -> None:
        assert ctx.sender is not None
        self._in_order(ctx.sender.key, event.serial)
        pair = f"{ctx.sender.key}/{event.source}"
        self.chains[pair] = link(self.chains.get(pair, ""), event.number)
        self.tallies += 1
        if self.tallies % 10 == 0:
            ctx.emit(Milestone(self.tallies))

    @on
    def asked(self, event: Ask, ctx: Context) -> None:
        assert ctx.sender is not None
        self._in_order(ctx.sender.key, event.serial)
        ctx.reply(Answer(event.source, event.number))

    def _in_order(self, sender: str, serial: int) -> None:
        self.gaps += serial != self.heard.get(sender, 0) + 1
        self.heard[sender] = serial

    @on
    def broke(self, event: Fragile, ctx: Context) -> None:
        self.tallies += 1_000_000
        ctx.emit(Milestone(-1))
        raise RuntimeError("fragile")

    @on
    def counted(self, event: HowMany, ctx: Context) -> None:
        ctx.reply(Total(self.tallies))


class Meter(Agent):
    seen: int = 0
    chains: dict[str, str] = {}
    carries: dict[str, int] = {}
    sent: int = 0
    gaps: int = 0
    beats: int = 0

    @on
    def pulsed(self, event: Pulse, ctx: Context) -> None:
        self.seen += 1
        chain = self.chains.get(event.source, "")
        self.chains[event.source] = link(chain, event.number, event.value)
        if event.value > 900:
            ctx.emit(Peak(event.source, event.number, 0))
            ctx.emit(Peak(event.source, event.number, 1))
        if event.number % 7 == 0:
            self.sent += 1
            ctx.send(Meter, after_meter(ctx.key), Carry(self.sent))
        if event.value == 500:
            raise ArithmeticError("a pulse of 500")

    @on
    def carried(self, event: Carry, ctx: Context) -> None:
        assert ctx.sender is not None
        self.gaps += event.serial != self.carries.get(ctx.sender.key, 0) + 1
        self.carries[ctx.sender.key] = event.serial

    @on
    def beat(self, event: Beat, ctx: Context) -> None:
        self.beats += 1
        ctx.emit(Beaten(event.number))


class Valve(Agent, on_error="pause"):
    chains: dict[str, str] = {}
    heard: dict[str, int] = {}
    gaps: int = 0
    settled: dict[str, int] = {}
    early: int = 0

    @on
    def turned(self, event: Turn, ctx: Context) -> None:
        chain = self.chains.get(event.source, "")
        self.chains[event.source] = link(chain, event.number)
        if event.number % 4 == 0:
            due = ctx.now + SETTLE_SECONDS
            ctx.after(SETTLE_SECONDS, Settle(event.source, event.number, due))
        if event.bad and not FIXED:
            raise ValueError("a bug that the next release repairs")

    @on
    def pressed(self, event: Press, ctx: Context) -> None:
        assert ctx.sender is not None
        self.gaps += event.serial != self.heard.get(ctx.sender.key, 0) + 1
        self.heard[ctx.sender.key] = event.serial

    @on
    def calmed(self, event: Settle, ctx: Context) -> None:
        name = f"{event.source}-{event.number}"
        self.settled[name] = self.settled.get(name, 0) + 1
        self.early += ctx.now < event.due


class Visitor(Agent, expire_after=EXPIRE_SECONDS):
    """Forgotten and born again all the time; what it emits must have an id of its own each time."""

    visits: int = 0

    @on
    def came(self, event: Visit, ctx: Context) -> None:
        self.visits += 1
        ctx.emit(Visited(event.source, event.number))


def hub_of(value: int) -> str:
    return f"h-{value % HUBS}"


def after_drone(key: str) -> str:
    return f"d-{(int(key[2:]) * 5 + 3) % DRONES}"


def after_meter(key: str) -> str:
    return f"m-{(int(key[2:]) + 1) % METERS}"


fleet = Fleet("swarm", agents=[Drone, Hub, Meter, Valve, Visitor])
