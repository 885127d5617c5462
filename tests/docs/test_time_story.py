"""Goal: the incident of docs/time.md happens as told.

Every command of the section is run, in order, in a copy of examples/incident. What stands below a
command has to be in its output, line by line and in order: words, with "…" for any others.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import Running, holdfast, holdfast_here
from tests.docs.documents import ROOT, blocks_of


def steps() -> list[tuple[str, list[str]]]:
    """The commands of the incident, each with the lines below it."""
    text = (ROOT / "docs" / "time.md").read_text("utf-8")
    story = text.partition("## An incident")[2].partition("\n## ")[0]
    found: list[tuple[str, list[str]]] = []
    for block in blocks_of(story):
        for line in block.lines if block.language == "console" else ():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def missing(shown: list[str], output: str) -> str | None:
    """The first line that the output does not have after those before it."""
    rest = iter(" ".join(line.split()) for line in output.splitlines())
    for line in shown:
        if line.strip() == "…":
            continue
        pattern = ".*".join(map(re.escape, line.split("…")))
        if not any(re.fullmatch(pattern, each) for each in rest):
            return line
    return None


def test_a_line_that_is_not_there_is_found() -> None:
    assert missing(["a … c", "…", "e"], "a b c\nd\ne") is None
    assert missing(["a c"], "a b c") == "a c"
    assert missing(["b", "a"], "a\nb") == "a"


@contextmanager
def run_until_stopped(*words: str, cwd: Path) -> Iterator[None]:
    with Running(*words, cwd=cwd) as fleet:
        yield
        assert fleet.stop() == 0, fleet.errors.read_text()


@pytest.mark.kill
def test_the_incident(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "incident", tmp_path, dirs_exist_ok=True)
    with ExitStack() as fleets:
        done = []
        for command, shown in steps():
            program, *words = shlex.split(command)
            done.append(words[0])
            if words[0] == "run":
                fleets.close()  # the new code takes the place of the old
                fleets.enter_context(run_until_stopped(*words[1:], cwd=tmp_path))
                continue
            if program == "holdfast":
                run = holdfast if words[0] == "replay" else holdfast_here  # it starts processes
                printed = run(*words, cwd=tmp_path).stdout
            else:
                started = [sys.executable, *words]
                printed = subprocess.check_output(started, cwd=tmp_path, text=True)
            assert missing(shown, printed) is None, f"{command}\n{printed}"
    assert done[0] == done[-1] == "run"
    assert {"actions", "history", "replay", "compensate", "fork", "snapshot"} <= set(done)
    assert "<svg" in (tmp_path / "report.html").read_text("utf-8")
