"""Goal: a call is made with its event or not at all, and its reply is taken once or not at all."""

from __future__ import annotations

from enum import Enum
from types import FunctionType

import pytest

from holdfast import Agent, CallFailed, Context, Event, call, on
from holdfast.model.calls import CALLS_PER_AGENT_MAX
from holdfast.model.fleet import FleetModel
from holdfast.stepping.inputs import reply_frame
from tests.stepping.rig import Bench, codebook_of


class Mode(Enum):
    DAY = "day"
    NIGHT = "night"


class Ask(Event):
    words: list[str]


class Route(Event):
    legs: int


class Stray(Event):
    pass


@call(concurrency=2)
def route(where: str, call_id: str) -> Route:
    return Route(len(where))


def weather(where: str) -> Route:
    return Route(0)


TWINS = [FunctionType(weather.__code__.replace(co_qualname="route"), globals(), "route")]


class Memory(Agent):
    legs: int = 0
    failures: list[str] = []
    ids: list[str] = []

    @on
    def ask(self, event: Ask, ctx: Context) -> None:
        for word in event.words:
            if word == "fail":
                raise ValueError("as asked")
            if word == "misfit":
                self.legs = "many"  # type: ignore[assignment]
            elif word == "weather":
                self.ids.append(ctx.call(weather, word, reply=Route))
            elif word == "twin":
                ctx.call(TWINS[0], word, reply=Route)
            else:
                self.ids.append(ctx.call(route, word, reply=Route, timeout=5, retries=1))

    @on
    def routed(self, event: Route, ctx: Context) -> None:
        if event.legs < 0:
            raise ValueError("backwards")
        self.legs += event.legs

    @on
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.failures.append(event.reason)


class Plain(Memory):
    pass


class Pausing(Memory, on_error="pause"):
    pass


class Mortal(Memory, expire_after=10.0):
    pass


class Later(Agent, unhandled="defer"):
    """Takes routes only at night."""

    mode: Mode = Mode.DAY
    legs: int = 0

    @on
    def ask(self, event: Ask, ctx: Context) -> None:
        for word in event.words:
            ctx.call(route, word, reply=Route)
        self.mode = Mode.DAY if event.words else Mode.NIGHT

    @on(mode=Mode.NIGHT)
    def routed(self, event: Route, ctx: Context) -> None:
        self.legs += event.legs


FLEET = FleetModel("calling", agents=[Plain, Pausing, Mortal, Later], events=[Stray])


def made(agent: type[Agent] = Plain, *words: str) -> Bench:
    """An agent that has asked for these."""
    bench = Bench(FLEET, codebook_of(FLEET))
    bench.send([(agent, "a", Ask(list(words or ("north",))))], 1.0)
    return bench


def answer(bench: Bench, which: int, event: Event, stamp: float = 2.0) -> None:
    bench.inbox.reply(bench.calls[which], event, stamp)
    bench.fold()


def legs(bench: Bench, agent: type[Agent] = Plain) -> int:
    state = bench.state(agent, "a")
    assert isinstance(state, (Memory, Later))
    return state.legs


def test_a_call_says_all_that_running_it_takes() -> None:
    bench = made(Plain, "north", "weather")
    one, other = bench.calls
    assert one.id == "calling/Plain/a/1/call1"
    assert (one.number, one.agent, one.key, one.function) == (1, "Plain", "a", "route")
    assert (one.reply, one.timeout, one.retries, one.backoff) == ("Route", 5.0, 1, 1.0)
    assert (one.arguments, one.now) == (b"\x91\xa5north", 1.0)
    assert (other.number, other.id) == (2, "calling/Plain/a/1/call2")
    assert (other.function, other.timeout, other.retries) == ("weather", 30.0, 2)
    assert bench.stepper.head.calls_next == 3
    assert bench.open_calls(Plain, "a") == [one.id, other.id]
    assert bench.commits[0].size_bytes > len(one.arguments)


def test_a_call_takes_the_fast_path() -> None:
    bench = made(Plain, "north", "south")
    assert bench.stepper.tries == 0
    assert len(bench.calls) == 2


