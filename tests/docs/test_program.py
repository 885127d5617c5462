"""Goal: the program on the front page is the one in examples/, runs as written.

That it is typed, as part of the README, test_code.py says.

It is the public API as a contract: whoever changes a character of it changes the contract.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks_of

EXAMPLE = ROOT / "examples" / "drones.py"
FINGERPRINT = "7a9400c28ce60cd5489c288196458c98fa01a622fd1c07ad46891af386fb1795"


def program() -> str:
    """The example without the comments in front that are for the formatter."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[first:]) + "\n"


def test_it_is_the_program_of_the_contract() -> None:
    assert hashlib.sha256(program().encode()).hexdigest() == FINGERPRINT


def test_it_is_the_program_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = [
        "\n".join(each.lines) + "\n" for each in blocks_of(readme) if each.language == "python"
    ]
    assert program() in shown


@pytest.mark.parametrize("options", [[], ["-O"]], ids=["python", "python -O"])
def test_it_runs(tmp_path: Path, options: list[str]) -> None:
    command = [sys.executable, *options, str(EXAMPLE)]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
