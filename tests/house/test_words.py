"""Goal: nothing in the repository depends on one person's machine or one package index."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# None of these patterns matches its own text, so this file is checked like every other.
FORBIDDEN = {
    "a path of one person's machine": re.compile(
        r"(?<![\w.~)}-])/(?:home|Users)/\w|(?<![\w.~)}-])/(?:root|work)/|\b[A-Z]:\\Users\\"
    ),
    "the host of a package index": re.compile(
        r"\b(?:pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:org|com))\b"
        r"|--(?:extra-)?index-url[ =]\S"
    ),
}


def text_files(root: Path) -> list[Path]:
    """What git tracks or would track; where there is no git (an unpacked archive) every file
    outside the folders that .gitignore names."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
        files = [root / name for name in listed.decode().split("\0") if name]
    else:
        named = root / ".gitignore"
        ignored = {x.strip("/") for x in named.read_text().split()} if named.exists() else set()
        files = [f for f in sorted(root.rglob("*")) if not ignored & {*f.relative_to(root).parts}]
    return [file for file in files if file.is_file() and is_text(file)]


def is_text(file: Path) -> bool:
    content = file.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def findings(root: Path) -> list[str]:
    """One line for every forbidden text in the files of `root`."""
    return [
        f"{file.relative_to(root)}:{number}: {what}: {match.group()}"
        for file in text_files(root)
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        for what, pattern in FORBIDDEN.items()
        if (match := pattern.search(line))
    ]


def test_the_repository_is_free_of_them() -> None:
    assert ROOT / "pyproject.toml" in text_files(ROOT), "nothing was checked"
    assert findings(ROOT) == []


# The samples are put together here, so that this file does not hold them.
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cd /{}/anna/holdfast".format("home"), "machine"),
        ("path = '/{}/anna'".format("Users"), "machine"),
        ("/{}/.cache/pip".format("root"), "machine"),
        ("see /{}/notes.md".format("work"), "machine"),
        ("https://{}/simple".format("pypi" + ".org"), "package index"),
        ("https://files.{}/x".format("pythonhosted" + ".org"), "package index"),
        ("pip install --{} https://mirror".format("index" + "-url"), "package index"),
    ],
)
def test_each_kind_is_found(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "notes.md").write_text(f"fine\n{line}\n")
    found = findings(tmp_path)
    assert len(found) == 1
    assert found[0].startswith("deep/notes.md:2: ")
    assert what in found[0]


@pytest.mark.parametrize(
    "line",
    [
        "src/work/part.py",
        "./work/part.py",
        "the home/away team",
        "/usr/bin/env bash",
        "/tmp/holdfast-data",
        "a package on PyPI",
    ],
)
def test_ordinary_text_passes(tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.md").write_text(line)
    assert findings(tmp_path) == []


def test_binary_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes("/{}/anna\0".format("home").encode())
    assert findings(tmp_path) == []


def test_files_that_git_does_not_know_yet_are_read(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("ignored.md\n")
    (tmp_path / "ignored.md").write_text("/{}/anna".format("home"))
    (tmp_path / "new.md").write_text("/{}/anna".format("home"))
    assert [line.split(":")[0] for line in findings(tmp_path)] == ["new.md"]


def test_in_an_unpacked_archive_ignored_folders_are_left_out(tmp_path: Path) -> None:
    """`make test` has made them there."""
    (tmp_path / ".gitignore").write_text(".venv/\n__pycache__/\n")
    for name in (".venv", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.md").write_text("/{}/anna".format("home"))
    assert [line.split(":")[0] for line in findings(tmp_path)] == ["src/notes.md"]
