"""Goal: of a fleet on several machines each one tells of its own processes, and all of them tell of
all partitions; what processes count adds up."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.runtime.metering.exposition import exposition
from holdfast.runtime.untyped import UntypedLive, connect_untyped
from tests.cli.commands import Running, eventually
from tests.metering.running import PROGRAM, Values, drive, value, values_of


def told(live: UntypedLive) -> Values:
    return values_of(exposition(live))


@pytest.mark.slow
def test_each_machine_tells_of_its_own_processes(
    kafka: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    place = f"kafka://{kafka}/metrics-{uuid.uuid4().hex[:8]}?cache={tmp_path}/"
    urls = [place + name for name in ("north", "south")]
    with ExitStack() as opened:
        words = [PROGRAM, "--workers", 1, "--partitions", 4, "--engine"]
        machines = [opened.enter_context(Running(*words, url, cwd=tmp_path)) for url in urls]
        lives = [opened.enter_context(connect_untyped(url)) for url in urls]
        eventually("both have partitions", lambda: shared(lives), seconds=60.0)
        drive(lives[0], 2_000)
        lives[0].settle()
        eventually("both tell it", lambda: sum(counted(lives)) == 2_000 or was_silent(machines))
        if was_silent(machines):
            record_property("summary", "a worker was ended for its silence, and its counts with it")
            eventually("the next one has its partitions", lambda: shared(lives))
        else:
            assert min(counted(lives)) > 0
        for found in map(told, lives):
            assert value(found, "holdfast_folded_events_total") == 2_000
            assert value(found, "holdfast_lag_events") == 0
            assert value(found, "holdfast_process_up", process="worker-0") == 1
            assert value(found, "holdfast_partition_owned") == 4
            assert value(found, "holdfast_unreadable_partitions") == 0


def counted(lives: list[UntypedLive]) -> list[float]:
    """Events that the processes of each machine have folded."""
    return [value(told(live), "holdfast_commit_events_sum") or 0.0 for live in lives]


def was_silent(machines: list[Running]) -> bool:
    """Whether a supervisor ended a worker that did not get its turn on a busy machine."""
    return any("is silent: ending it" in each.errors.read_text() for each in machines)


def shared(lives: list[UntypedLive]) -> bool:
    """Whether the two have the four partitions between them, two each."""
    owned = [owned_at(live) for live in lives]
    return [len(each) for each in owned] == [2, 2] and not owned[0] & owned[1]


def owned_at(live: UntypedLive) -> set[str]:
    own = [dict(labels) for name, labels in told(live) if name == "holdfast_claim_epoch"]
    return {labels["partition"] for labels in own}
