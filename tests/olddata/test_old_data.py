"""Goal: a directory that older classes wrote opens under newer ones, with nothing lost.

`written/` was made by first_classes.py and is checked in. The classes here have changed since: a
field was added, one was renamed, one was widened, and an event lost a field through an upcast.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, Live, SchemaError, on
from holdfast.engine.urls import open_engine
from holdfast.runtime.rescaling import rescale
from tests.olddata.first_classes import WRITTEN


class Mode(Enum):
    IDLE = "idle"
    BUSY = "busy"
    STOPPED = "stopped"


class Work(Event):
    amount: float
    urgent: bool = False


class Finish(Event):
    pass


class Broken(Event):
    why: str

    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        return {"why": old.get("reason", old.get("why"))}


class Report(Action):
    total: float


class Robot(Agent):
    mode: Mode = Mode.IDLE
    total: float = 0.0
    log: list[str] = []
    repaired: int = 0

    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        if "done" in old:
            old["total"] = float(str(old.pop("done")))
        return old

    @on
    def work(self, event: Work, ctx: Context) -> None:
        self.mode = Mode.BUSY
        self.total += event.amount
        self.log.append(f"work {event.amount}")
        ctx.emit(Report(total=self.total))

    @on
    def finish(self, event: Finish, ctx: Context) -> None:
        self.mode = Mode.IDLE

    @on
    def broken(self, event: Broken, ctx: Context) -> None:
        self.repaired += 1


fleet = Fleet("factory", agents=[Robot])
FIRST_TOTALS = {f"r-{n}": float(sum(range(n, 20, 4))) for n in range(4)}


@pytest.fixture
def url(tmp_path: Path) -> str:
    shutil.copytree(WRITTEN, tmp_path / "data")
    # Retention would begin to unlink what was written long ago while we read it.
    return f"sqlite:{tmp_path / 'data'}?retain_seconds=1e12"


@pytest.fixture
def live(url: str) -> Iterator[Live]:
    with fleet.open(url) as opened:
        yield opened


def test_states_are_there_under_their_new_names(live: Live) -> None:
    assert {key: robot.total for key, robot in live.states(Robot)} == FIRST_TOTALS
    robot = live.state(Robot, "r-1")
    assert (robot.mode, robot.repaired, robot.log[0]) == (Mode.BUSY, 0, "work 1")


def test_history_actions_and_letters_are_read_by_the_new_classes(live: Live) -> None:
    amounts = [e.event.amount for e in live.history(Robot, "r-2") if isinstance(e.event, Work)]
    assert amounts == [2.0, 6.0, 10.0, 14.0, 18.0]
    assert len(live.actions()) == 20
    assert {type(action.action) for action in live.actions()} == {Report}
    assert [letter.event for letter in live.dead_letters()] == [Broken(why="a jam")]


def test_it_goes_on_from_there(live: Live) -> None:
    # The old numbers are still known, the new ones are folded, the letter can be redriven.
    live.send(Robot, "r-0", Work(amount=0.0), source="plan", seq=1)
    live.send(Robot, "r-0", Work(amount=0.5), source="plan", seq=22)
    live.redrive(live.dead_letters()[0].id)
    live.settle()
    robot = live.state(Robot, "r-0")
    assert (robot.total, robot.repaired) == (FIRST_TOTALS["r-0"] + 0.5, 1)


def test_commits_of_then_have_no_note_and_those_of_now_have(url: str) -> None:
    engine = open_engine(url, "factory")
    before = {n: engine.view(n).head().commits for n in (0, 1)}
    assert [engine.view(n).commits(0, 10) for n in (0, 1)] == [[], []]
    engine.close()
    with fleet.open(url) as live:
        test_it_goes_on_from_there(live)
    engine = open_engine(url, "factory")
    for number, last in before.items():
        view = engine.view(number)
        noted = [note.number for note in view.commits(0, 100)]
        assert noted == list(range(last + 1, view.head().commits + 1))
    engine.close()


def test_it_can_be_rescaled(url: str) -> None:
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        test_states_are_there_under_their_new_names(live)
        test_history_actions_and_letters_are_read_by_the_new_classes(live)
        test_it_goes_on_from_there(live)


def test_a_class_that_would_lose_a_field_is_refused_by_name(url: str) -> None:
    def forgetful() -> Fleet:
        class Robot(Agent):
            mode: Mode = Mode.IDLE
            log: list[str] = []

            @on
            def work(self, event: Work, ctx: Context) -> None: ...

        return Fleet("factory", agents=[Robot])

    with pytest.raises(SchemaError, match=r"(?s)Robot.*done.*upcast"):
        forgetful().open(url)
