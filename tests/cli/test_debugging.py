"""Goal: `holdfast debug` runs one recorded event again in the state it met, under pdb, and the
history before it, timers and commands among it, is folded to what was committed."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.engine.urls import open_engine
from holdfast.runtime.agentlog import Rang
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.rescaling import rescale
from holdfast.testing.pictures import Painter, Picture, difference
from holdfast.testing.rerunning import Rerun
from tests.cli.commands import eventually, holdfast, holdfast_here, json_lines, refused
from tests.cli.fleets import DELIVERY
from tests.runtime.semantics import opened

FILL = """
import sys
sys.path.insert(0, ".")
from fleet import *
with fleet.open("sqlite:./data") as live:
    live.send(Drone, "d-1", Position(lat=1.0, lon=2.0, alt=3.0))
    live.send(Drone, "d-1", Battery(percent=50.0))
    live.send(Drone, "d-2", Battery(percent=1.0))
    live.send(Drone, "d-1", Calibrate(factor=0.0))
    live.settle()  # a pause overtakes what waits
    live.pause(Drone, "d-1")
    live.resume(Drone, "d-1")
    live.send(Drone, "d-1", Battery(percent=9.0))
    live.settle()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debug")
    (folder / "fleet.py").write_text(DELIVERY)
    subprocess.run([sys.executable, "-c", FILL], cwd=folder, check=True, timeout=300)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = [each for each in folder.rglob("*") if each.is_file() and "-shm" not in each.name]
    return {str(each): each.read_bytes() for each in files}


def test_the_history_is_numbered(place: Path) -> None:
    lines = holdfast_here("history", "Drone/d-1", "--data", "data", cwd=place).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3", "4", "5", "6"]
    last = holdfast_here(
        "history", "Drone/d-1", "--limit", 1, "--json", "--data", "data", cwd=place
    )
    (entry,) = json_lines(last.stdout)
    assert (entry["number"], entry["type"]) == (6, "Battery")


def test_an_event_is_run_again_under_pdb(place: Path) -> None:
    before = contents(place / "data")
    commands = "p self.battery\nn\np self\np ctx.now > 0\nc\n"
    words = ("debug", "Drone/d-1", "--at-event", 6, "--data", "data")
    shown = holdfast(*words, cwd=place, given=commands).stdout
    lines = shown.splitlines()
    assert lines[0] == "Drone/d-1 before"
    assert "event 6: Battery(percent=9.0)" in lines
    line = 1 + DELIVERY.splitlines().index("    @on(mode=Mode.FLYING)")
    assert f"handler: Drone.drained, fleet.py:{line + 1}" in lines
    assert f"fleet.py({line + 2})drained()" in shown, "it stops at the first line of the handler"
    assert "(Pdb) 50.0" in shown
    assert "battery=9.0" in shown
    assert "(Pdb) True" in shown
    after = shown[shown.index("Drone/d-1 after") :]
    assert "mode       landing" in after
    assert "action: Land\n" in after
    assert after.endswith("this is the last event, and the state equals the committed one\n")
    assert contents(place / "data") == before, "nothing is written"


def test_the_first_event_meets_the_defaults(place: Path) -> None:
    words = ("debug", "Drone/d-1", "--at-event", 1, "--data", "data")
    shown = holdfast_here(*words, cwd=place, given="c\n").stdout
    assert shown.startswith("Drone/d-1 before (not there yet: its defaults)\n")
    assert "committed" not in shown


def test_an_event_that_failed_fails_again(place: Path) -> None:
    words = ("debug", "Drone/d-1", "--at-event", 3, "--data", "data")
    shown = holdfast_here(*words, cwd=place, given="c\nc\n").stdout
    assert "the event failed and was undone: ZeroDivisionError" in shown


@pytest.mark.parametrize("commands", ["q\n", "n\n", ""])
def test_leaving_the_debugger_changes_nothing(place: Path, commands: str) -> None:
    words = ("debug", "Drone/d-1", "--at-event", 6, "--data", "data")
    shown = holdfast_here(*words, cwd=place, given=commands).stdout
    assert shown.endswith("left before the end: nothing was written\n")


def test_other_code_is_compared_with_what_was_committed(place: Path) -> None:
    (place / "changed.py").write_text(DELIVERY.replace("event.percent < 15.0", "event.percent < 5"))
    words = ("debug", "Drone/d-1", "--at-event", 6, "--data", "data", "--fleet", "changed.py")
    shown = holdfast_here(*words, cwd=place, given="c\n").stdout
    assert "this is the last event, and mode differs: flying here, landing committed" in shown


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["Drone/d-1", "--at-event", "7"], ["has no event 7", "history Drone/d-1` has 1 to 6"]),
        (["Drone/d-1", "--at-event", "0"], ["has no event 0"]),
        (["Drone/d-1", "--at-event", "4"], ["4 of Drone/d-1 is a command or an expiry"]),
        (["Drone/d-9", "--at-event", "1"], ["Drone/d-9 has no history here"]),
        (["Plane/d-1", "--at-event", "1"], ["has no agent Plane", "it has Drone"]),
        (["Drone", "--at-event", "1"], ["names no agent"]),
        (["Drone/no key", "--at-event", "1"], ["cannot be a key"]),
        (["Drone/d-1"], ["Missing option '--at-event'"]),
        (["Drone/d-1", "--at-event", "1", "--fleet", "gone.py"], ["gone.py: no such file"]),
    ],
)
def test_wrong_commands_are_refused(place: Path, words: list[str], parts: list[str]) -> None:
    refused(holdfast_here("debug", *words, "--data", "data", cwd=place, code=2), *parts)


