"""Goal: two processes that fold the same events differently are caught at the first event where
they do, claims of idempotence are put to the test, and what must not count does not."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast import UsageError
from holdfast.engine.port import Limits, View
from holdfast.runtime.loading import load_fleet
from holdfast.stepping.frame import Frame
from holdfast.testing.checking import recording as recordings
from holdfast.testing.checking.check import Problem, Report, check
from holdfast.testing.checking.limiting import TimeLimit
from holdfast.testing.checking.recording import generated_recording
from tests.runtime.semantics import opened
from tests.runtime.walkers import FLEET, Step, Walker

HEAD = """
import os
import random
import time
from holdfast import Action, Agent, Context, Event, Fleet, on

class Battery(Event):
    percent: float

class Tags(Event):
    tags: set[str]

class Later(Event):
    pass

class Low(Action):
    at: float = 0.0

COUNT = [0]

class Drone(Agent):
    battery: float = 0.0
    number: int = 0
    tags: set[str] = set()
    names: list[str] = []
    other: list[str] = []
    table: dict[str, int] = {}
"""
TAIL = '\nfleet = Fleet("sample", agents=[Drone])\n'
HANDLER = "\n    @on\n    def drained(self, event: Battery, ctx: Context) -> None:\n"
TAGGED = """
    @on
    def tagged(self, event: Tags, ctx: Context) -> None:
        self.tags |= event.tags
"""


def checked(
    folder: Path,
    body: str,
    monkeypatch: pytest.MonkeyPatch,
    events: int = 200,
    step_seconds: float = 30.0,
) -> Report:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "fleet.py").write_text(HEAD + body + TAIL)
    return check("fleet.py", url=None, events=events, seed=0, step_seconds=step_seconds)


def only(report: Report, kind: str) -> Problem:
    (found,) = [each for each in report.problems if each.kind == kind]
    assert found.level == "finding"
    return found


def in_handler(code: str) -> str:
    return HANDLER + "".join(f"        {line}\n" for line in code.splitlines())


def test_a_clock_is_caught_at_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two processes may read the same time; their ids differ.
    clock = "self.battery = time.time() * os.getpid()"
    body = in_handler(f"self.number += 1\nif self.number > 20:\n    {clock}")
    report = checked(tmp_path, body, monkeypatch)
    found = only(report, "divergence")
    values = found.data["values"]
    assert isinstance(values, list)
    assert all(each > 1e9 for each in values)
    assert found.data["what"] == "battery"
    assert found.data["handler"] == "Drone.drained"
    line = 1 + (HEAD + body).splitlines().index(f"            {clock}")
    assert found.data["hint"] == f"fleet.py:{line}:28"
    assert "probably because of fleet.py" in found.text
    # The first time any drone has counted to 21, and not an event later.
    assert counted(int(str(found.data["event"]))) == (20, 21)


def counted(event: int) -> tuple[int, int]:
    """The largest count of any drone before and after that made-up event."""
    recording = generated_recording(load_fleet("fleet.py"), 0, 200, TimeLimit())
    frames = [Frame.decode(frame) for _, _, _, frame in recording.inboxes[0].frames]
    keys = [str(key) for frame in frames for key in frame.values("key") or []]
    assert len(keys) == 200
    before, after = Counter(keys[: event - 1]), Counter(keys[:event])
    return max(before.values()), max(after.values())


def test_chance_is_caught_in_outputs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = in_handler("if random.random() < 0.2:\n    ctx.emit(Low())")
    found = only(checked(tmp_path, body, monkeypatch), "divergence")
    assert str(found.data["what"]).startswith("actions, number ")


def test_the_hash_seed_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the hash seed decides the order of these letters."""
    body = in_handler("self.names = list({*'abcdefgh'})  # holdfast: ok")
    found = only(checked(tmp_path, body, monkeypatch, events=5), "divergence")
    assert (found.data["event"], found.data["what"]) == (1, "names")


def test_the_order_of_a_set_in_a_list_is_caught_and_in_a_set_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(tmp_path, TAGGED, monkeypatch).problems == []
    body = TAGGED + in_handler("self.names = list(self.tags)  # holdfast: ok")
    found = only(checked(tmp_path, body, monkeypatch), "divergence")
    assert found.data["what"] == "names"
    assert found.data["hint"] is None, "what is silenced is no hint"
    body = TAGGED + in_handler("self.table = dict.fromkeys(self.tags, 1)  # holdfast: ok")
    found = only(checked(tmp_path, body, monkeypatch), "divergence")
    assert found.data["what"] == "table", "a dict has an order, and it is stored"


def test_what_shows_only_within_a_batch_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """self.number += 1
if self.number == 5:
    self.names = self.other = []
if self.number > 5:
    self.names.append("x")"""
    found = only(checked(tmp_path, in_handler(code), monkeypatch), "divergence")
    assert found.data["what"] == "other"
    assert found.data["values"] == [[], ["x"]]
    assert "one list in two fields?" in found.text


def test_a_timer_and_a_time_zone_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        in_handler("ctx.after(5.0, Later(), name='later')")
        + """
    @on
    def late(self, event: Later, ctx: Context) -> None:
        self.number = time.localtime(ctx.now).tm_hour
"""
    )
    found = only(checked(tmp_path, body, monkeypatch), "divergence")
    assert found.data["handler"] == "Drone.late"
    assert found.data["input"] == "Later()"


def test_a_clean_fleet_with_failures_is_clean_with_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = in_handler("self.battery = 1.0 / int(event.percent)")
    report = checked(tmp_path, body, monkeypatch, events=400)
    assert report.clean
    (note,) = report.problems
    assert (note.level, note.kind) == ("note", "failure")
    assert "Drone.drained raised ZeroDivisionError: float division by zero for" in note.text
    assert "Battery(percent=" in note.text
    assert report.summary == "1 handlers read, 400 inputs folded in two processes"


