"""Goal: a handle does what was asked, once, and refuses what it can no longer do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import (
    Agent,
    AskFailed,
    Backlog,
    Busy,
    Context,
    Event,
    Fleet,
    TimedOut,
    TooManySources,
    UsageError,
    on,
)
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import APPEND_SECONDS, Parcel, Taken
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.keys import Layout
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.live import Live
from holdfast.testing.conformance.workbench import FLEET, append, inbox, numbered


class Tick(Event):
    pass


class Note(Event):
    text: str = ""


class Clock(Agent):
    ticks: int = 0
    height: float = 0.0
    first: list[str] = []
    second: list[str] = []

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1

    @on
    def note(self, event: Note, ctx: Context) -> None:
        self.height = 5
        if self.first is self.second:
            ctx.log.error("two fields, one list")
        self.first = self.second = [*self.first, event.text]


class Stranger(Agent):
    @on
    def tick(self, event: Tick, ctx: Context) -> None: ...


fleet = Fleet("clocks", agents=[Clock])


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'data'}"


def test_a_closed_handle_refuses(url: str) -> None:
    with fleet.open(url) as live:
        live.send(Clock, "c-1", Tick())
    with pytest.raises(UsageError, match="closed"):
        live.send(Clock, "c-1", Tick())
    with pytest.raises(UsageError, match="closed"):
        live.state(Clock, "c-1")


def test_repeats_are_counted_in_the_receipt(url: str) -> None:
    with fleet.open(url) as live:
        assert live.send(Clock, "c-1", Tick(), source="radio", seq=1).repeats == 0
        assert live.send(Clock, "c-1", Tick(), source="radio", seq=1).repeats == 1
        rows = [(Clock, "c-1", Tick()), (Clock, "c-1", Tick())]
        assert live.send_many(rows, source="radio", first_seq=1).repeats == 1


def test_a_class_outside_the_fleet_is_refused_when_read(url: str) -> None:
    with fleet.open(url) as live:
        for read in (live.state, live.history):
            with pytest.raises(UsageError, match="Stranger is no agent"):
                read(Stranger, "c-1")
        with pytest.raises(UsageError, match="Stranger is no agent"):
            list(live.states(Stranger))


def test_memory_is_what_was_stored(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the next event would see other values than after a restart."""
    with fleet.open("memory:") as live:
        for text in ("a", "b"):
            live.wait_for(live.send(Clock, "c-1", Note(text)))
        state = live.state(Clock, "c-1")
        assert (repr(state.height), state.first, state.second) == ("5.0", ["a", "b"], ["a", "b"])
    assert "two fields, one list" not in caplog.text


class Refusing(MemoryEngine):
    """Refuses one partition, as a backlog does."""

    refused: int | None = None

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        if partition == self.refused:
            return [Backlog("full") for _ in parcels]
        return super().append(partition, parcels, wait_seconds)


class Full(MemoryEngine):
    """One partition has as many sources as it may, until somebody sees to it."""

    refused: int | None = None

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        if partition == self.refused:
            return [TooManySources("full") for _ in parcels]
        return super().append(partition, parcels, wait_seconds)


class Unheard(MemoryEngine):
    """Takes what it is given, and the first answer is lost on the way."""

    heard = False

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        results = super().append(partition, parcels, wait_seconds)
        if not self.heard:
            self.heard = True
            raise Busy("nobody answered in time")
        return results


def test_a_question_asked_again_is_another_one() -> None:
    engine = Unheard("clocks", 1)
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        question = Tick()
        with pytest.raises(TimedOut, match="ask again"):
            live.ask(Clock, "c-1", question)
        with pytest.raises(AskFailed, match="no handler replied"):
            live.ask(Clock, "c-1", question)


def test_equal_ticks_are_two_ticks_and_the_same_tick_is_one() -> None:
    """After a send that failed half-way only the very same events are a retry."""
    engine = Refusing("clocks", 2)
    layout = Layout.even(2)
    keys = [next(f"c-{i}" for i in range(99) if layout.partition_of(f"c-{i}") == n) for n in (0, 1)]
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        rows = [(Clock, key, Tick()) for key in keys]
        engine.refused = 1
        with pytest.raises(Backlog):
            live.send_many(rows, timeout=0.0)
        engine.refused = None
        live.send_many([(Clock, key, Tick()) for key in keys])
        live.settle()
        assert [live.state(Clock, key).ticks for key in keys] == [2, 1], "new ticks"
        live.send_many(rows)
        live.settle()
        assert [live.state(Clock, key).ticks for key in keys] == [2, 2], "the rest of the retry"


def test_what_one_partition_has_refused_for_good_may_be_sent_again() -> None:
    """The other one has its part, and takes it once."""
    engine = Full("clocks", 2)
    layout = Layout.even(2)
    keys = [next(f"c-{i}" for i in range(99) if layout.partition_of(f"c-{i}") == n) for n in (0, 1)]
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        rows = [(Clock, key, Tick()) for key in keys]
        engine.refused = 1
        with pytest.raises(TooManySources):
            live.send_many(rows)
        engine.refused = None
        assert live.send_many(rows).repeats == 1
        live.settle()
        assert [live.state(Clock, key).ticks for key in keys] == [1, 1]


@pytest.mark.parametrize(
    "rows", [[Tick()], [5], [()], [(Clock, "c-1", 5)], [(Clock, "no key", Tick())]]
)
def test_rows_that_are_none_are_refused_and_forgotten(rows: list[object]) -> None:
    """Nothing of them was stored, so no later send is held against them."""
    engine = MemoryEngine("clocks", 1)
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        with pytest.raises(UsageError):
            live.send_many(rows)  # type: ignore[arg-type]
        live.send(Clock, "c-1", Tick())
        live.send_many([(Clock, "c-1", Tick())])
        live.settle()
        assert live.state(Clock, "c-1").ticks == 2


def test_dedupe_rows_do_not_make_segments(tmp_path: Path) -> None:
    """A segment begins with all dedupe rows: it must not count as full because of them."""
    from holdfast.engine.port import Limits

    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data", Limits(segment_bytes=300_000))
    for source in range(60):
        append(engine, numbered(f"source-{source}", list(range(0, 40_000, 2_000))))
    before = len(list((tmp_path / "data").rglob("*.seg")))
    for number in range(5):
        append(engine, numbered("last", [number]))
    assert len(list((tmp_path / "data").rglob("*.seg"))) <= before + 2
    assert len(inbox(engine)) == 60 * 20 + 5
    engine.close()
