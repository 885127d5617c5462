"""Goal: every Python block in the documents runs, in order, and passes `mypy --strict`.

The blocks of one document are one program, run by a fresh Python in an empty directory. Its lines
stand where they stand in the document, so that a traceback names the line to look at. A block that
begins with `# file: NAME` is a program of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, files_of, name_of, program_of

WITH_CODE = [each for each in DOCUMENTS if "```python\n" in each.read_text("utf-8")]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # No PYTHONPATH: a reader has the installed package and nothing else.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def program_name(document: Path) -> str:
    """`time.py` would stand before the module of that name."""
    return f"page_{document.stem.replace('-', '_')}.py"


# What a program that shows a failure says of it.
SAID = {
    "deliveries.py": "call vans/Van/v-2/1/call1: error: ValueError: no address (deliveries.py, "
}


def test_the_documents_that_teach_have_code() -> None:
    assert {name_of(each) for each in WITH_CODE} >= {
        "README.md",
        "docs/agents.md",
        "docs/write-an-engine.md",
    }


@pytest.mark.parametrize("document", WITH_CODE, ids=name_of)
def test_the_code_runs(document: Path, tmp_path: Path) -> None:
    program = tmp_path / program_name(document)
    program.write_text(program_of(document.read_text("utf-8")), "utf-8")
    result = run([program.name], tmp_path)
    assert result.returncode == 0, f"{name_of(document)}\n{result.stdout}{result.stderr}"


FILES = {
    name: text for each in WITH_CODE for name, text in files_of(each.read_text("utf-8")).items()
}


@pytest.mark.parametrize("name", FILES)
def test_a_block_that_is_a_file_runs_as_a_program(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name], "utf-8")
    result = run([name], tmp_path)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    said = result.stderr.splitlines()
    assert len(said) == (name in SAID), said
    assert not said or said[0].startswith(SAID[name])


def test_the_code_is_typed(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    for document in WITH_CODE:
        program = tmp_path / program_name(document)
        program.write_text(program_of(document.read_text("utf-8")), "utf-8")
    files = sorted(each.name for each in tmp_path.glob("*.py"))
    # From outside the repository, so that a user's settings apply and not ours.
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "documents")]
    result = run(["-m", "mypy", "--strict", *cache, *files], tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_wrong_block_is_found(tmp_path: Path) -> None:
    text = "# Title\n\n```python\nnumber = 1\n```\n\nAnd:\n\n```python\nassert number == 2\n```\n"
    (tmp_path / "wrong.py").write_text(program_of(text))
    result = run(["wrong.py"], tmp_path)
    assert result.returncode == 1
    assert 'wrong.py", line 10' in result.stderr
