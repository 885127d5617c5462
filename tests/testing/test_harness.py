"""Goal: agents can be tested without an engine, in virtual time, on the real stepper, and a test
that is wrong is told so in words."""

import random
import subprocess
import sys
from collections.abc import Callable
from enum import Enum

import pytest

from holdfast import Action, Agent, AskFailed, Context, Event, UsageError, on
from holdfast.model.effects import Timer
from holdfast.model.fleet import FleetModel
from holdfast.testing import Harness, Message
from holdfast.testing.fixtures import harness  # noqa: F401

pytest_plugins = ["pytester"]


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Battery(Event):
    percent: float


class Status(Event):
    pass


class Silence(Event):
    pass


class Request(Event):
    pass


class Granted(Event):
    pad: int


class Divide(Event):
    by: int


class Never(Event):
    pass


class Land(Action, expires=5.0, priority="urgent"):
    pass


class Search(Action):
    pass


class Drone(Agent):
    mode: Mode = Mode.FLYING
    battery: float = 100.0
    pad: int = 0
    drawn: float = 0.0

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        self.drawn = ctx.random.random()
        ctx.after(30.0, Silence(), name="silence")
        if event.percent < 15.0:
            self.mode = Mode.LANDING
            ctx.emit(Land())
            ctx.send(Station, "north", Request())
            ctx.log.warning("low")

    @on
    def silent(self, event: Silence, ctx: Context) -> None:
        ctx.emit(Search())

    @on
    def granted(self, event: Granted, ctx: Context) -> None:
        self.pad = event.pad

    @on
    def asked(self, event: Status, ctx: Context) -> None:
        ctx.reply(Battery(percent=self.battery))

    @on
    def divided(self, event: Divide, ctx: Context) -> None:
        self.battery /= event.by


class Station(Agent):
    granted: int = 0
    beats: int = 0

    @on
    def request(self, event: Request, ctx: Context) -> None:
        assert ctx.sender is not None
        self.granted += 1
        ctx.send(Drone, ctx.sender.key, Granted(pad=self.granted))

    @on
    def start(self, event: Status, ctx: Context) -> None:
        ctx.every(10.0, Silence(), name="beat")

    @on
    def beat(self, event: Silence, ctx: Context) -> None:
        self.beats += 1


def made() -> Harness:
    return Harness(Drone, Station)


def test_an_event_changes_state_and_issues_actions() -> None:
    world = made()
    world.at(10.0)
    world.send(Drone, "d-1", Battery(percent=9.0))
    state = world.state(Drone, "d-1")
    assert state is not None
    assert state.mode is Mode.LANDING
    assert world.actions == [Land()]
    (issued,) = world.issued
    assert (issued.agent, issued.key, issued.now) == ("Drone", "d-1", 10.0)
    assert (issued.id, issued.expires_at, issued.priority) == ("test/Drone/d-1/1/0", 15.0, "urgent")
    assert world.take_actions() == [Land()]
    assert world.actions == []
    assert [line.text for line in world.logs] == ["low"]
    world.verify()


def test_messages_are_delivered_until_quiet() -> None:
    world = made()
    world.send(Drone, "d-1", Battery(percent=9.0))
    assert world.messages == [
        Message("Drone/d-1", "Station/north", Request()),
        Message("Station/north", "Drone/d-1", Granted(pad=1)),
    ]
    world.expect(Drone, "d-1", pad=1)
    world.expect(Station, "north", granted=1)
    world.expect_messages((Station, "north", Request()), (Drone, "d-1", Granted(pad=1)))
    world.verify()


def test_timers_fire_when_time_passes_each_at_its_moment() -> None:
    world = made()
    world.send(Drone, "d-1", Battery(percent=50.0))
    assert world.timers(Drone, "d-1") == {"silence": Timer("silence", 30.0, Silence())}
    world.advance(29.9)
    assert world.actions == []
    world.advance(100.0)
    assert [(each.action, each.now) for each in world.issued] == [(Search(), 30.0)]
    assert world.now == 129.9
    assert world.timers(Drone, "d-1") == {}
    world.send(Station, "north", Status())
    world.advance(35.0)
    world.expect(Station, "north", beats=3)
    world.verify()


def test_given_when_expect() -> None:
    world = made()
    world.given(Drone, "d-1", battery=20.0)
    world.send(Drone, "d-1", Battery(percent=14.0))
    world.when(Drone, "d-1", Granted(pad=4), Granted(pad=7))
    world.expect_actions()
    world.expect(Drone, "d-1", pad=7, battery=14.0)
    world.verify()


def test_the_result_is_that_of_an_engine() -> None:
    from holdfast import Fleet

    fleet = Fleet("both", agents=[Drone, Station])
    world = Harness(fleet)
    events = [Battery(percent=float(each)) for each in (80, 60, 9, 7)]
    world.send(Drone, "d-1", *events)
    with fleet.open("memory:") as live:
        for event in events:
            live.send(Drone, "d-1", event)
        live.settle()
        assert live.state(Drone, "d-1") == world.state(Drone, "d-1")
        assert live.state(Station, "north") == world.state(Station, "north")
        assert [a.id for a in live.actions()] == [a.id for a in world.issued]


