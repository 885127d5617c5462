"""Goal: what a running fleet tells is right and complete, each process tells of itself only while
it lives, and a worker that is killed and replaced takes nothing back that was true."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.runtime.handle import Handle
from holdfast.runtime.metering.board import bulletins
from holdfast.runtime.metering.exposition import exposition
from holdfast.runtime.metering.families import FAMILIES
from tests.cli.commands import eventually, holdfast_here
from tests.docs.documents import ROOT, tables_of
from tests.metering.running import Values, drive, running, send, value, values_of
from tests.servers.prometheus import promtool

KINDS = {family.name: family for family in FAMILIES}


def told(live: Handle, look: Callable[[Values], bool]) -> Values:
    """What is told once it looks right: processes publish every second."""
    found: list[Values] = []

    def try_it() -> bool:
        time.sleep(0.1)
        found.append(values_of(exposition(live)))
        return look(found[-1])

    eventually("metrics that show it", try_it)
    return found[-1]


def agrees(seen: Values) -> bool:
    """All of it was folded, and processes tell what the data tells: they publish every second."""
    folded = value(seen, "holdfast_folded_events_total")
    commits = value(seen, "holdfast_commits_total")
    exact = {
        "holdfast_inbox_events_total": folded,
        "holdfast_event_to_action_seconds_count": folded,
        "holdfast_commit_events_sum": folded,
        "holdfast_commit_seconds_count": commits,
        "holdfast_messages_total": 1,
        "holdfast_timers_fired_total": 1,
        "holdfast_timers_pending": 1,
        "holdfast_process_up": 6,
    }
    calls = value(seen, "holdfast_call_seconds_count", function="plan")
    return calls == 20 and all(value(seen, name) == n for name, n in exact.items())


def test_everything_is_told_and_nothing_else(tmp_path: Path) -> None:
    words = ["--archive", f"file:{tmp_path / 'archive'}", "--otlp", "http://127.0.0.1:1"]
    with running(tmp_path, *words) as (_, live):
        for n in range(20):
            drive(live, 2_000, hot="c-1")
            send(live, f"c-{n}", "Plan")
            send(live, "c-3", "Grow", size=30_000)
            live.settle()
            time.sleep(0.1)  # what is sampled is sampled ten times a second
        send(live, "c-2", "Fail")
        send(live, "c-4", "Wait")
        send(live, "c-5", "Greet", other="c-6")
        send(live, "c-7", "Wait", seconds=0.01)
        live.settle()
        found = told(live, lambda seen: everything(seen) and agrees(seen))
        text = exposition(live)
        checked = promtool("check", "metrics", given=text.decode())
        assert checked.returncode == 0, checked
        assert value(found, "holdfast_agents", agent="Cart") == 500
        assert value(found, "holdfast_dead_letters") == 1
        assert value(found, "holdfast_dead_letters_total") == 1
        assert value(found, "holdfast_calls_total") == 20
        share = value(found, "holdfast_hot_key_share", agent="Cart", key="c-1")
        assert share is not None
        assert 0.4 < share <= 1.0
        assert value(found, "holdfast_large_state_bytes", key="c-3") == pytest.approx(30_000, 1e-2)
        state = value(found, "holdfast_state_bytes")
        assert state is not None
        assert 5_000 < state < 5_000_000
        assert labels_are_those_told(found) == []
        assert b'region="' not in text
        printed = exposed(tmp_path)
        assert bases(values_of(printed)) == bases(found)


def everything(found: Values) -> bool:
    """Whether nothing is missing; what is stands in the output of a test that fails."""
    missing = {*KINDS} - bases(found)
    print("missing:", *sorted(missing))
    return not missing


def bases(found: Values) -> set[str]:
    """The families, from the names of their lines."""
    names = {name for name, _ in found}
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names} & {*KINDS}


def labels_are_those_told(found: Values) -> list[str]:
    wrong = []
    for name, labels in found:
        own = {each for each, _ in labels}
        family = KINDS[re.sub(r"_(bucket|sum|count)$", "", name)]
        wanted = {"fleet", *family.labels.split(", ")} - {""}
        if name.endswith("_bucket"):
            wanted |= {"le"}
        if own != wanted:
            wrong.append(f"{name} has {own}, not {wanted}")
    return wrong


def test_the_page_lists_what_there_is() -> None:
    tables = tables_of((ROOT / "docs" / "observability.md").read_text("utf-8"))
    rows = [row for table in tables if table[0][0] == "metric" for row in table[1:]]
    listed = [tuple(cell.strip("`") for cell in row) for row in rows]
    assert sorted(listed) == sorted(tuple(family) for family in FAMILIES)


@pytest.mark.kill
def test_a_worker_that_is_killed_and_one_that_stands_still(tmp_path: Path) -> None:
    with running(tmp_path, "--snapshots", "none") as (process, live):
        drive(live, 5_000)
        live.settle()
        before = told(live, lambda seen: value(seen, "holdfast_commit_events_sum") == 5_000)
        assert value(before, "holdfast_process_restarts_total") == 0
        first = {each.process: each.pid for each in bulletins(tmp_path / "data" / "metrics")}
        os.kill(first["worker-0"], signal.SIGKILL)
        after = told(
            live,
            lambda seen: (
                value(seen, "holdfast_process_restarts_total", process="worker-0") == 1
                and value(seen, "holdfast_process_up", process="worker-0") == 1
                and value(seen, "holdfast_claim_epoch", partition=0) == 2
            ),
        )
        # Counts of commits are those of the data; counts of a process begin again with it.
        for name in ("holdfast_folded_events_total", "holdfast_commits_total"):
            assert value(after, name) == value(before, name)
        assert value(after, "holdfast_commit_events_sum", partition=0) == 0
        kept = value(after, "holdfast_commit_events_sum", partition=1)
        assert kept == value(before, "holdfast_commit_events_sum", partition=1)
        drive(live, 1_000)
        live.settle()
        told(live, lambda seen: value(seen, "holdfast_folded_events_total") == 6_000)

        # Nobody is there to replace the other worker: what it told is true, but it is not well.
        os.kill(process.process.pid, signal.SIGSTOP)
        os.kill(first["worker-1"], signal.SIGSTOP)
        try:
            still = told(
                live, lambda seen: value(seen, "holdfast_process_up", process="worker-1") == 0
            )
            assert value(still, "holdfast_process_up", process="worker-0") == 1
            drive(live, 1_000)
            told(
                live,
                lambda seen: (
                    (value(seen, "holdfast_lag_events", partition=1) or 0) > 0
                    and value(seen, "holdfast_lag_events", partition=0) == 0
                ),
            )
        finally:
            os.kill(first["worker-1"], signal.SIGCONT)
            os.kill(process.process.pid, signal.SIGCONT)
        live.settle()
    rest = values_of(exposed(tmp_path))
    assert value(rest, "holdfast_folded_events_total") == 7_000
    assert value(rest, "holdfast_partition_owned") == 0
    assert value(rest, "holdfast_process_up") is None
    assert value(rest, "holdfast_commit_events_sum") is None


def exposed(folder: Path) -> bytes:
    return holdfast_here("metrics", "--data", folder / "data", cwd=folder).stdout.encode()


class Went(Event):
    metres: float


class Bot(Agent):
    metres: float = 0.0

    @on
    def went(self, event: Went, ctx: Context) -> None:
        self.metres += event.metres


bots = Fleet("bots", agents=[Bot])


@pytest.mark.parametrize("engine", ["memory:", "sqlite:"])
def test_a_program_that_opens_the_fleet_itself(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_REGION", 'north "1"')
    url = engine if engine == "memory:" else f"sqlite:{tmp_path / 'data'}"
    with bots.open(url) as live:
        live.send(Bot, "b-1", Went(metres=1.0))
        live.settle()
        own = {"fleet": "bots", "region": 'north "1"'}
        folded = "holdfast_event_to_action_seconds_count"  # told a moment after the commit
        found = told(live, lambda seen: value(seen, folded, **own) == 1)
        assert value(found, "holdfast_process_up", process="program", **own) == 1
        assert value(found, "holdfast_agents", agent="Bot", **own) == 1
        if engine != "memory:":
            with bots.connect(url) as reader:
                told(reader, lambda seen: value(seen, "holdfast_commit_events_sum") == 1)
    assert not list(tmp_path.glob("data/metrics/*"))


def test_metering_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_METRICS", "off")
    with bots.open("memory:") as live:
        live.send(Bot, "b-1", Went(metres=1.0))
        live.settle()
        found = values_of(live.metrics())
    assert value(found, "holdfast_folded_events_total") == 1
    assert value(found, "holdfast_commit_events_sum") is None
