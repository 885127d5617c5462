"""The way in: fold the recorded past with other code, and hand back what differs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from holdfast.engine import inheritance
from holdfast.engine.port import Engine
from holdfast.errors import UsageError, WrongFleet
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout, slot_of
from holdfast.runtime.forking.choosing import chosen_of
from holdfast.runtime.forking.crew import Elsewhere, Here, Setup
from holdfast.runtime.forking.mailbox import Stray
from holdfast.runtime.forking.outcome import together
from holdfast.runtime.forking.rounds import Rounds, ask_all
from holdfast.runtime.forking.starting import BEGINNING, StartingPoint
from holdfast.runtime.forking.track import LetterName
from holdfast.runtime.forking.workshop import Begin, Outcome, Plan, Workshop
from holdfast.runtime.replaying.history import History
from holdfast.runtime.schemas import check_classes
from holdfast.stepping.commit import Fate, Head, Letter, Record

ARRIVE_SECONDS = 2.0  # how long messages under way are waited for, so that their places are known


@dataclass(frozen=True)
class Options:
    until: float = math.inf
    agents: str = ""
    jobs: int = 0  # 0: one for every core
    keep_actions: bool = False
    compare: bool = True
    calls_fail: bool = False
    start: StartingPoint = BEGINNING
    ends: Mapping[int, Head] | None = None  # None: where production stands now


class Forked(NamedTuple):
    outcome: Outcome
    seconds: float
    since: float  # time of the first input
    until: float  # and of the last
    jobs: int
    repeated: int
    begins: Mapping[int, Begin]


class Generations:
    """The partitions of a fleet, those before the first rescaling first."""

    def __init__(self, engine: Engine, since: int = 0) -> None:
        layout = engine.catalog.layout
        before = {n: s for n, s in engine.catalog.retired.items() if n < layout.first}
        slots = {**before, **layout.slots_by_number}
        firsts = sorted(n for n, own in slots.items() if own.start == 0)
        stops = [*firsts[1:], max(slots) + 1]
        self.layouts = [
            Layout(tuple(slots[n] for n in range(first, stop)), first)
            for first, stop in zip(firsts, stops, strict=True)
            if first >= since
        ]

    def numbers(self) -> list[int]:
        return [n for layout in self.layouts for n in layout.numbers]


def fork_engine(
    fleet: FleetModel,
    engine: Engine,
    options: Options,
    reference: str = "",
    url: str = "",
) -> Forked:
    """Fold the past with other classes. Several processes need a reference and a URL."""
    chosen = chosen_of(options.agents, fleet)
    if fleet.name != engine.catalog.fleet:
        raise WrongFleet(
            f"the data is of fleet {engine.catalog.fleet!r}, the candidate is {fleet.name!r}: "
            "name the right file or the right data"
        )
    begins = options.start.begins
    used = {record.schema for begin in begins.values() for record in begin.records}
    stored = engine.catalog.schemas()
    check_classes(
        fleet, stored, fleet.schemas(), lambda schema, at: schema in used, ("event", "state")
    )
    generations = Generations(engine, since=min(begins, default=0))
    ends = dict(options.ends or {n: engine.view(n).head() for n in generations.numbers()})
    _let_messages_arrive(engine)
    plan = Plan(ends, options.until, options.keep_actions, options.compare, options.calls_fail)
    most = max(len(layout.partitions) for layout in generations.layouts)
    jobs = min(options.jobs or os.cpu_count() or 1, most) if reference else 1
    members: list[Here | Elsewhere] = []
    try:
        if jobs == 1:
            members.append(Here(Workshop(engine, fleet, plan, chosen)))
        else:
            setup = Setup(reference, url, plan, options.agents)
            members += [Elsewhere(setup) for _ in range(jobs)]
        return _run(engine, generations, plan, begins, members)
    finally:
        for member in members:
            member.end()


def _let_messages_arrive(engine: Engine) -> None:
    """A message of the last commits may not be in its inbox yet, and so have no place."""
    views = {n: engine.view(n) for n in engine.catalog.layout.numbers}
    sent = [(views[n].incarnation(), views[n].sent_next()) for n in views]
    deadline = time.monotonic() + ARRIVE_SECONDS
    while time.monotonic() < deadline:
        marks = {n: view.marks() for n, view in views.items()}
        if all(
            marks[to].get(incarnation, 0) >= following - 1
            for incarnation, numbers in sent
            for to, following in numbers.items()
            if to in marks
        ):
            return
        time.sleep(0.02)


@dataclass
class _Inherited:
    """What one generation leaves to the next."""

    records: list[Record] = field(default_factory=list)
    letters: list[tuple[LetterName, Letter]] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)

    def of(self, slots: range, head: Head) -> Begin:
        return Begin(
            head,
            [inheritance.moved(r) for r in self.records if slot_of(r.key) in slots],
            [each for each in self.letters if slot_of(each[1].key) in slots],
            [m for m in self.strays if slot_of(m.receiver[1]) in slots],
            fates=[u for u in self.fates if slot_of(u.key) in slots],
        )


def _run(
    engine: Engine,
    generations: Generations,
    plan: Plan,
    start: Mapping[int, Begin],
    members: Sequence[Here | Elsewhere],
) -> Forked:
    started = time.monotonic()
    inherited = _Inherited()
    repeated = 0
    for layout in generations.layouts:
        begins = {}
        for number, slots in layout.slots_by_number.items():
            history = History(engine, number)
            _check_kept(history, start.get(number))
            head = history.begin().head if layout.first else Head()
            begins[number] = start.get(number) or inherited.of(slots, head)
        for member, share in zip(members, _shares(layout.numbers, len(members)), strict=True):
            member.partitions = share
            member.ask("open", layout, {n: begins[n] for n in share})
        for member in members:
            member.answer()
        rounds = Rounds(members, plan.until)
        rounds.run()
        repeated += rounds.repeated
        if layout is generations.layouts[-1] or plan.until < max(
            plan.ends[n].now for n in layout.numbers
        ):
            break
        inherited = _Inherited()
        for left in cast(list[dict[str, list[object]]], ask_all(members, "close")):
            inherited.records += cast(list[Record], left["records"])
            inherited.letters += cast(list[tuple[LetterName, Letter]], left["letters"])
            inherited.strays += cast(list[Stray], left["strays"])
            inherited.fates += cast(list[Fate], left["fates"])
    outcome = together(cast(list[Outcome], ask_all(members, "finish")))
    seconds = time.monotonic() - started
    until = min(plan.until, max(head.now for head in plan.ends.values()))
    return Forked(outcome, seconds, _beginning(engine, start), until, len(members), repeated, start)


def _shares(numbers: Sequence[int], parts: int) -> list[Sequence[int]]:
    edges = [i * len(numbers) // parts for i in range(parts + 1)]
    return [numbers[edges[i] : edges[i + 1]] for i in range(parts)]


def _check_kept(history: History, begin: Begin | None) -> None:
    kept = history.first_kept()
    if kept is not None and (begin is None or kept[0] > begin.head.position):
        where = "from the beginning" if begin is None else f"from {begin.head.position} on"
        raise UsageError(
            f"partition {history.number}: retention has removed the history before position "
            f"{kept[0]}, so it cannot be folded {where}: give a newer snapshot with --from"
        )


def _beginning(engine: Engine, begins: Mapping[int, Begin]) -> float:
    """When the first thing happened that is folded."""
    stamps = []
    for number in Generations(engine, min(begins, default=0)).numbers():
        at = begins[number].head.position if number in begins else 0
        frames = engine.view(number).frames(at, 1)
        stamps += [frames[0].stamp] if frames else []
    return min(stamps, default=0.0)
