"""A small fleet with all that a replay compares, made by `fleet_of` with one thing changed."""

from __future__ import annotations

from collections.abc import Callable

from holdfast import Action, Agent, Context, Event, Fleet, on

Change = Callable[[str], bool]


class Put(Event):
    what: str
    weight: float = 1.0


class Later(Event):
    number: int


class Told(Event):
    what: str


class Opened(Action):
    what: str


def fleet_of(changed: str = "") -> Fleet:
    """The fleet; `changed` names the mistake in its code, "" for none."""

    class Locker(Agent, unhandled="dead-letter"):
        things: set[str] = set()
        total: float = 0.0
        puts: int = 0
        rung: int = 0

        @on
        def put(self, event: Put, ctx: Context) -> None:
            self.puts += 1
            if event.weight < 0.0 and changed != "no failure":
                raise ValueError(f"{event.weight:g}" + (" kg" if changed == "error" else ""))
            self.things.add(event.what)
            self.total += event.weight * (2.0 if changed == "state" and self.puts == 3 else 1.0)
            if changed == "thing" and self.puts == 4:
                self.things.add("a stone")
            if self.puts % 2 == 0 and changed != "no action":
                ctx.emit(Opened(what=event.what.upper() if changed == "action" else event.what))
            if changed == "more actions" and self.puts == 3:
                ctx.emit(Opened(what="one more"))
            if self.puts == 2 and changed != "no timer":
                seconds = 5.5 if changed == "timer" else 5.0
                ctx.after(seconds, Later(number=7 if changed == "timer event" else 1), name="later")
            if self.puts == 3 and changed == "more timers":
                ctx.after(1e6, Later(number=2), name="never")
            if self.puts % 3 == 0 and changed != "no message":
                what = "?" if changed == "message" else event.what
                ctx.send(Log, "log", Told(what=what))

        @on
        def later(self, event: Later, ctx: Context) -> None:
            self.rung += 1

    class Log(Agent):
        lines: int = 0

        @on
        def told(self, event: Told, ctx: Context) -> None:
            self.lines += 1

    return Fleet("lockers", agents=[Locker, Log])
