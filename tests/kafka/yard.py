"""A fleet with every feature of an agent that an engine could get wrong, and what is seen of it."""

from __future__ import annotations

import time
from typing import Any

from holdfast import Action, Agent, CallFailed, Context, Event, Fleet, Live, on
from holdfast.runtime.reading import HistoryEntry
from tests.run.speed import patient


class Load(Event):
    weight: int


class Ask(Event):
    pass


class Told(Event):
    weight: int


class Passed(Event):
    weight: int
    by: str


class Late(Event):
    pass


class Plan(Event):
    weight: int


class Planned(Event):
    weight: int


class Moved(Action):
    weight: int

    def undo(self) -> Moved:
        return Moved(weight=-self.weight)


class Rang(Action):
    pass


def plan(weight: int) -> Planned:
    if weight < 0:
        raise ValueError("no such weight")
    return Planned(weight=weight * 10)


class Truck(Agent):
    weight: int = 0
    passed: int = 0
    planned: int = 0
    failed: int = 0
    rang: int = 0
    ids: list[str] = []

    @on
    def load(self, event: Load, ctx: Context) -> None:
        if event.weight == 13:
            raise ValueError("thirteen")
        self.weight += event.weight
        self.ids.append(ctx.new_id())
        ctx.emit(Moved(weight=event.weight))
        ctx.send(Truck, f"t-{(int(ctx.key[2:]) + 1) % 8}", Passed(event.weight, by=ctx.key))

    @on
    def pass_on(self, event: Passed, ctx: Context) -> None:
        self.passed += event.weight

    @on
    def ask(self, event: Ask, ctx: Context) -> None:
        ctx.after(0.05, Late(), name="late")
        ctx.reply(Told(weight=self.weight))

    @on
    def late(self, event: Late, ctx: Context) -> None:
        self.rang += 1
        ctx.emit(Rang())

    @on
    def plan(self, event: Plan, ctx: Context) -> None:
        ctx.call(plan, event.weight, reply=Planned, timeout=20.0, retries=0)

    @on
    def got_plan(self, event: Planned, ctx: Context) -> None:
        self.planned = event.weight

    @on
    def no_plan(self, event: CallFailed, ctx: Context) -> None:
        self.failed += 1


fleet = Fleet("yard", agents=[Truck])
TRUCKS = [f"t-{n}" for n in range(8)]


def work(live: Live) -> None:
    """The same in every engine: what comes of it must be the same too."""
    for number, key in enumerate(TRUCKS, start=1):
        live.send(Truck, key, Load(number), source="gate", seq=number)
        live.send(Truck, key, Load(number), source="gate", seq=number)
    live.send_many([(Truck, key, Load(100)) for key in TRUCKS], source="many", first_seq=1)
    live.send(Truck, "t-3", Load(13), source="gate", seq=50)
    live.settle(timeout=60.0)
    assert live.ask(Truck, "t-1", Ask(), timeout=20.0) == Told(weight=102)
    live.send(Truck, "t-2", Plan(weight=4))
    live.send(Truck, "t-4", Plan(weight=-4))
    live.settle(timeout=60.0)
    live.pause(Truck, "t-5", "inspection")
    live.wait_for(live.send(Truck, "t-5", Load(1000), source="gate", seq=60), timeout=30.0)
    paused = [each.key for each in live.paused()]
    assert paused == ["t-5"], paused
    live.resume(Truck, "t-5")
    (letter,) = live.dead_letters()
    live.redrive(letter.id)
    live.settle(timeout=60.0)
    (first,) = (a for a in live.actions() if a.key == "t-6" and a.action == Moved(7))
    live.compensate(first.id, "wrong truck", timeout=30.0)
    deadline = time.monotonic() + patient(30.0)
    while not live.state(Truck, "t-1").rang:
        assert time.monotonic() < deadline, "its timer has not rung"
        time.sleep(0.01)
    live.settle(timeout=60.0)


def _plain(truck: Truck) -> tuple[int, ...]:
    """Its ids have versions in them, which depend on when messages came; so many there are."""
    numbers = (truck.weight, truck.passed, truck.planned, truck.failed, truck.rang)
    return (*numbers, len(set(truck.ids)))


def _named(entry: HistoryEntry) -> tuple[object, object]:
    own = entry.source is not None and entry.source.startswith("~")
    return ("~", None) if own else (entry.source, entry.seq)


def seen(live: Live) -> dict[str, Any]:
    """Everything a program can see, without times and positions, which differ."""
    return {
        "states": {key: _plain(live.state(Truck, key)) for key in TRUCKS},
        "listed": {key: _plain(truck) for key, truck in live.states(Truck)},
        "actions": sorted((a.key, str(a.action), a.undoes is None) for a in live.actions()),
        "letters": sorted((x.key, x.error, x.redriven) for x in live.dead_letters()),
        "history": {
            key: [(e.origin, str(e.event), *_named(e)) for e in live.history(Truck, key)]
            for key in ("t-1", "t-3", "t-5")
        },
    }