def test_asking() -> None:
    world = made()
    assert world.ask(Drone, "d-1", Status()) == Battery(percent=100.0)
    with pytest.raises(AskFailed, match="no handler replied to Granted"):
        world.ask(Drone, "d-1", Granted(pad=1))
    with pytest.raises(AskFailed, match="ZeroDivisionError"):
        world.ask(Drone, "d-1", Divide(by=0))
    assert len(world.dead_letters) == 1
    world.pause(Drone, "d-1")
    with pytest.raises(AskFailed, match="holds Status"):
        world.ask(Drone, "d-1", Status())
    world.resume(Drone, "d-1")
    world.verify()


def test_a_failed_event_is_a_dead_letter_that_somebody_has_to_look_at() -> None:
    world = made()
    world.send(Drone, "d-1", Divide(by=0), Battery(percent=50.0))
    with pytest.raises(
        AssertionError, match=r"did not look at `dead_letters`(?s:.*)Divide\(by=0\)"
    ):
        world.verify()
    (letter,) = world.dead_letters
    assert letter.error == "ZeroDivisionError: float division by zero"
    world.verify()


def test_a_wrong_expectation_shows_what_differs() -> None:
    world = made()
    world.send(Drone, "d-1", Divide(by=0), Battery(percent=50.0))
    with pytest.raises(AssertionError) as wrong:
        world.expect(Drone, "d-1", mode=Mode.LANDING, battery=9.0, pad=0)
    text = str(wrong.value)
    assert "Drone/d-1 at 0 s is not as expected:" in text
    assert "  battery: expected 9.0, is 50.0\n" in text
    assert "mode: expected <Mode.LANDING: 'landing'>, is <Mode.FLYING: 'flying'>" in text
    assert "pad" not in text
    assert "failed on Divide(by=0): ZeroDivisionError" in text
    with pytest.raises(AssertionError, match="it does not exist"):
        world.expect(Drone, "d-2", pad=1)
    world.send(Drone, "d-1", Silence())
    with pytest.raises(AssertionError) as wrong:
        world.expect_actions(Land(), Search())
    assert "  - Land()\n    Search()\n" in str(wrong.value)
    with pytest.raises(AssertionError, match="messages are not as expected"):
        world.expect_messages((Station, "north", Request()))


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda w: w.send(Drone, "no key", Silence()), "cannot be a key"),
        (lambda w: w.send(Drone, "d-1", Never()), "no agent of this harness knows Never"),
        (lambda w: w.send(Drone, "d-1", Silence), "is no event: give an instance"),
        (lambda w: w.state(Agent, "d-1"), "Agent is no agent of this harness: it has Drone"),
        (lambda w: w.at(-1.0), "time does not go back"),
        (lambda w: w.at(float("nan")), "time does not go back"),
        (lambda w: w.given(Drone, "d-1", colour=1), "cannot be made of these fields"),
        (lambda w: w.given(Drone, "d-1", pad="x"), "field 'pad' cannot be 'x'"),
        (lambda w: w.given(Drone, "d-9", pad=1), "is there already"),
        (lambda w: w.expect(Drone, "d-9", colour=1), "has no field 'colour'"),
        (lambda w: Harness(w.fleet, Drone), "a fleet or agent classes, not both"),
    ],
)
def test_wrong_use_is_refused(call: Callable[[Harness], object], complaint: str) -> None:
    world = made()
    world.send(Drone, "d-9", Silence())
    with pytest.raises(UsageError, match=complaint):
        call(world)


class Roll(Event):
    pass


class Gambler(Agent):
    last: float = 0.0

    @on
    def roll(self, event: Roll, ctx: Context) -> None:
        self.last = random.random()


def test_what_is_not_deterministic_is_found() -> None:
    world = Harness(Gambler)
    world.send(Gambler, "g-1", Roll())
    with pytest.raises(AssertionError, match=r"folded again, Gambler/g-1 differs in last: 0\."):
        world.verify()


def test_expiring_and_deferring_agents_fold_again_alike() -> None:
    class Short(Agent, expire_after=60.0, unhandled="defer"):
        mode: Mode = Mode.FLYING
        seen: int = 0

        @on(mode=Mode.LANDING)
        def noted(self, event: Status, ctx: Context) -> None:
            self.seen += 1

        @on(mode=Mode.FLYING)
        def landed(self, event: Silence, ctx: Context) -> None:
            self.mode = Mode.LANDING

    world = Harness(Short)
    world.send(Short, "s-1", Status(), Status(), Silence())
    world.expect(Short, "s-1", seen=2)
    world.advance(61.0)
    assert world.state(Short, "s-1") is None
    world.verify()


def test_the_fixture(harness: Callable[..., Harness]) -> None:  # noqa: F811
    world = harness(FleetModel("fixtures", agents=[Drone, Station]), now=5.0)
    world.send(Drone, "d-1", Battery(percent=50.0))
    assert world.now == 5.0
    assert harness(Drone, Station) is not world


def test_the_harness_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; from holdfast.testing import Harness"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_fixture_verifies_at_the_end(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from holdfast.testing.fixtures import harness")
    pytester.makepyfile(
        """
        from tests.testing.test_harness import Gambler, Roll

        def test_gamble(harness):
            harness(Gambler).send(Gambler, "g-1", Roll())
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*folded again, Gambler/g-1 differs in last*"])
