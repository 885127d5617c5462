"""Goal: `holdfast simulate` tells what it ran, shows a seed again, and finds agents that differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import holdfast, holdfast_here

FLEET = """
import itertools
from holdfast import Action, Agent, Context, Event, Fleet, on

class Tick(Event):
    number: int

class Beep(Action):
    number: int

calls = itertools.count()

class Counter(Agent):
    total: int = 0

    @on
    def ticked(self, event: Tick, ctx: Context) -> None:
        {body}
        ctx.emit(Beep(number=self.total))

fleet = Fleet("counters", agents=[Counter])
"""


def write(folder: Path, body: str, name: str = "fleet.py") -> None:
    (folder / name).write_text(FLEET.format(body=body))


def test_sound_agents_pass_and_the_figures_are_told(tmp_path: Path) -> None:
    write(tmp_path, 'self.total += 1; print("from a handler")')
    done = holdfast("simulate", "fleet.py", "--seeds", "12", "--jobs", "2", cwd=tmp_path, code=None)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("12 seeds, 0 of them fail; ")
    assert " chances: the disk is full for a while" in done.stdout
    figures = holdfast_here(
        "simulate", "fleet.py", "--seeds", "4", "--jobs", "1", "--json", cwd=tmp_path, code=None
    )
    told = json.loads(figures.stdout)
    assert (told["seeds"], told["failing"]) == (4, [])
    assert told["events"] > 0
    assert sum(told["faults"].values()) > 0


def test_a_seed_is_shown_line_by_line_and_again(tmp_path: Path) -> None:
    write(tmp_path, "self.total += 1")
    first = holdfast_here("simulate", "fleet.py", "--seed", "3", cwd=tmp_path, code=None)
    again = holdfast_here("simulate", "fleet.py", "--seed", "3", cwd=tmp_path, code=None)
    assert first.returncode == 0
    assert first.stdout == again.stdout
    assert "claims partition 0 as epoch 1" in first.stdout
    assert first.stdout.splitlines()[-1].startswith("seed 3: all promises hold; trace ")


def test_an_agent_that_is_not_deterministic_is_found(tmp_path: Path) -> None:
    write(tmp_path, "self.total = next(calls)")
    done = holdfast_here(
        "simulate", "fleet.py", "--seeds", "3", "--jobs", "1", cwd=tmp_path, code=None
    )
    assert done.returncode == 1
    assert "see it again with: holdfast simulate fleet.py --seed " in done.stdout
    assert "try holdfast check" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nobody.py"], "no such file"),
        (["fleet.py", "--seed", "1", "--seeds", "5"], "leave --seeds out"),
        (["fleet.py", "--seed", "1", "--json"], "leave --json out"),
        (["fleet.py", "--minutes", "1", "--seeds", "5"], "give one of them"),
        (["fleet.py", "--upgrade", "other.py"], "a later release of the same fleet"),
        (["fleet.py", "--upgrade", "newer.py"], "Counter.total is stored"),
    ],
)
def test_wrong_arguments_get_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    write(tmp_path, "self.total += 1")
    write(tmp_path, "self.sum = 1", "newer.py")
    newer = (tmp_path / "newer.py").read_text().replace("total", "sum")
    (tmp_path / "newer.py").write_text(newer)
    other = (tmp_path / "fleet.py").read_text().replace("counters", "others")
    (tmp_path / "other.py").write_text(other)
    done = holdfast_here("simulate", *arguments, cwd=tmp_path, code=None)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert complaint in done.stderr