def test_ids_are_stable_however_the_event_is_folded() -> None:
    whole = made(Plain, "north", "south").calls
    alone = Bench(FLEET, codebook_of(FLEET))
    alone.inbox.put([(Plain, "a", Ask(["north", "south"]))], 1.0)
    commit = alone.stepper.step(alone.inbox.read(alone.codebook), None, alone=True)
    assert commit.calls == whole


def test_a_reply_is_taken_once() -> None:
    bench = made()
    answer(bench, 0, Route(3))
    assert (legs(bench), bench.closed) == (3, [bench.calls[0].id])
    assert bench.open_calls(Plain, "a") == []
    answer(bench, 0, Route(3), 3.0)
    answer(bench, 0, CallFailed(bench.calls[0].id, "route", "timeout", "late", 3), 4.0)
    assert (legs(bench), len(bench.closed)) == (3, 1)
    assert not bench.commits[-1].records, "what is dropped touches nobody"
    assert bench.letters == []
    assert bench.stepper.head.position == 4


def test_two_replies_in_one_batch_are_one() -> None:
    bench = made()
    bench.inbox.reply(bench.calls[0], Route(3), 2.0)
    bench.inbox.reply(bench.calls[0], Route(3), 2.0)
    bench.fold()
    assert (legs(bench), len(bench.closed)) == (3, 1)


def test_a_failure_is_a_reply_too() -> None:
    bench = made()
    answer(bench, 0, CallFailed(bench.calls[0].id, "route", "died", "gone", 3))
    state = bench.state(Plain, "a")
    assert isinstance(state, Plain)
    assert state.failures == ["died"]
    assert bench.open_calls(Plain, "a") == []


def test_a_reply_of_another_class_is_no_answer() -> None:
    bench = made()
    answer(bench, 0, Stray())
    assert bench.closed == []
    answer(bench, 0, Route(3), 3.0)
    assert legs(bench) == 3


@pytest.mark.parametrize("wrong", ["call", "function", "digest"])
def test_a_reply_to_something_else_is_no_answer(wrong: str) -> None:
    """An id of another past, say: the data was restored, and the agent went another way."""
    bench = made()
    answered = {"call": bench.calls[0].id, "function": "route", "digest": digest(bench)}
    answered[wrong] = "other"
    frame = reply_frame(
        "Plain",
        "a",
        answered["call"],
        answered["function"],
        answered["digest"],
        Route(3),
        bench.codebook,
    )
    bench.inbox._append(frame, 2.0)
    bench.fold()
    assert (legs(bench), bench.closed) == (0, [])
    assert len(bench.open_calls(Plain, "a")) == 1


def digest(bench: Bench) -> str:
    cell = bench.stepper.kinds["Plain"].cells["a"]
    return cell.calls()[bench.calls[0].id].digest


def test_a_reply_to_an_agent_that_never_was_makes_none() -> None:
    bench = made()
    bench.inbox.reply(bench.calls[0]._replace(key="b"), Route(3), 2.0)
    commit = bench.fold()
    assert bench.state(Plain, "b") is None
    assert not commit.records


@pytest.mark.parametrize("what", ["fail", "misfit", "twin"])
def test_a_failed_event_takes_its_calls_along(what: str) -> None:
    bench = made()
    bench.send([(Plain, "a", Ask(["south", what])), (Plain, "a", Ask(["east"]))], 2.0)
    [letter] = bench.letters
    assert what != "twin" or "calls two functions named route" in letter.error
    assert [one.id for one in bench.calls] == [
        "calling/Plain/a/1/call1",
        "calling/Plain/a/2/call1",
    ]
    assert b"east" in bench.calls[1].arguments
    assert bench.stepper.head.calls_next == 3
    assert bench.open_calls(Plain, "a") == [one.id for one in bench.calls]
    assert bench.reopened().stepper.head == bench.stepper.head


def test_a_reply_that_fails_is_a_dead_letter_and_closes_its_call() -> None:
    bench = made()
    answer(bench, 0, Route(-1))
    assert bench.closed == [bench.calls[0].id]
    assert [letter.error for letter in bench.letters] == ["ValueError: backwards"]
    assert bench.open_calls(Plain, "a") == []
    answer(bench, 0, Route(3), 3.0)
    assert legs(bench) == 0
    bench.inbox.command(Plain, "a", ["redrive", 1], 4.0)
    bench.fold()
    assert len(bench.letters) == 2, "redriven, it fails again"


