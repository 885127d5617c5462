"""Goal: the audit finds one fault among many thousand stored things, and calls it by its name.

A real demo runs for four seconds, with a worker killed in the middle. Then, each time on a copy of
its data, one thing is changed in a way that every checksum accepts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.demo.directory import DemoDirectory, Manifest
from holdfast.demo.fleet import Drone, fleet
from holdfast.runtime.rescaling import rescale
from tests.demo.commands import audit_of
from tests.demo.conftest import Finished
from tests.demo.tampering import (
    Inbox,
    change_state,
    copy_of,
    external,
    keep_of_an_action_frame,
    message,
)

pytestmark = pytest.mark.kill


def row(output: str, subject: str) -> list[int]:
    """The numbers of one row of the audit's table."""
    line = next(line for line in output.splitlines() if line.strip().startswith(subject))
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", line)]


def test_a_demo_loses_nothing_to_a_killed_worker(finished: Finished) -> None:
    assert finished.done.returncode == 0, finished.output + finished.done.stderr
    assert "PASSED  nothing lost, nothing doubled, everything in order" in finished.output
    assert finished.done.stderr == ""
    sent, stored, folded, *faults = row(finished.output, "events sent")
    assert sent == stored == folded
    assert 500 < sent <= 4_000
    assert faults == [0, 0, 0, 0]
    for subject in ("messages sent", "timers fired", "actions issued"):
        due, stored, *rest = row(finished.output, subject)
        assert due == stored > 100, subject
        assert rest[-4:] == [0, 0, 0, 0], subject


def test_the_kill_and_the_recovery_are_shown(finished: Finished) -> None:
    assert re.search(r"kill -9 of worker 1, process \d+, partition 1", finished.output)
    went_on = re.search(r"partition 1 went on after (\d+\.\d\d) s", finished.output)
    assert went_on
    shown = re.search(r"partition 1 goes on in process \d+, after \d\.\d\d s", finished.output)
    assert shown or float(went_on[1]) > 1.5, "the view ends with the producer, two seconds later"
    assert len(re.findall(r"events/s  p50 .* lag 0:[\d,]+ 1:[\d,]+", finished.output)) >= 3
    assert "event to action over the whole run" in finished.output


def test_what_to_try_next_names_an_agent_that_exists(finished: Finished) -> None:
    found = re.search(r"holdfast state (\w+)/(\S+) --engine (\S+)", finished.output)
    assert found is not None
    agent, key, url = found.groups()
    assert agent == "Drone"
    with fleet.connect(url) as live:
        state = live.state(Drone, key)
        assert state is not None
        assert state.folded == state.last_serial
        assert len(live.history(Drone, key)) > state.folded  # timers and messages beside them


def drop_first(count: int) -> list[int]:
    return list(range(1, count))


def double_first(count: int) -> list[int]:
    return [0, *range(count)]


def swap_first_two(count: int) -> list[int]:
    return [1, 0, *range(2, count)]


def edit(
    choose: Callable[..., bool], picked: Callable[[int], list[int]], rows_min: int = 1
) -> Callable[[Path], None]:
    def apply(data: Path) -> None:
        inbox = Inbox(data)
        inbox.keep(inbox.find(choose, rows_min), picked)
        inbox.write()

    return apply


def swap_two_of_one_drone(data: Path) -> None:
    inbox = Inbox(data)
    inbox.swap_two_of_one_drone()
    inbox.write()


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "an event is deleted": (edit(external, drop_first), "events lost: 1"),
    "an event is doubled": (edit(external, double_first), "events doubled: 1"),
    "two events are swapped": (edit(external, swap_first_two, 2), "events out of order: 1"),
    "two events of one drone are swapped": (swap_two_of_one_drone, "events out of order: [12]"),
    "a message is deleted": (edit(message, drop_first), "messages lost: 1"),
    "a message is doubled": (edit(message, double_first), "messages doubled: 1"),
    "an action is dropped": (
        lambda data: keep_of_an_action_frame(data, drop_first),
        "actions lost: 1",
    ),
    "an action is doubled": (
        lambda data: keep_of_an_action_frame(data, double_first),
        "actions doubled: 1",
    ),
    "a state is changed": (
        lambda data: change_state(data, "battery", lambda percent: 1.0),
        "states wrong: 1",
    ),
    "a state has folded an event twice": (
        lambda data: change_state(data, "folded", lambda count: int(str(count)) + 1),
        "events doubled: 1",
    ),
    "a state has missed an event": (
        lambda data: change_state(data, "folded", lambda count: int(str(count)) - 1),
        "events lost: 1",
    ),
}


@pytest.mark.planted("audit of the demo")
@pytest.mark.parametrize("what", TAMPERINGS)
def test_one_fault_is_found_and_named(finished: Finished, tmp_path: Path, what: str) -> None:
    tamper, verdict = TAMPERINGS[what]
    data = copy_of(finished.data, tmp_path / "data")
    tamper(data)
    code, output = audit_of(data)
    assert code == 1, output
    # The whole verdict: one fault is one fault, and not also all that follows from it.
    assert re.search(rf"FAILED  {verdict}$", output, re.MULTILINE), output


def test_an_untouched_copy_passes(finished: Finished, tmp_path: Path) -> None:
    code, output = audit_of(copy_of(finished.data, tmp_path / "data"))
    assert code == 0, output


def test_writing_the_log_back_unchanged_passes(finished: Finished, tmp_path: Path) -> None:
    """The tampering itself must not be what the audit finds."""
    data = copy_of(finished.data, tmp_path / "data")
    inbox = Inbox(data)
    inbox.keep(inbox.find(external), lambda count: list(range(count)))
    inbox.write()
    keep_of_an_action_frame(data, lambda count: list(range(count)))
    change_state(data, "battery", lambda percent: percent)
    code, output = audit_of(data)
    assert code == 0, output


def test_events_that_nobody_sent_are_found(finished: Finished, tmp_path: Path) -> None:
    """The script decides what was sent, and not what the log says."""
    data = copy_of(finished.data, tmp_path / "data")
    directory = DemoDirectory(data)
    manifest = directory.manifest()
    directory.write(
        Manifest(
            manifest.holdfast_demo,
            manifest.seed + 1,
            manifest.drones,
            manifest.rounds_per_second,
            manifest.workers,
        )
    )
    code, output = audit_of(data)
    assert code == 1
    assert row(output, "events sent")[-1] > 1_000


def test_a_flipped_bit_is_named_as_damage(finished: Finished, tmp_path: Path) -> None:
    data = copy_of(finished.data, tmp_path / "data")
    inbox = Inbox(data)
    stored = inbox.frames[5]
    broken = bytearray(stored.frame)
    broken[len(broken) // 2] ^= 1
    inbox.frames[5] = replace(stored, frame=bytes(broken))
    inbox.write()
    code, output = audit_of(data)
    assert code == 1
    assert "checksum" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["."], "no demo has run here"),
        ([], "usage: python -m holdfast.demo.audit DIR"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    command = [sys.executable, "-m", "holdfast.demo.audit", *words]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert line in done.stderr


def test_a_demo_that_was_rescaled_is_as_sound(finished: Finished, tmp_path: Path) -> None:
    """The audit computes again, from the inputs of all partitions, what the agents must be."""
    data = copy_of(finished.data, tmp_path / "data")
    for partitions in (5, 3):
        rescale(fleet, f"sqlite:{data}", partitions)
    code, output = audit_of(data)
    assert code == 0, output
    assert row(output, "events sent") == row(finished.output, "events sent")
    assert row(output, "messages sent")[-4:] == [0, 0, 0, 0]