def test_agents_that_pause_messages_and_expiry_do_not_disturb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        in_handler("ctx.send(Tower, 't-1', Battery(percent=event.percent))\nctx.reply(event)")
        + """
class Tower(Agent, on_error="pause", unhandled="defer", expire_after=60.0):
    total: float = 0.0

    @on
    def heard(self, event: Battery, ctx: Context) -> None:
        if event.percent < 3.0:
            raise ValueError("too low")
        self.total = event.percent
        ctx.every(20.0, Tags(tags=set()), name="beat")

    @on
    def beat(self, event: Tags, ctx: Context) -> None:
        self.total += ctx.random.random()
"""
    )
    monkeypatch.setattr(f"{__name__}.TAIL", TAIL.replace("[Drone]", "[Drone, Tower]"))
    report = checked(tmp_path, body, monkeypatch)
    assert report.clean, report.problems
    assert any("Tower.heard raised ValueError: too low" in each.text for each in report.problems)


CLAIMS = """
    @on(idempotent=True)
    def counts(self, event: Battery, ctx: Context) -> None:
        self.number += 1

    @on(Tags, idempotent=True)
    def appends(self, event: Event, ctx: Context) -> None:
        self.names.append("x")

    @on(when=lambda self, event: True, idempotent=True)
    def draws(self, event: Later, ctx: Context) -> None:
        ctx.emit(Low(at=ctx.random.random()))

class Fails(Event):
    pass

class Waits(Event):
    pass

class Sends(Event):
    pass

class Rings(Event):
    pass

class Tower(Agent):
    number: int = 0
    last: str = ""

    @on(idempotent=True)
    def fails(self, event: Fails, ctx: Context) -> None:
        if self.number:
            self.number = 0
            raise ValueError("twice")
        self.number = 1

    @on(idempotent=True)
    def waits(self, event: Waits, ctx: Context) -> None:
        ctx.after(9.0, Later())

    @on(idempotent=True)
    def sends(self, event: Sends, ctx: Context) -> None:
        ctx.send(Tower, f"t-{ctx.new_id()[-5]}", Later())
        ctx.after(5.0, Rings(), name="ring")

    @on(idempotent=True)
    def rings(self, event: Rings, ctx: Context) -> None:
        self.last = ctx.new_id()
"""


def test_broken_claims_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.TAIL", TAIL.replace("[Drone]", "[Drone, Tower]"))
    report = checked(tmp_path, CLAIMS, monkeypatch)
    texts = {
        str(each.data["handler"]): each.text
        for each in report.problems
        if each.kind == "idempotence"
    }
    for handler, what in {
        "Drone.counts": "number is 1 after the first delivery and 2 after the second",
        "Drone.appends": "names is ['x'] after the first delivery and ['x', 'x'] after",
        "Drone.draws": "the second delivery adds to its actions ['Low'",
        "Tower.fails": "the second delivery is 'fine' after the first delivery and 'ValueError",
        "Tower.waits": "(timers) is ",
        "Tower.sends": "the second delivery adds to its messages ['Tower', 't-",
        "Tower.rings": "last is 'sample/Tower/",
    }.items():
        assert what in texts.pop(handler), handler
    assert texts == {}
    assert report.summary.endswith("of them twice in a row")


def test_a_claim_that_holds_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting fields, sending the same again and replacing a timer are idempotent."""
    code = """self.battery = event.percent
self.tags.add("x")
ctx.emit(Low(at=event.percent))
ctx.send(Drone, "d-9", Later())
ctx.after(9.0, Later(), name="one")"""
    body = in_handler(code).replace("@on", "@on(idempotent=True)")
    body += TAGGED.replace("event: Tags", "event: Later").replace("self.tags |= event.tags", "pass")
    report = checked(tmp_path, body, monkeypatch, events=100)
    assert report.problems == []


def test_a_handler_that_does_not_end_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = in_handler("self.number += 1\nwhile self.number == 4:\n    pass")
    report = checked(tmp_path, body, monkeypatch, events=20, step_seconds=2.0)
    assert report.clean
    assert any("TimeoutError: it ran longer than" in each.text for each in report.problems)


def test_a_process_that_dies_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = in_handler("import os\nos._exit(7)  # holdfast: ok")
    with pytest.raises(UsageError, match=r"fleet\.py: the process that folds it ended with code 7"):
        checked(tmp_path, body, monkeypatch, events=5)


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("look", ["inbox_first", "frames"])
def test_stored_events_that_go_past_retention_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str, most: int | None
) -> None:
    """Behind the look at what is kept, and behind the first that was read."""
    limits = Limits(disk_reserve_bytes=1, retain_seconds=5.0)
    with opened(FLEET, "memory", tmp_path, limits=limits) as world:
        for number in range(8):
            world.live.send(Walker, "w", Step(number=number))
            world.run()
            world.clock.pass_time(2.0)
        view = world.engine.view(0)
        read = getattr(type(view), look)

        def late(self: View, *about: int) -> object:
            found = read(self, *about)
            world.engine.maintain()
            return found

        monkeypatch.setattr(recordings, "FRAMES_AT_ONCE", 1)
        monkeypatch.setattr(type(view), look, late)
        inbox = recordings._stored_inbox(0, view, most)
        assert inbox.first == view.inbox_first() > 1
        positions = [first for first, *_ in inbox.frames]
        assert positions == list(range(inbox.first, 8))[:most]
