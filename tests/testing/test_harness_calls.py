"""Goal: a unit test sees the calls of its agents, answers them, and is told when that makes no
sense; `holdfast check` lets the functions do what handlers may not."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from holdfast import Agent, CallFailed, Context, Event, UsageError, call, on
from holdfast.model.fleet import FleetModel
from holdfast.stepping.frame import Frame
from holdfast.testing import Harness
from holdfast.testing.checking.doubling import Doubling
from holdfast.testing.checking.folding import Folding
from holdfast.testing.checking.limiting import TimeLimit
from holdfast.testing.checking.recording import generated_recording
from holdfast.testing.checking.static import read_fleet


class Where(Event):
    to: str
    via: list[str] = []


class Route(Event):
    legs: int


@call
def route(where: Where, since: float = 0.0) -> Route:
    return Route(int(time.time()))


class Drone(Agent):
    legs: int = 0
    trouble: str = ""

    @on
    def wanted(self, event: Where, ctx: Context) -> None:
        if event.to == "nowhere":
            raise ValueError("no such place")
        self.trouble = ctx.call(route, event, ctx.now, reply=Route, retries=4)

    @on
    def routed(self, event: Route, ctx: Context) -> None:
        self.legs = event.legs

    @on
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.trouble = f"{event.reason}: {event.error} after {event.attempts}"


@pytest.fixture
def harness() -> Harness:
    return Harness(Drone, now=5.0)


def test_calls_are_seen_and_answered(harness: Harness) -> None:
    harness.when(Drone, "d-1", Where("north", ["a"]))
    [made] = harness.calls
    assert (made.caller, made.id) == ("Drone/d-1", "test/Drone/d-1/1/call1")
    assert (made.function, made.arguments, made.reply) == (route, (["north", ["a"]], 5.0), "Route")
    harness.expect_calls((route, Where("north", ["a"]), 5.0))
    harness.answer(made, Route(3))
    harness.expect(Drone, "d-1", legs=3)
    harness.when(Drone, "d-1", Where("south"))
    harness.expect_calls((route, Where("south"), 5.0))
    harness.verify()


def test_a_call_can_fail(harness: Harness) -> None:
    harness.send(Drone, "d-1", Where("north"))
    harness.fail(harness.calls[0].id, "timeout", "too slow")
    harness.expect(Drone, "d-1", legs=0, trouble="timeout: too slow after 5")
    harness.verify()


def test_an_answer_needs_an_open_call_and_its_class(harness: Harness) -> None:
    with pytest.raises(UsageError, match="no open call 'x': open are none"):
        harness.answer("x", Route(1))
    harness.send(Drone, "d-1", Where("north"))
    with pytest.raises(UsageError, match="route was called with reply=Route: give one"):
        harness.answer(harness.calls[0], Where("no"))
    harness.answer(harness.calls[0], Route(1))
    with pytest.raises(UsageError, match=r"no open call 'test/Drone/d-1/1/call1'"):
        harness.answer(harness.calls[0], Route(1))
    with pytest.raises(UsageError, match="no open call"):
        harness.fail(harness.calls[0])


def test_what_is_expected_and_did_not_come_is_shown(harness: Harness) -> None:
    harness.send(Drone, "d-1", Where("nowhere"))
    with pytest.raises(AssertionError, match="the calls are not as expected") as difference:
        harness.expect_calls((route, Where("north"), 5.0))
    assert "- ('route', ['north', []], 5.0)" in str(difference.value)
    assert "no such place" in str(difference.value)
    assert harness.calls == []


def test_a_call_whose_arguments_vary_is_found_by_verify(harness: Harness) -> None:
    class Loose(Agent):
        @on
        def wanted(self, event: Where, ctx: Context) -> None:
            ctx.call(route, event, time.perf_counter(), reply=Route)

    loose = Harness(Loose)
    loose.send(Loose, "l-1", Where("north"))
    with pytest.raises(AssertionError, match=r"differs in \(open calls\)"):
        loose.verify()


def test_made_up_streams_answer_calls_and_fold_alike() -> None:
    fleet, limit = FleetModel("f", agents=[Drone]), TimeLimit(60.0)
    recording = generated_recording(fleet, 1, 200, limit)
    [inbox] = recording.inboxes
    origins = Counter(Frame.decode(each.frame).constant("origin") for each in inbox.stored())
    assert origins["reply"] > 20
    alone = Folding(fleet, recording, inbox, None, limit).alone()
    batches = Folding(fleet, recording, inbox, None, limit).in_batches(seed=3)
    assert alone.stopped == batches.stopped == ""
    assert alone.marks[-1] == batches.marks[-1]


def test_an_idempotent_handler_of_replies_is_tested_by_events() -> None:
    """A second reply would not be taken, so it proves nothing."""

    class Counting(Agent):
        legs: int = 0

        @on
        def wanted(self, event: Where, ctx: Context) -> None:
            ctx.call(route, event, reply=Route)

        @on(idempotent=True)
        def routed(self, event: Route, ctx: Context) -> None:
            self.legs += 1

    fleet, limit = FleetModel("f", agents=[Counting]), TimeLimit(60.0)
    recording = generated_recording(fleet, 1, 100, limit)
    doubling = Doubling(fleet, recording, recording.inboxes[0], limit)
    doubling.run()
    assert doubling.broken["Counting.routed"].difference.what == "legs"


def test_a_function_may_look_at_the_clock_and_a_handler_may_not() -> None:
    class Hasty(Agent):
        @on
        def wanted(self, event: Where, ctx: Context) -> None:
            route(event)

    assert read_fleet(FleetModel("f", agents=[Drone])) == ([], [])
    [finding], _ = read_fleet(FleetModel("f", agents=[Hasty]))
    assert "time.time" in finding.what
    assert "in route, which it calls" in finding.what