def test_memory_has_no_history(place: Path) -> None:
    words = ("debug", "Drone/d-1", "--at-event", 1, "--engine", "memory:")
    refused(holdfast_here(*words, cwd=place, code=2), "keeps no history")


# ---------------------------------------------------------------- the fold before it


class Start(Event):
    pass


class Stop(Event):
    pass


class Beat(Event):
    pass


class Ping(Event):
    number: int


class Fail(Event):
    number: int = 99


class Noted(Action):
    text: str


FAILING = [True]


class Clock(Agent):
    beats: int = 0
    pings: list[int] = []
    drawn: float = 0.0
    times: list[float] = []

    @on
    def start(self, event: Start, ctx: Context) -> None:
        ctx.every(0.02, Beat(), name="beat")
        ctx.after(0.03, Ping(number=-1))

    @on
    def stop(self, event: Stop, ctx: Context) -> None:
        ctx.cancel("beat")

    @on
    def beat(self, event: Beat, ctx: Context) -> None:
        self.beats += 1
        self.times.append(ctx.now)
        if self.beats % 3 == 0:
            ctx.send(Clock, "c-2", Ping(number=self.beats))

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        self.pings.append(event.number)
        self.drawn = ctx.random.random()
        ctx.emit(Noted(text=ctx.new_id()))

    @on
    def failed(self, event: Fail, ctx: Context) -> None:
        if FAILING[0]:
            raise ValueError("as asked")
        self.pings.append(event.number)


FLEET = Fleet("clocks", agents=[Clock])


def filled(url: str, partitions: list[int]) -> None:
    """Timers in front of waiting inputs and while nothing waits, periods that nobody saw, messages,
    a pause, dead letters of which one is redriven at the end; rescaled in the middle of it."""
    FAILING[0] = True
    with FLEET.open(url) as live:
        live.send(Clock, "c-3", Fail())
        live.settle()
        live.send(Clock, "c-1", Start())
        for number in range(10):
            live.send(Clock, "c-1", Ping(number=number))
            fails = number in (3, 4)
            live.send(Clock, "c-2", (Fail if fails else Ping)(number=number))
        live.pause(Clock, "c-1")
        live.send(Clock, "c-1", Ping(number=100))
        live.resume(Clock, "c-1")
        live.settle()
    for count in partitions:
        rescale(FLEET, url, count)
    time.sleep(0.1)  # five periods, while nobody folds
    with FLEET.connect(url) as live:
        live.send(Clock, "c-1", Ping(number=101))
    with FLEET.open(url) as live:
        live.settle()
        before = live.state(Clock, "c-1")

        def more() -> bool:
            now = live.state(Clock, "c-1")
            return before is not None and now is not None and now.beats > before.beats + 3

        eventually("more beats", more)
        live.send(Clock, "c-1", Stop())
        live.settle()
        FAILING[0] = False
        (letter,) = [x for x in live.dead_letters() if x.event == Fail(number=3)]
        live.redrive(letter.id)
        live.settle()


@pytest.mark.parametrize("partitions", [[], [2], [3, 2]])
@pytest.mark.parametrize("key", ["c-1", "c-2"])
def test_timers_messages_and_redriven_letters_fold_to_what_was_committed(
    tmp_path: Path, key: str, partitions: list[int]
) -> None:
    url = f"sqlite:{tmp_path}/data"
    filled(url, partitions)
    engine = open_engine(url, FLEET.name)
    try:
        rerun = Rerun(FLEET, engine, "Clock", key)
        rings = [each for each in rerun.entries if isinstance(each, Rang) and each.name == "beat"]
        if key == "c-1":
            skipped = [b.due - a.due for a, b in pairwise(rings) if a.now == a.due]
            assert max(skipped) > 0.05, "a timer in front of an input has skipped periods"
            assert any(each.now > each.due for each in rings), "and one came while nothing waited"
        for number in range(1, len(rerun.entries) + 1):
            FAILING[0] = number < len(rerun.entries)  # until the letter comes back
            assert rerun.fold(number) is not None
        committed, painter = rerun.committed, Painter(rerun.bench.codebook)
        assert committed is not None
        assert rerun.record is not None
        ours = Picture({"it": painter.state(rerun.record)})
        assert difference(ours, Picture({"it": painter.state(committed)})) is None
    finally:
        engine.close()


