"""Goal: what the stepper promises beside the fold itself: one input at a time where workers died, a
verdict on the input that killed them, and an agenda as small as the timers it knows."""

from __future__ import annotations

import pytest

from holdfast import Agent, Context, Event, on
from holdfast.errors import Busy, DamagedData, OutdatedCode
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame, control_frame, read_inputs
from tests.stepping.rig import Bench, codebook_of
from tests.stepping.scripted import FLEET, Do, Mortal, Nightly, Pausing, Plain, Strict

VERDICT = "it killed its worker"


def bench() -> Bench:
    return Bench(FLEET, codebook_of(FLEET))


def alone(made: Bench, *, clock: float | None = None, condemned: str | None = None) -> Commit:
    position = made.stepper.head.position
    waiting = [
        each.part(max(0, position - each.first), len(each))
        for each in made.inbox.read(made.codebook)
        if each.first + len(each) > position
    ]
    commit = made.stepper.step(waiting, clock, alone=True, condemned=condemned)
    made.commits.append(commit)
    made.redriven.update(commit.redriven)
    return commit


def test_inputs_that_leave_a_gap_are_refused() -> None:
    made = bench()
    made.inbox.put([(Plain, "p-1", Do(["add"]))], 1.0)
    made.inbox.put([(Plain, "p-1", Do(["add"]))], 2.0)
    with pytest.raises(DamagedData, match="continue at 1, expected 0"):
        made.step(made.inbox.read(made.codebook)[1:])


def test_nothing_to_do_is_an_empty_commit() -> None:
    made = bench()
    assert made.step([], 5.0).empty
    made.send([(Plain, "p-1", Do(["named:10", "cancel:named"]))], 1.0)
    head = made.stepper.head
    assert made.step([], 50.0).empty  # only the hint of a cancelled timer
    assert made.stepper.head == head


def test_a_condemned_event_does_not_run() -> None:
    made = bench()
    made.inbox.put([(Plain, "p-1", Do(["add"])), (Plain, "p-1", Do(["add", "add"]))], 1.0)
    alone(made, condemned=VERDICT)
    assert made.stepper.head.position == 1
    assert made.state(Plain, "p-1") is None
    alone(made)
    assert [letter.error for letter in made.letters] == [VERDICT]
    state = made.state(Plain, "p-1")
    assert isinstance(state, Plain)
    assert state.count == 2


def test_a_condemned_timer_does_not_run_and_the_event_behind_it_does() -> None:
    made = bench()
    made.send([(Plain, "p-1", Do(["after:1"]))], 1.0)
    made.inbox.put([(Plain, "p-1", Do(["push"]))], 9.0)
    alone(made, condemned=VERDICT)
    assert made.stepper.head.position == 1, "the timer was due first"
    alone(made)
    assert made.stepper.head.position == 2
    [letter] = made.letters
    assert (letter.error, letter.event_time) == (VERDICT, 2.0)
    state = made.state(Plain, "p-1")
    assert isinstance(state, Plain)
    assert (state.seen, state.path) == ([], [0])


def test_a_condemned_timer_of_an_idle_partition_does_not_run() -> None:
    made = bench()
    made.send([(Plain, "p-1", Do(["after:1", "named:1"]))], 1.0)
    alone(made, clock=5.0, condemned=VERDICT)
    assert len(made.journal) == 1
    alone(made, clock=5.0)
    assert [letter.error for letter in made.letters] == [VERDICT]
    assert len(made.journal) == 2


def test_a_condemned_event_of_a_pausing_agent_pauses_it() -> None:
    made = bench()
    made.inbox.put([(Pausing, "p-1", Do(["add"]))], 1.0)
    alone(made, condemned=VERDICT)
    made.inbox.command(Pausing, "p-1", ["resume"], 2.0)
    alone(made, condemned=VERDICT)
    state = made.state(Pausing, "p-1")
    assert isinstance(state, Pausing)
    assert (state.count, made.letters) == (0, [])
    made.inbox.command(Pausing, "p-1", ["resume"], 3.0)
    alone(made)
    state = made.state(Pausing, "p-1")
    assert isinstance(state, Pausing)
    assert state.count == 1


def test_a_condemned_redrive_is_a_new_letter() -> None:
    made = bench()
    made.send([(Strict, "p-1", Nightly("x"))], 1.0)
    made.inbox.command(Strict, "p-1", ["redrive", 1], 2.0)
    alone(made, condemned=VERDICT)
    assert [letter.error for letter in made.letters][1:] == [VERDICT]
    assert made.redriven == {1}


# ---------------------------------------------------------------- the agenda


