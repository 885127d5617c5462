"""Generated streams for the fleet of `agents`. All choices come from one `Random`, so that a seed
repeats them and hypothesis can shrink them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.stepping.frame import Frame
from holdfast.stepping.traces import trace_columns
from tests.compiled.agents import COMPILED, Clerk, Drone, Scribe, Strict
from tests.compiled.events import (
    Calc,
    Do,
    Gear,
    Op,
    Question,
    Raised,
    Ring,
    Stranger,
    Tick,
    Told,
    Write,
)
from tests.compiled.meter import Meter
from tests.compiled.twins import Twins

NUMBERS = [0, 1, -1, 2, 3, 5, 7, 13, 64, 100, 10**9, 2**31, 2**53, 2**53 + 1, 2**62, 2**62 - 1]
EDGES = [2**63 - 1, -(2**63), -(2**62), 2**63, 2**64 - 1, -(2**53) - 1]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 0.1, 1e-9, 1e16, -3.7, 2.675, 1e300, 5e-324, 710.0]
STRANGE = [float("nan"), float("inf"), float("-inf"), 1.7976931348623157e308, 2.0**63]
TEXTS = ["", "x", "ab", "cabin", "zürich", "\0", "a\0", "日本語", "🛸 up", "12345678", "x" * 20]
SECONDS = [0.0, 0.001, 0.5, 1.0, 2.0, 7.25, 30.0, -1.0, float("nan"), float("inf")]


def number(r: Random) -> int:
    if r.random() < 0.15:
        return r.choice(EDGES)
    return r.choice(NUMBERS) * r.choice([1, 1, -1]) if r.random() < 0.5 else r.randint(-20, 70)


def real(r: Random) -> float:
    if r.random() < 0.1:
        return r.choice(STRANGE)
    return r.choice(FLOATS) if r.random() < 0.5 else r.uniform(-30.0, 30.0)


def text(r: Random) -> str:
    return r.choice(TEXTS)


def key(r: Random, agent: type[Agent], many: int) -> str:
    return f"{agent.__name__[0].lower()}-{r.randrange(many)}"


def event_for(agent: type[Agent], r: Random) -> Event:
    if agent is Meter and r.random() < 0.95:
        numbers = (number(r), number(r), real(r), real(r))
        return Calc(r.choice(list(Op)), *numbers, r.random() < 0.5)
    if agent is Scribe and r.random() < 0.9:
        items = [real(r) for _ in range(r.randint(0, 5))]
        gear = r.choice(list(Gear))
        where = r.randint(-5, 6) if r.random() < 0.8 else number(r)
        return Write(r.randint(0, 17), text(r), where, real(r), gear, items, r.random() < 0.5)
    if agent is Scribe:
        return Told(number(r), name=text(r))
    if r.random() < 0.75:
        to = r.choice(["d-1", "d-2", "p-1", "s-0", "-bad"])
        many = r.randint(-1, 7) if r.random() < 0.8 else number(r)
        return Do(r.randint(-3, 18), r.choice(SECONDS), many, to, r.choice(list(Gear)))
    return r.choice(
        [
            Tick(),
            Ring(r.randint(0, 6), "ring", r.choice(SECONDS), [number(r)]),
            Told(r.randint(-2, 70)),
            Question(r.randint(0, 3)),
            Stranger(),
        ]
    )


AGENTS: list[type[Agent]] = [Meter, Scribe, Drone, Strict, Clerk]
WEIGHTS = [3, 3, 5, 2, 1]


class Stream:
    """Drives twins: frames of all forms, commands, replies, batches, reloads, clocks."""

    def __init__(self, twins: Twins, r: Random, keys: int = 6, rows: int = 12) -> None:
        self.twins = twins
        self.r = r
        self.keys = keys
        self.rows = rows
        self.stamp = 1_000.0
        self.carried = 0
        self.redrives = True

    def pass_time(self) -> float:
        self.stamp += self.r.choice([0.0, 0.0, 0.001, 0.3, 1.0, 4.0, 31.0])
        return self.stamp

    def put(self) -> None:
        r, inbox = self.r, self.twins.inbox
        kind = r.random()
        if kind < 0.15:
            self._command()
        elif kind < 0.2 and self.twins.open:
            call = r.choice(self.twins.open)
            inbox.reply(call, Told(r.randint(-3, 3)), self.pass_time())
        else:
            self._events(kind)
            self._trace()

    def _trace(self) -> None:
        """Contexts for some rows of the newest frame; most frames have none."""
        r, frames = self.r, self.twins.inbox.frames
        some = r.choice([0.0, 0.0, 0.3, 1.0])
        one = self._context() if r.random() < 0.3 else ""
        contexts = [
            (one or self._context()) if r.random() < some else "" for _ in range(frames[-1].count)
        ]
        frame = Frame.decode(frames[-1].frame)
        frame.columns |= trace_columns(contexts, frame.count)
        frames[-1] = replace(frames[-1], frame=frame.encode())

    def _context(self) -> str:
        r = self.r
        return (
            f"00-{r.randint(1, 2**128 - 1):032x}-{r.randint(1, 2**64 - 1):016x}-0{r.randint(0, 1)}"
        )

    def _events(self, kind: float) -> None:
        r = self.r
        many = r.randint(1, self.rows)
        if kind < 0.6:
            agents = r.choices(AGENTS, WEIGHTS) * many
        else:
            agents = r.choices(AGENTS, WEIGHTS, k=many)
        events = [event_for(agent, r) for agent in agents]
        keys = [key(r, agent, self.keys) for agent in agents]
        if kind < 0.4 and agents[0] is not Clerk:
            same = [i for i, event in enumerate(events) if type(event) is type(events[0])]
            chosen = [keys[i] for i in same], [events[i] for i in same]
            self.twins.put_columns(agents[0], *chosen, self.pass_time())
            return
        times = None
        if r.random() < 0.2:
            times = [r.choice([5.0, self.stamp, self.stamp + 0.5]) for _ in events]
        rows = list(zip(agents, keys, events, strict=True))
        asks = r.random() < 0.1
        self.twins.inbox.put(rows, self.pass_time(), event_times=times, asks=asks)

    def _command(self) -> None:
        r, twins = self.r, self.twins
        agent = r.choice(AGENTS)
        letters = [each for commit in twins.plain.commits for each in commit.letters]
        what = r.choice(["pause", "pause", "resume", "resume", "redrive", "compensate"])
        at = self.pass_time()
        if what == "redrive" and letters and self.redrives:
            letter = r.choice(letters)
            cls = twins.fleet.agents[letter.agent]
            twins.inbox.command(cls, letter.key, ["redrive", letter.id], at)
        elif what == "compensate":
            made = Raised(r.randint(0, 3))
            row = twins.codebook.pack_one(made)
            command = [what, f"twins/{r.randint(0, 5)}", "no", twins.codebook.id_of(Raised), row]
            twins.inbox.command(agent, key(r, agent, self.keys), command, at)
        elif what in ("pause", "resume"):
            twins.inbox.command(agent, key(r, agent, 2), [what, "break"], at)

    def carry(self) -> None:
        """What was sent arrives, in the form in which one of the twins has sent it."""
        twin = self.r.choice([self.twins.plain, self.twins.compiled])
        for commit in twin.commits[self.carried :]:
            self.twins.inbox.carry((out.frame for out in commit.outgoing), self.pass_time())
        self.carried = len(twin.commits)

    def reload(self) -> None:
        r, twins = self.r, self.twins
        names = [name for name in COMPILED if r.random() < 0.8]
        kernels = {name: twins.kernels[name] for name in names if name in twins.kernels}
        twins.compiled.reload(kernels, compacted=r.random() < 0.5)

    def turn(self) -> None:
        """Some frames, folded in some way."""
        r, twins = self.r, self.twins
        for _ in range(r.randint(1, 4)):
            self.put()
        if r.random() < 0.6:
            self.carry()
        while waiting := len(twins.waiting()):
            way = r.random()
            if way < 0.06:
                why = "it ended its worker" if r.random() < 0.3 else None
                twins.step(1, alone=True, condemned=why)
            else:
                twins.step(r.randint(1, waiting))
            if r.random() < 0.1:
                self.reload()
        if r.random() < 0.3:
            twins.step(0, self.pass_time() + r.choice([0.0, 1.0, 40.0]))
        if r.random() < 0.1:
            self.reload()

    def end(self) -> None:
        """What is stored is what is in memory, and the same on both sides."""
        assert self.twins.compiled.states() == self.twins.plain.states()
