"""Goal: other code gives exactly the differences that a hand-written oracle predicts."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from holdfast import Action, Agent, Context, Event, Fleet, SchemaError, WrongFleet, on
from holdfast.runtime.forking.fork import Options
from holdfast.runtime.forking.mailbox import MESSAGE_SECONDS
from tests.runtime.forking.recordings import differences, forked
from tests.runtime.semantics import World, opened


class Height(Event):
    metres: float


class Warned(Event):
    metres: float


class Descend(Action):
    to: float


class Log(Action):
    number: int
    metres: float


def fleet_of(limit: float, to: float = 80.0, *, warn: float = 1e9) -> Fleet:
    """Drones that descend above a limit, and tell their tower above another."""

    class Tower(Agent):
        count: int = 0

        @on
        def warned(self, event: Warned, ctx: Context) -> None:
            self.count += 1
            ctx.emit(Log(number=self.count, metres=event.metres))

    class Drone(Agent):
        high: float = 0.0

        @on
        def moved(self, event: Height, ctx: Context) -> None:
            self.high = max(self.high, event.metres)
            if event.metres > limit:
                ctx.emit(Descend(to=to))
            if event.metres > warn:
                ctx.send(Tower, f"t-{ctx.key[-1]}", Warned(metres=event.metres))

    return Fleet("towers", agents=[Drone, Tower])


Sent = list[tuple[float, str, float]]  # time, key, metres


def fly(world: World, sends: int = 200) -> Sent:
    draw = random.Random(3)
    drone = world.fleet.agents["Drone"]
    sent: Sent = []
    for _ in range(sends):
        rows = [(f"d-{draw.randint(1, 6)}", draw.uniform(60.0, 140.0)) for _ in range(3)]
        world.live.send_many([(drone, key, Height(metres=metres)) for key, metres in rows])
        sent += [(world.clock.wall, key, metres) for key, metres in rows]
        if draw.random() < 0.5:
            world.run()
        world.clock.pass_time(draw.choice([0.001, 0.02, 0.3]))
    world.run()
    return sent


def test_a_lower_threshold_gives_the_decisions_an_oracle_predicts(tmp_path: Path) -> None:
    with opened(fleet_of(120.0), "memory", tmp_path, 3) as world:
        sent = fly(world)
        outcome = forked(world, fleet_of(110.0)).outcome
    more = [(at, key) for at, key, metres in sent if 110.0 < metres <= 120.0]
    before = sum(metres > 120.0 for _, _, metres in sent)
    assert len(more) > 20
    assert outcome.counts == {"Descend": {"new": len(more)}}
    assert outcome.totals == {"Descend": [before, before + len(more)]}
    assert [(each.now, each.key) for each in outcome.examples] == sorted(more)
    assert not outcome.states.agents
    assert {each.kind for each in outcome.examples} == {"new"}


def test_a_higher_threshold_and_other_content(tmp_path: Path) -> None:
    with opened(fleet_of(110.0), "memory", tmp_path, 3) as world:
        sent = fly(world)
        outcome = forked(world, fleet_of(120.0, to=70.0)).outcome
    gone = sum(110.0 < metres <= 120.0 for _, _, metres in sent)
    kept = sum(metres > 120.0 for _, _, metres in sent)
    assert outcome.counts == {"Descend": {"missing": gone, "changed": kept}}
    changed = next(each for each in outcome.examples if each.kind == "changed")
    assert (changed.recorded, changed.fork) == ({"to": 80.0}, {"to": 70.0})


@pytest.mark.parametrize("partitions", [1, 3])
def test_new_messages_arrive_in_the_order_of_time(partitions: int, tmp_path: Path) -> None:
    """Production sends none. The oracle: each arrives a moment after it was sent, if the tower's
    partition took anything that late, and per tower they are counted in that order."""
    with opened(fleet_of(1e9), "memory", tmp_path, partitions) as world:
        sent = fly(world)
        found = forked(world, fleet_of(1e9, warn=125.0))
        layout = world.engine.catalog.layout
        ends = {n: world.engine.view(n).head().now for n in layout.numbers}
    numbers: dict[str, int] = {}
    expected = []
    for order, (at, key, metres) in enumerate(sent):
        tower, arrival = f"t-{key[-1]}", at + MESSAGE_SECONDS
        if metres > 125.0 and arrival <= ends[layout.partition_of(tower)]:
            expected.append((arrival, order, tower, metres))
    logs = []
    for arrival, _, tower, metres in sorted(expected):
        numbers[tower] = numbers.get(tower, 0) + 1
        logs.append((arrival, tower, {"number": numbers[tower], "metres": metres}))
    made = [(e.now, e.key, e.fork) for e in found.outcome.examples if e.name == "Log"]
    assert len(logs) > 30
    assert sorted(made, key=str) == sorted(logs, key=str)
    assert found.outcome.counts == {"Log": {"new": len(logs)}}


def test_messages_of_a_pair_keep_their_order(tmp_path: Path) -> None:
    """New messages mix with recorded ones; the recorded places must not overtake."""

    class Numbered(Event):
        number: int

    class Seen(Action):
        number: int

    def fleet(every: int) -> Fleet:
        class Tower(Agent):
            last: int = 0
            out_of_order: int = 0

            @on
            def take(self, event: Numbered, ctx: Context) -> None:
                self.out_of_order += event.number != self.last + 1
                self.last = event.number
                ctx.emit(Seen(number=event.number))

        class Drone(Agent):
            heights: int = 0
            sent: int = 0

            @on
            def moved(self, event: Height, ctx: Context) -> None:
                self.heights += 1
                if self.heights % every == 0:
                    self.sent += 1
                    ctx.send(Tower, f"t-{ctx.key[-1]}", Numbered(number=self.sent))

        return Fleet("towers", agents=[Drone, Tower])

    with opened(fleet(2), "memory", tmp_path, 3) as world:
        fly(world)
        found = forked(world, fleet(1), Options(compare=False))
    towers = [r for r in found.outcome.records if r.agent == "Tower"]
    assert len(towers) == 6
    for record in towers:
        last, out_of_order = msgspec.msgpack.decode(record.state)
        assert out_of_order == 0
        assert last > 50


def test_a_candidate_that_fails_changes_the_dead_letters(tmp_path: Path) -> None:
    def fleet(limit: float) -> Fleet:
        class Drone(Agent):
            high: float = 0.0

            @on
            def moved(self, event: Height, ctx: Context) -> None:
                self.high = max(self.high, event.metres)
                if event.metres > limit:
                    raise ValueError("too high")

        return Fleet("towers", agents=[Drone])

    with opened(fleet(130.0), "memory", tmp_path, 2) as world:
        sent = fly(world)
        outcome = forked(world, fleet(120.0)).outcome
    assert len(outcome.letters[0]) == sum(m > 130.0 for _, _, m in sent)
    assert len(outcome.letters[1]) == sum(m > 120.0 for _, _, m in sent)
    assert outcome.letters[1][0].error == "ValueError: too high"
    assert set(outcome.states.fields) == {"Drone.high", "Drone.(version)"}


def test_a_value_of_a_wrong_type_is_a_dead_letter_here_as_there(tmp_path: Path) -> None:
    """It is noticed at the end of a round, when messages made of it were taken already."""

    def fleet(limit: float) -> Fleet:
        class Tower(Agent):
            count: int = 0

            @on
            def warned(self, event: Warned, ctx: Context) -> None:
                self.count += 1

        class Drone(Agent):
            high: float = 0.0

            @on
            def moved(self, event: Height, ctx: Context) -> None:
                if event.metres > limit:
                    self.high = "high"  # type: ignore[assignment]
                ctx.send(Tower, f"t-{ctx.key[-1]}", Warned(metres=event.metres))

        return Fleet("towers", agents=[Drone, Tower])

    with opened(fleet(130.0), "memory", tmp_path, 2) as world:
        sent = fly(world)
        assert differences(forked(world, fleet(130.0))) == {}
        outcome = forked(world, fleet(120.0)).outcome
    assert len(outcome.letters[1]) == sum(m > 120.0 for _, _, m in sent)


def plain_fleet() -> Fleet:
    class Drone(Agent):
        high: float = 0.0

        @on
        def moved(self, event: Height, ctx: Context) -> None:
            self.high = max(self.high, event.metres)

    return Fleet("towers", agents=[Drone])


def counting_fleet() -> Fleet:
    class Drone(Agent):
        high: float = 0.0
        count: int = 0

        @on
        def moved(self, event: Height, ctx: Context) -> None:
            self.high = max(self.high, event.metres)
            self.count += 1

    return Fleet("towers", agents=[Drone])


def test_a_field_with_a_default_may_be_new(tmp_path: Path) -> None:
    with opened(plain_fleet(), "memory", tmp_path, 2) as world:
        fly(world)
        before = world.engine.catalog.schemas()
        outcome = forked(world, counting_fleet()).outcome
        assert world.engine.catalog.schemas() == before  # nothing is registered in production
    assert outcome.states.new_fields == ["Drone.count"]
    assert not outcome.states.agents
    assert outcome.states.compared == 6


def test_classes_that_cannot_read_history_and_other_fleets_are_refused(tmp_path: Path) -> None:
    class Height(Event):  # not the one above
        feet: float

    class Drone(Agent):
        @on
        def moved(self, event: Height, ctx: Context) -> None: ...

    with opened(fleet_of(120.0), "memory", tmp_path, 2) as world:
        fly(world, 5)
        with pytest.raises(SchemaError, match=r"Height\.metres is stored, but the class has no"):
            forked(world, Fleet("towers", agents=[Drone]))
        with pytest.raises(WrongFleet, match="of fleet 'towers', the candidate is 'other'"):
            forked(world, Fleet("other", agents=[Drone]))