def test_a_watchdog_set_anew_costs_one_entry() -> None:
    made = bench()
    for second in range(50):
        rows = [(Plain, f"p-{n}", Do(["named:3600"])) for n in range(20)]
        made.send([*rows, *rows], float(second))
    assert len(made.stepper.agenda) <= 20
    made.step([], 49.0 + 3599.0)
    assert made.journal == []
    made.step([], 49.0 + 3600.0)
    assert {row[2] for row in made.journal} == {f"p-{n}" for n in range(20)}
    assert len(made.journal) == 20
    assert len(made.stepper.agenda) == 0


def test_a_timer_brought_forward_fires_at_the_earlier_time_only() -> None:
    made = bench()
    made.send([(Plain, "p-1", Do(["named:100"]))], 1.0)
    made.send([(Plain, "p-1", Do(["named:5"]))], 2.0)
    made.step([], 7.5)
    made.step([], 500.0)
    assert [(row[3], row[4]) for row in made.journal] == [("named", 7.0)]


def test_expiry_of_a_busy_agent_costs_one_entry() -> None:
    made = bench()
    for tenth in range(100):
        made.send([(Mortal, "m-1", Do(["add"]))], tenth / 10)
    assert len(made.stepper.agenda) == 1
    made.step([], 9.9 + 1.9)
    assert made.state(Mortal, "m-1") is not None
    made.step([], 9.9 + 2.0)
    assert made.state(Mortal, "m-1") is None


def test_timers_due_at_one_time_fire_in_one_order_before_and_after_a_restart() -> None:
    made = bench()
    for key in ("p-3", "p-1", "p-2"):
        made.send([(Plain, key, Do(["named:5", "again:5", "every:5"]))], 1.0)
    other = made.reopened()
    for each in (made, other):
        each.step([], 6.0)
    assert [row[2:4] for row in made.journal] == [row[2:4] for row in other.journal]
    assert len(made.journal) == 9


class Weigh(Event):
    kilos: float


class Scale(Agent):
    text: str = ""

    @on
    def weigh(self, event: Weigh, ctx: Context) -> None:
        self.text += f"{event.kilos} "
        ctx.after(1.0, Weigh(3), name="again")


def test_a_timer_brings_the_same_before_and_after_a_restart() -> None:
    """A whole number given for a float is a float when it comes back, stored or not."""
    made = Bench(FleetModel("scales", agents=[Scale]))
    made.send([(Scale, "s-1", Weigh(1.5))], 1.0)
    other = made.reopened()
    for each in (made, other):
        each.step([], 2.0)
        state = each.state(Scale, "s-1")
        assert isinstance(state, Scale)
        assert state.text == "1.5 3.0 "


# ---------------------------------------------------------------- what newer code wrote


class Land(Event):
    pass


class Drone(Agent):
    landed: int = 0

    @on
    def land(self, event: Land, ctx: Context) -> None:
        self.landed += 1


class Truck(Agent):
    landed: int = 0

    @on
    def land(self, event: Land, ctx: Context) -> None:
        self.landed += 1


def test_an_unknown_agent_is_newer_code_and_not_damage() -> None:
    old = FleetModel("f", agents=[Drone])
    new = Bench(FleetModel("f", agents=[Drone, Truck]), codebook_of(old))
    new.inbox.put([(Drone, "d-1", Land()), (Truck, "t-1", Land())], 1.0)
    with pytest.raises(OutdatedCode, match="Truck"):
        read_inputs(new.inbox.frames[0], codebook_of(old))
    frame = control_frame("Truck", "t-1", ["pause", "x"])
    with pytest.raises(OutdatedCode, match="Truck"):
        read_inputs(StoredFrame(0, 1, 1.0, frame.encode()), codebook_of(old))


def test_an_unknown_command_is_newer_code_and_not_damage() -> None:
    made = bench()
    made.inbox.command(Plain, "p-1", ["somersault"], 1.0)
    with pytest.raises(OutdatedCode, match="somersault"):
        made.fold()


# ---------------------------------------------------------------- trouble that is not the event's


class Hidden(Event):
    """Only made at run time, by a name that no reading of the code finds."""


hidden: dict[str, type[Event]] = {"Hidden": Hidden}


class Sender(Agent):
    sent: int = 0

    @on
    def land(self, event: Land, ctx: Context) -> None:
        self.sent += 1
        ctx.send(Sender, "s-2", hidden["Hidden"]())


def test_a_schema_that_cannot_be_noted_now_is_not_a_dead_letter() -> None:
    fleet = FleetModel("f", agents=[Sender])
    calls: list[str] = []

    def register(schema: Schema) -> int:
        calls.append(schema.name)
        if len(calls) < 3:  # once in the fast fold, once in the careful one
            raise Busy("somebody else holds the catalog")
        return 99

    codebook = Codebook(fleet, dict(enumerate(fleet.schemas(), 1)), register)
    made = Bench(fleet, codebook)
    made.inbox.put([(Sender, "s-1", Land())], 1.0)
    with pytest.raises(Busy):
        made.fold()
    again = made.reopened()
    again.fold()
    assert again.letters == []
    assert [message[-1] for message in again.messages] == [Hidden()]