def test_a_timer_that_something_urgent_overtook_skips_as_it_did(tmp_path: Path) -> None:
    """The command came last and is folded first: so the timer in front of the event that waits
    fires late, and yet skips no more periods than up to that event."""
    url = f"sqlite:{tmp_path}/data"
    with FLEET.open(url) as live:
        live.send(Clock, "c-1", Start())
        live.settle()
    with FLEET.connect(url) as live:
        time.sleep(0.05)
        live.send(Clock, "c-1", Ping(number=1))
        time.sleep(0.05)
        live.send(Clock, "c-1", Stop())
        live.resume(Clock, "c-1")
    with FLEET.open(url) as live:
        live.settle()
    engine = open_engine(url, FLEET.name)
    try:
        rerun = Rerun(FLEET, engine, "Clock", "c-1")
        for number in range(1, len(rerun.entries) + 1):
            assert rerun.fold(number) is not None, number
        assert rerun.record is not None
        assert rerun.committed is not None
        assert rerun.record.state == rerun.committed.state
    finally:
        engine.close()


def test_a_timer_in_front_of_what_is_past_retention_skips_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left came much later than the event in front of which it fired."""
    with opened(FLEET, "memory", tmp_path) as world:
        world.live.send(Clock, "c-1", Start())
        world.run()
        began = world.clock.wall
        world.clock.pass_time(0.025)
        world.live.send(Clock, "c-1", Stop())
        world.pass_time(20.0)
        world.live.send(Clock, "c-2", Ping(number=1))
        world.run()
        rerun = Rerun(FLEET, world.engine, "Clock", "c-1")
        assert [getattr(each, "name", "") for each in rerun.entries[:3]] == ["", "beat", ""]
        view = world.engine.view(0)
        left = view.frames(2, 1)
        assert left[0].first == 2
        monkeypatch.setattr(type(view), "frames", lambda *_: left)
        for number in (1, 2):
            assert rerun.fold(number) is not None
        due = rerun.bench.timers("Clock", "c-1")["beat"].due
        assert due == pytest.approx(began + 0.04, abs=0.001)


def test_the_numbers_are_those_of_the_history_after_a_rescaling(
    place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place / "data", tmp_path / "data")
    shutil.copy(place / "fleet.py", tmp_path)
    rescale(load_fleet(str(tmp_path / "fleet.py")), f"sqlite:{tmp_path}/data", 3)
    sending = "    live.send(Drone, 'd-1', Calibrate())\n    live.settle()\n"
    more = FILL[: FILL.index("    live.send")] + sending
    subprocess.run([sys.executable, "-c", more], cwd=tmp_path, check=True, timeout=300)
    lines = holdfast_here("history", "Drone/d-1", "--data", "data", cwd=tmp_path).stdout
    assert lines.splitlines()[-1].startswith("7\t")
    for number, event in (
        (2, "Battery(percent=50.0)"),
        (6, "Battery(percent=9.0)"),
        (7, "Calibrate(factor=1.0, note='')"),
    ):
        words = ("debug", "Drone/d-1", "--at-event", number, "--data", "data")
        shown = holdfast_here(*words, cwd=tmp_path, given="c\n").stdout
        assert f"event {number}: {event}\n" in shown
    assert shown.endswith("this is the last event, and the state equals the committed one\n")


def test_an_inherited_letter_condemns_no_event_of_the_new_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both stand at position 0. Only the old one ended its worker, or so the letter says."""
    url = f"sqlite:{tmp_path}/data"
    FAILING[0] = True
    with FLEET.open(url) as live:
        live.send(Clock, "c-9", Fail())
        live.settle()
        (letter,) = live.dead_letters()
    rescale(FLEET, url, 2)
    with FLEET.open(url) as live:
        live.send(Clock, "c-9", Ping(number=5))
        live.settle()
    monkeypatch.setattr("holdfast.testing.rerunning.CONDEMNED", letter.error)
    FAILING[0] = False
    engine = open_engine(url, FLEET.name)
    try:
        rerun = Rerun(FLEET, engine, "Clock", "c-9")
        for number in (1, 2):
            rerun.fold(number)
        clock = rerun.bench.agent_of("Clock", rerun.record)
        assert isinstance(clock, Clock)
        assert clock.pings == [5]
    finally:
        engine.close()


def test_a_history_that_retention_cut_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox says that it begins later; an agent whose version shows that all of its own
    events are there is let through."""
    from holdfast.engine.sqlite.view import SqliteView

    def cut_at(position: int) -> Callable[[SqliteView], int]:
        return lambda view: position

    words = ("debug", "Drone/d-1", "--at-event", 1, "--data", "data")
    monkeypatch.setattr(SqliteView, "inbox_first", cut_at(1))
    refused(holdfast_here(*words, cwd=place, code=2), "retention has removed", "--from-defaults")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    shown = holdfast_here(*words, "--from-defaults", cwd=place).stdout
    assert "event 1: Battery(percent=50.0)" in shown
    words = ("debug", "Drone/d-2", "--at-event", 1, "--data", "data")
    assert "event 1: Battery(percent=1.0)" in holdfast_here(*words, cwd=place).stdout