def test_a_paused_agent_holds_a_reply_and_the_call_is_answered() -> None:
    bench = made()
    bench.inbox.command(Plain, "a", ["pause", "because"], 2.0)
    answer(bench, 0, Route(3), 3.0)
    answer(bench, 0, Route(3), 4.0)
    assert (legs(bench), bench.closed) == (0, [bench.calls[0].id])
    bench = bench.reopened()
    bench.inbox.command(Plain, "a", ["resume"], 5.0)
    bench.fold()
    assert legs(bench) == 3


def test_a_reply_that_pauses_its_agent_waits_and_fails_again() -> None:
    bench = made(Pausing)
    answer(bench, 0, Route(-1))
    bench.inbox.command(Pausing, "a", ["resume"], 3.0)
    bench.fold()
    assert bench.closed == [bench.calls[0].id]
    record = bench.records["Pausing", "a"]
    assert b"backwards" in record.extras
    assert bench.open_calls(Pausing, "a") == []


def test_a_deferred_reply_comes_later() -> None:
    bench = made(Later)
    answer(bench, 0, Route(3))
    answer(bench, 0, Route(3), 3.0)
    assert (legs(bench, Later), len(bench.closed)) == (0, 1)
    bench = bench.reopened()
    bench.send([(Later, "a", Ask([]))], 4.0)
    assert legs(bench, Later) == 3


def test_an_agent_with_open_calls_does_not_expire() -> None:
    bench = made(Mortal)
    bench.step([], 100.0)
    assert bench.state(Mortal, "a") is not None
    answer(bench, 0, Route(3), 101.0)
    assert legs(bench, Mortal) == 3
    bench.step([], 200.0)
    assert bench.state(Mortal, "a") is None
    answer(bench, 0, Route(3), 201.0)
    assert bench.state(Mortal, "a") is None, "a late reply brings nobody back"


def test_the_number_of_open_calls_is_bounded() -> None:
    bench = made(Plain, *["north"] * CALLS_PER_AGENT_MAX)
    bench.send([(Plain, "a", Ask(["one more"]))], 2.0)
    assert len(bench.calls) == CALLS_PER_AGENT_MAX
    [letter] = bench.letters
    assert letter.error.startswith("UsageError: Plain/a has 1,000 open calls, the bound")
    answer(bench, 7, Route(1), 3.0)
    bench.send([(Plain, "a", Ask(["now"]))], 4.0)
    assert len(bench.calls) == CALLS_PER_AGENT_MAX + 1


def test_open_calls_outlive_a_restart() -> None:
    bench = made(Plain, "north", "south").reopened()
    assert bench.stepper.head.calls_next == 3
    answer(bench, 1, Route(4))
    bench = bench.reopened()
    answer(bench, 1, Route(4), 3.0)
    answer(bench, 0, Route(3), 4.0)
    assert (legs(bench), len(bench.closed)) == (7, 2)
    bench.send([(Plain, "a", Ask(["east"]))], 5.0)
    assert bench.calls[-1].number == 3


def test_ten_thousand_open_calls_do_not_touch_the_fold() -> None:
    """Counted, not timed: who makes no call and gets no reply is packed without any, and an event
    writes its own agent only."""
    bench = Bench(FLEET, codebook_of(FLEET))
    bench.send([(Plain, f"k-{n}", Ask(["north"] * 10)) for n in range(1_000)], 1.0)
    assert len(bench.calls) == 10_000
    tries = bench.stepper.tries
    commit = bench.send([(Plain, "quiet", Route(1)), (Plain, "k-1", Route(1))], 2.0)
    assert bench.stepper.tries == tries, "on the fast path"
    assert {record.key for record in commit.records} == {"quiet", "k-1"}
    assert next(r for r in commit.records if r.key == "quiet").extras == b""
    answer(bench, 5_000, Route(1), 3.0)
    assert [record.key for record in bench.commits[-1].records] == ["k-500"]
