"""Goal: commands in the documents exist, with the options shown; the README's session works.

Lines behind a `$ ` in console blocks are commands. Each `holdfast` command has to know itself and
its options, each `make` target has to be in the Makefile. The session of the README is run.
"""

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.cli.commands import Running, holdfast, holdfast_here
from tests.docs.documents import DOCUMENTS, ROOT, blocks_of, commands_of, name_of

COMMANDS = [
    pytest.param(command, id=f"{name_of(document)}:{line}")
    for document in DOCUMENTS
    for line, command in commands_of(document.read_text("utf-8"))
]


@cache
def help_of(*names: str) -> str:
    """What `holdfast NAMES --help` prints; an unknown command fails here."""
    result = holdfast_here(*names, "--help", cwd=ROOT)
    later = re.search(r"^  Comes with a later release", result.stdout, re.MULTILINE)
    assert later is None, f"holdfast {' '.join(names)} is not in this release"
    return result.stdout


def names_of(words: list[str]) -> list[str]:
    """The command and, if it has commands of its own, the one that is meant."""
    names = words[:1]
    if "COMMAND [ARGS]" in help_of(*names) and words[1:] and not words[1].startswith("-"):
        names = words[:2]
    return names


def check(command: str) -> None:
    words = shlex.split(command.partition(" > ")[0])
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
        settings = re.findall(r"^([A-Z_]+ =)", makefile, re.MULTILINE)
        given = {word.partition("=")[0] + " =" if "=" in word else word for word in words[1:]}
        assert given - {"-s"} <= {*targets, *settings}, command
        return
    if words[0] == "python":
        assert list((ROOT / "examples").rglob(words[1])), f"{command}: no such example"
        return
    if words[0] == "curl":
        return  # test_http.py runs them
    assert words[0] == "holdfast", f"{command}: teach this test to check it"
    shown = help_of(*names_of(words[1:]))
    known = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", shown))
    given = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
    assert given <= known, f"{command}: no option {', '.join(sorted(given - known))}"


def test_every_command_is_documented() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    released = set(re.findall(r"^  ([a-z][a-z-]*)  ", help_of(), re.MULTILINE))
    assert {"run", "send", "doctor"} <= released
    undocumented = {name for name in released if not re.search(rf"holdfast {name}\b", text)}
    assert undocumented == set()
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert {name for name in released if f"`{name}`" not in changes} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_exists(command: str) -> None:
    check(command)


@pytest.mark.parametrize(
    "command",
    [
        "make dinner",
        "holdfast dance",
        "holdfast bench Drone/d-1",
        "python dance.py",
        "holdfast state --louder Drone/d-1",
        "holdfast dead-letters burn 0.1",
        "rm -rf data",
    ],
)
def test_a_wrong_command_is_found(command: str) -> None:
    with pytest.raises(AssertionError):
        check(command)


@pytest.mark.kill
def test_the_session_of_the_readme(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = [line for _, line in commands_of((ROOT / "README.md").read_text("utf-8"))]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("holdfast ")]
    start, *others = commands
    assert start[0] == "run"
    outputs: dict[str, str] = {}
    with Running(*start[1:], cwd=tmp_path) as fleet:
        for words in others:
            if words[0] == "state":
                words = [*words, "--after", outputs["send"].strip(), "--timeout", "120"]
            run = holdfast if words[0] == "replay" else holdfast_here  # it starts processes
            outputs[words[0]] = run(*words, cwd=tmp_path).stdout
        assert fleet.stop() == 0
    looking = {"state", "history", "actions", "doctor"}
    assert set(outputs) == {"send", *looking, "query", "replay", "snapshot", "export"}
    assert "equal" in outputs["replay"]
    assert re.search(r"battery\s+9\.0", outputs["state"])
    assert "Battery percent=9.0" in outputs["history"]
    assert "Land" in outputs["actions"]
    assert outputs["query"] == "landing\t1\n"


VAN = """
from holdfast import Agent, Context, Event, Fleet, on

class Level(Event):
    percent: float

class Van(Agent):
    {fields}

    @on
    def drained(self, event: Level, ctx: Context) -> None:
        {handler}

    {upcast}

fleet = Fleet("vans", agents=[Van])
"""
UPCAST = """
    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        return {"charge": old["level"] / 100.0} if "level" in old else old
"""


def test_the_migration_of_the_docs(tmp_path: Path) -> None:
    """Data of an older class, the script as the page has it, the command as the page has it."""
    text = (ROOT / "docs" / "agents.md").read_text("utf-8")
    (script,) = [each for each in blocks_of(text) if each.lines[0].startswith("def migrate(")]
    commands = [line for _, line in commands_of(text) if line.startswith("holdfast migrate ")]
    (tmp_path / "script.py").write_text("\n".join(script.lines) + "\n")
    old = VAN.format(fields="level: float = 100.0", handler="self.level = event.percent", upcast="")
    fill = "with fleet.open() as live:\n    for key in ('v-1', 'test-1'):\n"
    fill += "        live.send(Van, key, Level(percent=50.0))\n    live.settle()\n"
    subprocess.run([sys.executable, "-c", old + fill], cwd=tmp_path, check=True, timeout=60)
    new = VAN.format(
        fields="charge: float = 1.0", handler="self.charge = event.percent / 100.0", upcast=UPCAST
    )
    (tmp_path / "fleet.py").write_text(new)
    states = []
    for line in commands:
        holdfast_here(*shlex.split(line)[1:], cwd=tmp_path)
        states.append(holdfast_here("state", "Van", "--json", cwd=tmp_path).stdout)
    dry, done = states
    assert dry.count('"level":50.0') == 2
    assert '"charge":0.5' in done
    assert '"charge":0.0' in done
    assert "level" not in done
