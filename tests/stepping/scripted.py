"""Agents that do what their events say, so that Hypothesis can write their programs."""

from __future__ import annotations

from enum import Enum

from holdfast import Action, Agent, CallFailed, Context, Event, call, on
from holdfast.model.fleet import FleetModel


class Mode(Enum):
    DAY = "day"
    NIGHT = "night"


class Do(Event):
    """Words, worked off from left to right; see `obey`."""

    words: list[str]
    path: list[int] = []


class Rang(Event):
    """What timers bring."""

    words: list[str]


class Nightly(Event):
    """Only taken at night."""

    label: str


class Told(Event):
    """What agents send each other."""

    label: str
    path: list[int] = []


class Planned(Event):
    """What calls bring."""

    words: list[str]


@call
def plan(label: str, call_id: str) -> Planned:
    return Planned([f"emit:{label}"])


class Noted(Action):
    text: str
    path: list[int] = []


class Counted(Action):
    number: int


class Memory(Agent):
    """The state and the skills that all agents of these tests have."""

    mode: Mode = Mode.DAY
    count: int = 0
    drawn: float = 0.0
    number: int = 0
    path: list[int] = []
    marks: dict[str, list[int]] = {}
    seen: list[str] = []

    def obey(self, words: list[str], path: list[int], ctx: Context) -> None:
        for word in words:
            verb, _, rest = word.partition(":")
            getattr(self, f"do_{verb}")(rest, path, ctx)

    def do_add(self, rest: str, path: list[int], ctx: Context) -> None:
        self.count += 1

    def do_push(self, rest: str, path: list[int], ctx: Context) -> None:
        self.path.append(len(self.path))
        self.marks.setdefault("all", []).append(self.count)

    def do_take(self, rest: str, path: list[int], ctx: Context) -> None:
        """Keep the event's own list and change it: nobody else may notice."""
        self.path = path
        self.path.append(100)

    def do_emit(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.emit(Noted(rest, self.path))
        self.path.append(-1)
        ctx.emit(Counted(self.count))

    def do_send(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.send(Plain, rest, Told(f"{ctx.key}@{ctx.now}", self.path))
        self.path.append(-2)

    def do_draw(self, rest: str, path: list[int], ctx: Context) -> None:
        self.drawn = ctx.random.random()
        self.seen.append(f"{ctx.new_id()} {ctx.random.randint(0, 9)}")

    def do_log(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.log.info(f"{self.count} {ctx.now} {ctx.event_time}")

    def do_after(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.after(float(rest), Rang(["add", "draw"]))

    def do_named(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.after(float(rest), Rang(["push", "emit:named"]), name="named")

    def do_again(self, rest: str, path: list[int], ctx: Context) -> None:
        """A timer that sets itself anew."""
        ctx.after(float(rest), Rang(["add", f"again:{rest}"]), name="again")

    def do_every(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.every(float(rest), Rang(["add", "log"]), name="every")

    def do_at(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.at(float(rest), Rang(["add", "draw"]), name="at")

    def do_cancel(self, rest: str, path: list[int], ctx: Context) -> None:
        self.seen.append(f"cancelled {rest} {ctx.cancel(rest)}")

    def do_night(self, rest: str, path: list[int], ctx: Context) -> None:
        self.mode = Mode.NIGHT

    def do_day(self, rest: str, path: list[int], ctx: Context) -> None:
        self.mode = Mode.DAY

    def do_call(self, rest: str, path: list[int], ctx: Context) -> None:
        self.seen.append(f"called {ctx.call(plan, rest, reply=Planned, retries=len(self.path))}")

    # Ways to fail.

    def do_fail(self, rest: str, path: list[int], ctx: Context) -> None:
        raise ValueError(f"as asked, at {self.count}")

    def do_exit(self, rest: str, path: list[int], ctx: Context) -> None:
        raise SystemExit(3)

    def do_misfit(self, rest: str, path: list[int], ctx: Context) -> None:
        self.number = "not a number"  # type: ignore[assignment]

    def do_wrongaction(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.emit(Counted("many"))  # type: ignore[arg-type]

    def do_wrongmessage(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.send(Plain, "p-1", Told(5))  # type: ignore[arg-type]

    def do_wrongtimer(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.after(1.0, Rang("add"))  # type: ignore[arg-type]

    def do_wrongkey(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.send(Plain, "no key!", Told("x"))

    def do_wrongcall(self, rest: str, path: list[int], ctx: Context) -> None:
        ctx.call(plan, object(), reply=Planned)

    @on
    def planned(self, event: Planned, ctx: Context) -> None:
        self.seen.append(f"planned {ctx.now} {ctx.event_time} {ctx.sender}")
        self.obey(event.words, [], ctx)

    @on(mode=Mode.NIGHT)
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.seen.append(f"failed {event.call} {event.reason}")

    @on
    def done(self, event: Do, ctx: Context) -> None:
        self.obey(event.words, event.path, ctx)

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.seen.append(f"rang {ctx.now} {ctx.event_time}")
        event.words.append("changed by the handler")
        self.obey(event.words[:-1], [], ctx)

    @on(mode=Mode.NIGHT)
    def nightly(self, event: Nightly, ctx: Context) -> None:
        self.seen.append(f"nightly {event.label}")
        if event.label == "fail":
            raise ValueError("a nightly failure")
        if event.label == "day":
            self.mode = Mode.DAY

    @on
    def told(self, event: Told, ctx: Context) -> None:
        self.seen.append(f"told {event.label} by {ctx.sender}")


class Plain(Memory):
    pass


class Strict(Memory, unhandled="dead-letter"):
    pass


class Deferring(Memory, unhandled="defer"):
    pass


class Pausing(Memory, unhandled="defer", on_error="pause"):
    pass


class Mortal(Memory, expire_after=2.0):
    pass


AGENTS: list[type[Memory]] = [Plain, Strict, Deferring, Pausing, Mortal]
FLEET = FleetModel("scripted", agents=AGENTS)
