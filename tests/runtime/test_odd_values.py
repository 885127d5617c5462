"""Goal: values that look right and cannot be stored as they are do not stop a partition."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy
import pytest

from holdfast import Agent, Context, Event, Fleet, UsageError, Width, on
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.worker import Worker
from holdfast.stepping import stepper as stepper_module
from holdfast.stepping.cell import Cell
from tests.runtime.semantics import opened


class Tick(Event):
    how: str = ""


class Silent(Event):
    pass


class Name(str):
    __slots__ = ()


class Known(StrEnum):
    A = "a"


def odd(name: str) -> str:
    made = {"subclass": Name("a"), "numpy": numpy.str_("a"), "member": Known.A, "bad": "\ud800"}
    return ["a"] if name == "list" else made[name]  # type: ignore[return-value]


class Bot(Agent):
    ticks: int = 0
    silences: int = 0
    short: Annotated[str, Width(4)] = ""

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1
        how, _, what = event.how.partition(" ")
        if how == "seconds":
            kind: Callable[[int], float] = getattr(numpy, what)
            ctx.after(kind(30), Silent(), name="w")
        elif how == "name":
            ctx.after(30, Silent(), name=odd(what))
        elif how == "key":
            ctx.send(Bot, odd(what), Silent())
        self.short = what if how == "text" else ""

    @on
    def silent(self, event: Silent, ctx: Context) -> None:
        self.silences += 1


fleet = Fleet("odd", agents=[Bot])


@pytest.mark.parametrize(
    "how",
    [
        *("seconds float64", "seconds float32", "seconds int8"),
        *("name subclass", "name numpy", "name member"),
        *("key subclass", "key numpy", "key member"),
    ],
)
def test_other_numbers_and_texts_become_plain_ones(how: str, tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        for _ in range(2):
            world.live.send(Bot, "k", Tick(how))
            world.run()
            world.pass_time(10.0)
        world.pass_time(19.0)
        early = world.live.state(Bot, "k")
        assert early is not None
        assert (early.ticks, early.silences) == (2, 0)
        world.pass_time(2.0)
        silences = [state.silences for _, state in world.live.states(Bot)]
        assert sum(silences) == (2 if how.startswith("key") else 1)
        assert not world.live.dead_letters()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("text longer", "(4 is the most): widen the field, or cut the value"),
        ("name bad", "is no text that can be stored"),
        ("name list", "give a string of at most 128 characters"),
        ("key list", "it is of type list; give a string"),
    ],
)
def test_what_is_no_text_is_a_dead_letter(how: str, says: str, tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        for each in ("", how, ""):
            world.live.send(Bot, "k", Tick(each))
            world.run()
        state = world.live.state(Bot, "k")
        assert state is not None
        assert state.ticks == 2
        [letter] = world.live.dead_letters()
        assert says in letter.error


def test_sends_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        live = world.live
        tries: list[tuple[Callable[[], object], str]] = [
            (lambda: live.send(None, "k", Tick()), "None is no agent of fleet"),  # type: ignore[arg-type]
            (lambda: live.ask(None, "k", Tick()), "None is no agent of fleet"),  # type: ignore[arg-type]
            (lambda: live.send_many(None), "write list"),  # type: ignore[arg-type]
            (lambda: live.send_many(zip([Bot], ["k"], [Tick()])), "write list"),  # type: ignore[arg-type]  # noqa: B905
            (lambda: live.send_many([([], "k", Tick())]), "rows of"),  # type: ignore[list-item]
            (lambda: live.send_many([(Bot, "k")]), "rows of"),  # type: ignore[list-item]
            (lambda: live.send(Bot, "k", Tick(), source=5, seq=1), "give a string"),  # type: ignore[arg-type]
            (lambda: live.send(Bot, "k", Tick(), event_time=10**400), "event_time cannot be"),
        ]
        for wrong, says in tries:
            with pytest.raises(UsageError, match=says) as refused:
                wrong()
            assert "\n" not in str(refused.value)
        world.run()
        assert live.positions()[0].inbox == 0


def test_an_event_whose_commit_cannot_be_made_counts_as_one_that_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: after some starts it is a dead letter, and the others go on."""

    def spoiled(cells: list[Cell], *more: object) -> object:
        if any(cell.key == "bad" for cell in cells):
            raise TypeError("not to be encoded")
        return records_of(cells, *more)

    records_of: Callable[..., object] = vars(stepper_module)["records_of"]
    monkeypatch.setattr(stepper_module, "records_of", spoiled)
    SqliteEngine.create(tmp_path / "data", "odd", 1)
    with fleet.connect(f"sqlite:{tmp_path / 'data'}") as live:
        live.send_many([(Bot, key, Tick()) for key in ("a", "bad", "b")])
        deaths, engines = 0, []
        while live.positions()[0].lag:
            engines.append(SqliteEngine(tmp_path / "data"))
            worker = Worker(fleet, engines[-1], [0])
            try:
                while worker.tick():
                    pass
            except TypeError:  # the process ends, without closing anything
                deaths += 1
                assert deaths < 10
        assert deaths > 0
        assert [(key, state.ticks) for key, state in live.states(Bot)] == [("a", 1), ("b", 1)]
        assert [letter.key for letter in live.dead_letters()] == ["bad"]
        for engine in engines:
            engine.close()
