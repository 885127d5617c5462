"""Goal: modes and guards choose the handler, and an event nobody takes is ignored, buried or kept
for the mode that takes it, in order and up to a bound."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from holdfast import Agent, AskFailed, Context, Event, Fleet, Live, on
from holdfast.stepping.cell import HELD_PER_AGENT_MAX
from tests.runtime.semantics import ENGINES, engine_url, opened


class Mode(Enum):
    IDLE = "idle"
    FLYING = "flying"
    LANDED = "landed"


class Start(Event):
    pass


class Stop(Event):
    pass


class Move(Event):
    to: int


class Photo(Event):
    label: str


class Ask(Event):
    pass


class Answer(Event):
    log: list[str]


class Machine(Agent):
    mode: Mode = Mode.IDLE
    log: list[str] = []

    @on
    def ask(self, event: Ask, ctx: Context) -> None:
        ctx.reply(Answer(self.log))

    @on(mode=[Mode.IDLE, Mode.LANDED])
    def start(self, event: Start, ctx: Context) -> None:
        self.mode = Mode.FLYING

    @on(mode=Mode.FLYING)
    def stop(self, event: Stop, ctx: Context) -> None:
        self.mode = Mode.LANDED

    @on(mode=Mode.FLYING, when=lambda self, event: event.to > 100)
    def far(self, event: Move, ctx: Context) -> None:
        self.log.append(f"far {event.to}")

    @on(mode=Mode.FLYING)
    def near(self, event: Move, ctx: Context) -> None:
        self.log.append(f"near {event.to}")

    @on(mode=Mode.FLYING)
    def photo(self, event: Photo, ctx: Context) -> None:
        self.log.append(f"photo {event.label} at {ctx.event_time:g}")
        if event.label == "fail":
            raise ValueError("no film")
        if event.label == "last":
            self.mode = Mode.LANDED


class Careless(Machine):
    pass


class Strict(Machine, unhandled="dead-letter"):
    pass


class Patient(Machine, unhandled="defer"):
    pass


class Counter(Agent, unhandled="defer"):
    """Small, however many photos it takes."""

    mode: Mode = Mode.IDLE
    first: str = ""
    last: str = ""
    count: int = 0

    @on
    def start(self, event: Start, ctx: Context) -> None:
        self.mode = Mode.FLYING

    @on(mode=Mode.FLYING)
    def photo(self, event: Photo, ctx: Context) -> None:
        self.first = self.first or event.label
        self.last = event.label
        self.count += 1


fleet = Fleet("machines", agents=[Careless, Strict, Patient, Counter])


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path)) as made:
        yield made


def log_of(live: Live, agent: type[Machine], key: str = "m-1") -> list[str]:
    live.settle()
    state = live.state(agent, key)
    return [] if state is None else state.log


def test_the_mode_and_the_guard_choose(live: Live) -> None:
    events: list[Event] = [Start(), Move(to=5), Move(to=500), Stop(), Move(to=6), Start(), Move(7)]
    live.send_many([(Careless, "m-1", event) for event in events])
    assert log_of(live, Careless) == ["near 5", "far 500", "near 7"]


def test_ignored_events_leave_no_trace(live: Live) -> None:
    live.send(Careless, "m-1", Photo("x"))
    live.settle()
    assert live.state(Careless, "m-1") is None
    assert live.dead_letters() == []
    with pytest.raises(AskFailed, match="no handler replied to Photo"):
        live.ask(Careless, "m-1", Photo("x"))


def test_buried_events_say_who_refused(live: Live) -> None:
    live.send(Strict, "m-1", Photo("x"))
    live.settle()
    [letter] = live.dead_letters()
    assert letter.error == "no handler of Strict takes Photo now"
    assert (letter.agent, letter.key, letter.event) == ("Strict", "m-1", Photo("x"))
    with pytest.raises(AskFailed, match="no handler of Strict takes Photo now"):
        live.ask(Strict, "m-1", Photo("y"))


def test_deferred_events_come_back_in_order_when_the_mode_changes(live: Live) -> None:
    for label in "abc":
        live.send(Patient, "m-1", Photo(label), event_time=float(ord(label)))
    live.settle()
    assert log_of(live, Patient) == []
    live.send(Patient, "m-1", Start())
    assert log_of(live, Patient) == ["photo a at 97", "photo b at 98", "photo c at 99"]


def test_a_deferred_event_that_changes_the_mode_stops_the_others(live: Live) -> None:
    """Flying takes a and last; landed defers what is left; flying again takes it."""
    for label in ("a", "last", "b", "c"):
        live.send(Patient, "m-1", Photo(label), event_time=0.0)
    live.send(Patient, "m-1", Start())
    assert log_of(live, Patient) == ["photo a at 0", "photo last at 0"]
    live.send(Patient, "m-1", Photo("d"), event_time=0.0)
    live.send(Patient, "m-1", Start())
    assert log_of(live, Patient)[2:] == ["photo b at 0", "photo c at 0", "photo d at 0"]


def test_deferred_events_keep_their_order_among_other_kinds(live: Live) -> None:
    """Stop is taken by flying only, Photo too: both waited, and neither overtakes the other."""
    events: list[Event] = [Photo("a"), Stop(), Photo("b"), Start()]
    live.send_many([(Patient, "m-1", event) for event in events])
    assert [line.split(" at")[0] for line in log_of(live, Patient)] == ["photo a"]
    live.send(Patient, "m-1", Start())
    assert [line.split(" at")[0] for line in log_of(live, Patient)] == ["photo a", "photo b"]


def test_a_deferred_event_that_fails_is_one_dead_letter(live: Live) -> None:
    for label in ("a", "fail", "b"):
        live.send(Patient, "m-1", Photo(label), event_time=0.0)
    live.send(Patient, "m-1", Start())
    assert log_of(live, Patient) == ["photo a at 0", "photo b at 0"]
    [letter] = live.dead_letters()
    assert (letter.event, letter.error) == (Photo("fail"), "ValueError: no film")


def test_a_deferred_ask_is_answered_when_it_is_taken(live: Live) -> None:
    live.send(Patient, "m-1", Start())
    assert live.ask(Patient, "m-1", Ask()) == Answer([])


def test_deferred_events_are_bounded(tmp_path: Path) -> None:
    with opened(fleet, "memory", tmp_path) as world:
        rows = [(Counter, "m-1", Photo(str(n))) for n in range(HELD_PER_AGENT_MAX + 2)]
        world.live.send_many(rows)
        world.run()
        letters = world.live.dead_letters()
        assert [letter.event for letter in letters] == [
            Photo(str(HELD_PER_AGENT_MAX)),
            Photo(str(HELD_PER_AGENT_MAX + 1)),
        ]
        assert letters[0].error == f"{HELD_PER_AGENT_MAX} events are held already, the bound"
        world.live.send(Counter, "m-1", Start())
        world.run()
        state = world.live.state(Counter, "m-1")
        assert state is not None
        assert state.count == HELD_PER_AGENT_MAX
        assert (state.first, state.last) == ("0", str(HELD_PER_AGENT_MAX - 1))


def test_deferred_events_survive_a_restart(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        for label in "ab":
            world.live.send(Patient, "m-1", Photo(label), event_time=1.0)
        world.run()
        world.restart()
        world.live.send(Patient, "m-1", Photo("c"), event_time=1.0)
        world.run()
        world.restart()
        world.live.send(Patient, "m-1", Start())
        world.run()
        state = world.live.state(Patient, "m-1")
        assert state is not None
        assert state.log == ["photo a at 1", "photo b at 1", "photo c at 1"]
