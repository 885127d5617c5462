"""Goal: whatever is wrong with a send is said at the send, in one line that names it, and nothing
of it reaches the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, Live, UsageError, on
from holdfast.errors import OutOfOrder
from holdfast.runtime.sending import EVENTS_PER_SEND_MAX
from holdfast.stepping.codebook import EVENT_BYTES_MAX
from tests.runtime.semantics import ENGINES, engine_url


class Move(Event):
    x: float
    label: str = ""
    path: list[int] = []


class Unused(Event):
    """An event of nobody."""


class Stop(Action):
    pass


class Cart(Agent):
    moves: int = 0
    x: float = 0.0
    claimed: float = 0.0

    @on
    def move(self, event: Move, ctx: Context) -> None:
        self.moves += 1
        self.x = event.x
        self.claimed = ctx.event_time


class Wagon(Agent):
    """Of another fleet."""

    moves: int = 0

    @on
    def move(self, event: Move, ctx: Context) -> None:
        self.moves += 1


fleet = Fleet("carts", agents=[Cart])
MOVE = Move(1.0)

MISTAKES: dict[str, tuple[Callable[[Live], object], str]] = {
    "an agent of another fleet": (
        lambda live: live.send(Wagon, "c-1", MOVE),
        "Wagon is no agent of fleet 'carts': it has Cart",
    ),
    "a name instead of a class": (
        lambda live: live.send("Cart", "c-1", MOVE),  # type: ignore[arg-type]
        "'Cart' is no agent of fleet 'carts'",
    ),
    "an event of nobody": (
        lambda live: live.send(Cart, "c-1", Unused()),
        "no agent of this fleet handles Unused: it has Move",
    ),
    "an action": (
        lambda live: live.send(Cart, "c-1", Stop()),  # type: ignore[arg-type]
        r"Stop\(\) is no Event",
    ),
    "a class instead of an event": (
        lambda live: live.send(Cart, "c-1", Move),  # type: ignore[arg-type]
        "is no Event: send an instance",
    ),
    "a wrong type": (
        lambda live: live.send(Cart, "c-1", Move("east")),  # type: ignore[arg-type]
        "Move: field 'x' cannot be 'east'",
    ),
    "a wrong type in a list": (
        lambda live: live.send(Cart, "c-1", Move(1.0, "", [1, "two"])),  # type: ignore[list-item]
        "Move: field 'path' cannot be",
    ),
    "a wrong type among many": (
        lambda live: live.send_many([(Cart, "c-1", MOVE), (Cart, "c-2", Move(None))]),  # type: ignore[arg-type]
        "Move: field 'x' cannot be None",
    ),
    "half a character": (
        lambda live: live.send(Cart, "c-1", Move(1.0, "\ud83d")),
        "Move: field 'label' cannot be",
    ),
    "an empty key": (lambda live: live.send(Cart, "", MOVE), "it is empty"),
    "a key with a slash": (lambda live: live.send(Cart, "a/b", MOVE), "it contains '/'"),
    "a key that begins wrong": (lambda live: live.send(Cart, "-a", MOVE), "it begins with '-'"),
    "a key too long": (lambda live: live.send(Cart, "k" * 129, MOVE), "it has 129 characters"),
    "a key that is a number": (
        lambda live: live.send(Cart, 5, MOVE),  # type: ignore[arg-type]
        "it is of type int",
    ),
    "a key that is a list": (
        lambda live: live.send(Cart, ["c-1"], MOVE),  # type: ignore[arg-type]
        "it is of type list",
    ),
    "a wrong key among many": (
        lambda live: live.send_many([(Cart, "c-1", MOVE), (Cart, "c 2", MOVE)]),
        "it contains ' '",
    ),
    "an event too large": (
        lambda live: live.send(Cart, "c-1", Move(1.0, "x" * (EVENT_BYTES_MAX + 1))),
        "exceeds the bound of 1,048,576: store large data elsewhere",
    ),
    "one too large among many": (
        lambda live: live.send_many(
            [(Cart, "c-1", MOVE), (Cart, "c-1", Move(1.0, "x" * EVENT_BYTES_MAX))]
        ),
        "exceeds the bound",
    ),
    "too many events": (
        lambda live: live.send_many([(Cart, "c-1", MOVE)] * (EVENTS_PER_SEND_MAX + 1)),
        f"send at most {EVENTS_PER_SEND_MAX:,} at once",
    ),
    "too many bytes": (
        lambda live: live.send_many([(Cart, "c-1", Move(1.0, "x" * 1_000_000))] * 70),
        "send fewer at once",
    ),
    "rows that are none": (
        lambda live: live.send_many([(Cart, "c-1")]),  # type: ignore[list-item]
        r"rows of \(Agent, key, event\)",
    ),
    "a source without a number": (
        lambda live: live.send(Cart, "c-1", MOVE, source="gcs"),
        "source 'gcs' without a sequence number",
    ),
    "a number without a source": (
        lambda live: live.send(Cart, "c-1", MOVE, seq=1),
        "a sequence number without a source",
    ),
    "a reserved source": (
        lambda live: live.send(Cart, "c-1", MOVE, source="~mine", seq=1),
        "do not start with ~",
    ),
    "an empty source": (
        lambda live: live.send(Cart, "c-1", MOVE, source="", seq=1),
        "1 to 128 printable characters",
    ),
    "a negative number": (
        lambda live: live.send(Cart, "c-1", MOVE, source="gcs", seq=-1),
        "a sequence number cannot be -1",
    ),
    "a number past the bound": (
        lambda live: live.send(Cart, "c-1", MOVE, source="gcs", seq=2**70),
        "a sequence number cannot be 1180591620717411303424",
    ),
    "a number that is none": (
        lambda live: live.send_many([(Cart, "c-1", MOVE)], source="gcs", first_seq="x"),  # type: ignore[arg-type]
        "a sequence number cannot be 'x'",
    ),
    "numbers of which the last is past the bound": (
        lambda live: live.send_many(
            [(Cart, f"c-{i}", MOVE) for i in range(9)], source="gcs", first_seq=2**62 - 3
        ),
        "a sequence number cannot be 4611686018427387909",
    ),
    "a time that is none": (
        lambda live: live.send(Cart, "c-1", MOVE, event_time=float("nan")),
        "event_time cannot be nan",
    ),
    "an ask of a wrong type": (
        lambda live: live.ask(Cart, "c-1", Move("east")),  # type: ignore[arg-type]
        "Move: field 'x' cannot be 'east'",
    ),
}


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path), partitions=2) as made:
        yield made


@pytest.mark.parametrize("engine", ENGINES)
def test_every_mistake_is_named_and_nothing_of_it_is_stored(engine: str, tmp_path: Path) -> None:
    with fleet.open(engine_url(engine, tmp_path), partitions=2) as live:
        for what, (mistake, message) in MISTAKES.items():
            with pytest.raises(UsageError, match=message) as caught:
                mistake(live)
            assert len(str(caught.value)) < 400, what
            assert "\n" not in str(caught.value), what
            inboxes = [progress.inbox for progress in live.positions().values()]
            assert inboxes == [0, 0], what
        live.send(Cart, "c-1", MOVE)
        live.settle()
        state = live.state(Cart, "c-1")
        assert state is not None
        assert state.moves == 1


def test_nothing_sent_is_nothing_received(live: Live) -> None:
    receipt = live.send_many([])
    live.wait_for(receipt)
    assert [progress.inbox for progress in live.positions().values()] == [0, 0]


def test_a_whole_number_is_a_float_too(live: Live) -> None:
    receipt = live.send(Cart, "c-1", Move(3), event_time=7)
    state = live.state(Cart, "c-1", after=receipt)
    assert state is not None
    assert (state.x, state.claimed) == (3.0, 7.0)
    assert (type(state.x), type(state.claimed)) == (float, float)


def test_a_resend_is_no_second_event(live: Live) -> None:
    for _ in range(3):
        live.send(Cart, "c-1", MOVE, source="gcs", seq=1)
    live.send_many([(Cart, "c-1", MOVE)] * 3, source="gcs", first_seq=1)
    live.settle()
    state = live.state(Cart, "c-1")
    assert state is not None
    assert state.moves == 3


def test_an_ordered_source_is_told_of_its_gap(live: Live) -> None:
    live.send(Cart, "c-1", MOVE, source="gcs", seq=1, previous=0)
    with pytest.raises(OutOfOrder, match="send what comes after 1"):
        live.send(Cart, "c-1", MOVE, source="gcs", seq=3, previous=2)
    live.send(Cart, "c-1", MOVE, source="gcs", seq=2, previous=1)
    live.settle()
    state = live.state(Cart, "c-1")
    assert state is not None
    assert state.moves == 2
