"""Goal: with --log-format json every line of `holdfast run` and its processes is one JSON object
that can be joined with metrics and history; without it lines are text, as they were."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from holdfast.runtime import logs
from holdfast.runtime.metering.board import bulletins
from tests.cli.commands import eventually, holdfast, json_lines
from tests.metering.running import running, send


def lines(text: str) -> list[dict[str, object]]:
    """Every line is JSON; the last may not be whole yet."""
    return json_lines(text[: text.rfind("\n") + 1])


@pytest.mark.kill
def test_every_line_is_an_object_with_ids(tmp_path: Path) -> None:
    with running(tmp_path, "--log-format", "json", "--snapshots", "none") as (process, live):
        [start] = lines(process.start_line)
        assert "carts runs on" in str(start["message"])
        send(live, "c-1", "Fail")
        send(live, "c-2", "Wait", seconds=0.001)
        eventually("both lines", lambda: len(lines(process.errors.read_text())) == 2)
        found = {str(each["logger"]): each for each in lines(process.errors.read_text())}
        letter, rings = found["holdfast.worker"], found["holdfast.agent"]

        assert letter["message"] == "dead letter 0.1: Cart/c-1: ValueError: no way out" or (
            letter["message"] == "dead letter 1.1: Cart/c-1: ValueError: no way out"
        )
        assert {"fleet": "carts", "agent": "Cart", "key": "c-1"}.items() <= letter.items()
        number = letter["partition"]
        assert letter["letter"] == f"{number}.1"
        assert (letter["worker"], letter["process"]) == (number, f"worker-{number}")
        assert (letter["level"], letter["position"], letter["commit"]) == ("warning", 0, 1)
        assert str(letter["time"]).endswith("+00:00")
        assert {"agent": "Cart", "key": "c-2", "level": "info"}.items() <= rings.items()
        assert rings["message"] == "Cart/c-2: rings"

        board = tmp_path / "data" / "metrics"
        eventually("it tells its pid", lambda: "worker-1" in {e.process for e in bulletins(board)})
        pids = {each.process: each.pid for each in bulletins(board)}
        os.kill(pids["worker-1"], signal.SIGKILL)
        eventually("a third", lambda: len(lines(process.errors.read_text())) == 3)
        ended = lines(process.errors.read_text())[2]
        assert ended["message"] == "worker 1 ended (-9): starting it again"
        assert (ended["worker"], ended["process"]) == (1, "supervisor")
        process.stop()
        [stopped] = lines(process.rest_of_output())
        assert stopped["message"] == "carts has stopped; everything acknowledged is kept"


def test_the_environment_asks_for_it_too_and_errors_are_objects(tmp_path: Path) -> None:
    wanted = {"HOLDFAST_LOG_FORMAT": "json"}
    done = holdfast("run", "nothing.py", cwd=tmp_path, code=2, variables=wanted)
    [line] = lines(done.stderr)
    assert str(line["message"]).startswith("nothing.py: no such file")
    assert (line["level"], line["process"]) == ("error", "supervisor")
    done = holdfast("run", "x.py", cwd=tmp_path, code=2, variables={"HOLDFAST_LOG_FORMAT": "xml"})
    assert done.stderr == "holdfast: HOLDFAST_LOG_FORMAT='xml': use text or json\n"


def test_a_worker_that_cannot_run_says_so_in_one_object(tmp_path: Path) -> None:
    """What a process under the supervisor complains of, and a traceback nobody has caught."""
    (tmp_path / "odd.py").write_text(
        "import os, sys\n"
        "from holdfast import Agent, Fleet\n"
        "class Bot(Agent):\n    n: int = 0\n"
        "if os.environ.get('HOLDFAST_PROCESS'):\n    raise RuntimeError('a\\nb')\n"
        "fleet = Fleet('odd', agents=[Bot])\n"
    )
    words = ["run", "odd.py", "--data", "data", "--log-format", "json", "--snapshots", "none"]
    done = holdfast(*words, cwd=tmp_path, code=3)
    found = lines(done.stderr)
    assert found, done
    assert any("RuntimeError" in str(each["message"]) for each in found), found
    assert any("cannot run: its message is above" in str(each["message"]) for each in found)


def test_text_is_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path) as (process, live):
        assert process.start_line.startswith("carts runs on sqlite:data")
        send(live, "c-1", "Fail")
        eventually("a line", lambda: process.errors.read_text().endswith("\n"))
        assert process.errors.read_text().startswith("holdfast: dead letter ")


def test_uncaught_errors_and_odd_values_are_objects() -> None:
    formatter = logs.JsonLines("worker-12")
    formatter.fleet = "f"
    try:
        raise KeyError("line\nend")
    except KeyError as error:
        record = logs._log.makeRecord(
            "holdfast.x",
            40,
            "file",
            1,
            "%s",
            ("\udcff \u2028",),
            (KeyError, error, error.__traceback__),
            extra=logs.ids(partition=3, odd=object()),
        )
    text = formatter.format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert (found["worker"], found["partition"]) == (12, 3)
    assert "KeyError" in found["traceback"]
