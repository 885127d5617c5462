"""Goal: `ask` brings back what the handler replied, or says why nothing came: silence, a failure,
or no answer in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from holdfast import Agent, AskFailed, Context, Event, Fleet, Live, TimedOut, UsageError, on
from tests.runtime.semantics import ENGINES, engine_url, until


class Mode(Enum):
    SHUT = "shut"
    OPEN = "open"


class Add(Event):
    number: int


class Total(Event):
    value: int
    parts: list[int] = []


class Stay(Event):
    """Handled without a reply."""


class Break(Event):
    pass


class Wrong(Event):
    pass


class Twice(Event):
    pass


class Knock(Event):
    """Taken when open only; deferred until then."""


class Open(Event):
    pass


class Door(Agent, unhandled="defer"):
    mode: Mode = Mode.SHUT
    total: int = 0
    parts: list[int] = []
    asked: int = 0

    @on
    def add(self, event: Add, ctx: Context) -> None:
        self.parts.append(event.number)
        self.total += event.number
        ctx.reply(Total(self.total, self.parts))

    @on
    def stay(self, event: Stay, ctx: Context) -> None:
        self.asked += 1

    @on
    def breaks(self, event: Break, ctx: Context) -> None:
        ctx.reply(Total(1))
        raise RuntimeError("broken")

    @on
    def wrong(self, event: Wrong, ctx: Context) -> None:
        ctx.reply(Total("many"))  # type: ignore[arg-type]

    @on
    def twice(self, event: Twice, ctx: Context) -> None:
        ctx.reply(Total(1))
        ctx.reply(Total(2))

    @on(mode=Mode.OPEN)
    def knock(self, event: Knock, ctx: Context) -> None:
        ctx.reply(Total(self.total))

    @on
    def open(self, event: Open, ctx: Context) -> None:
        self.mode = Mode.OPEN


fleet = Fleet("doors", agents=[Door])


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path), partitions=2) as made:
        yield made


def test_the_reply_comes_back(live: Live) -> None:
    assert live.ask(Door, "d-1", Add(3)) == Total(3, [3])
    assert live.ask(Door, "d-1", Add(4)) == Total(7, [3, 4])
    assert live.ask(Door, "d-2", Add(1)) == Total(1, [1])


def test_the_first_of_two_replies_counts(live: Live) -> None:
    assert live.ask(Door, "d-1", Twice()) == Total(1)


def test_silence_is_told_at_once(live: Live) -> None:
    with pytest.raises(AskFailed, match="Door/d-1: no handler replied to Stay: call ctx"):
        live.ask(Door, "d-1", Stay(), timeout=30.0)
    state = live.state(Door, "d-1")
    assert state is not None
    assert state.asked == 1


def test_a_failure_is_told_and_buried(live: Live) -> None:
    with pytest.raises(AskFailed, match="RuntimeError: broken"):
        live.ask(Door, "d-1", Break(), timeout=30.0)
    with pytest.raises(AskFailed, match="field 'value' cannot be 'many'"):
        live.ask(Door, "d-1", Wrong(), timeout=30.0)
    assert [letter.event for letter in live.dead_letters()] == [Break(), Wrong()]


def test_a_redriven_ask_answers_nobody_and_fails_nobody(live: Live) -> None:
    with pytest.raises(AskFailed):
        live.ask(Door, "d-1", Break())
    [letter] = live.dead_letters()
    live.redrive(letter.id)
    live.settle()
    assert len(live.dead_letters()) == 2


def test_a_deferred_ask_is_answered_when_the_mode_takes_it(live: Live) -> None:
    replies: list[Event] = []
    asking = threading.Thread(
        target=lambda: replies.append(live.ask(Door, "d-1", Knock(), timeout=30.0))
    )
    live.ask(Door, "d-1", Add(5))
    before = sum(progress.folded for progress in live.positions().values())
    asking.start()
    until(
        lambda: sum(p.folded for p in live.positions().values()) == before + 1, "the knock is held"
    )
    assert replies == []
    live.send(Door, "d-1", Open())
    asking.join(30.0)
    assert replies == [Total(5)]


def test_an_ask_nobody_answers_in_time_ends(live: Live) -> None:
    with pytest.raises(TimedOut, match=r"Door/d-1 did not answer within \d+\.\d s"):
        live.ask(Door, "d-1", Knock(), timeout=0.2)
    assert live.dead_letters() == []


def test_many_asks_at_once_get_their_own_replies(live: Live) -> None:
    replies: dict[int, Event] = {}

    def ask(number: int) -> None:
        replies[number] = live.ask(Door, f"d-{number}", Add(number), timeout=60.0)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert replies == {n: Total(n, [n]) for n in range(16)}


def test_a_wrong_ask_is_refused_before_it_is_sent(live: Live) -> None:
    with pytest.raises(UsageError, match="'number'"):
        live.ask(Door, "d-1", Add("three"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be a key"):
        live.ask(Door, "", Add(1))
    assert all(progress.inbox == 0 for progress in live.positions().values())
