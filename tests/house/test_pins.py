"""Goal: what `make setup` installs next month is what it installs today.

Every package that holdfast and its extras need, directly or not, has an exact version in
constraints.txt, and this environment runs that version.
"""

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
# Those that `make setup` installs.
EXTRAS = ("all", "dev", "bench")
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")


def pins(text: str) -> dict[str, str]:
    """Name to version; a line that is not an exact pin is an error."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = PIN.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"constraints.txt: {line!r} is not name==version")
        found[str(canonicalize_name(match[1]))] = match[2]
    return found


def needed(root: str, extras: frozenset[str]) -> dict[str, str]:
    """Name to installed version of all that `root[extras]` pulls in here."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        package = distribution(name)
        versions[str(canonicalize_name(name))] = package.version
        for text in package.requires or []:
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in wanted or {""}]
            marker = requirement.marker
            if marker is None or any(marker.evaluate(each) for each in environments):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return versions


def unpinned(versions: dict[str, str], pinned: dict[str, str]) -> list[str]:
    return [
        f"{name} {version} is installed, constraints.txt says {pinned.get(name, 'nothing')}"
        for name, version in sorted(versions.items())
        if pinned.get(name) != version
    ]


def test_everything_needed_is_pinned() -> None:
    versions = needed("holdfast", frozenset(EXTRAS))
    del versions["holdfast"]
    assert {"msgspec", "apsw", "pytest", "pluggy"} <= set(versions), "too little was checked"
    versions["pip"] = distribution("pip").version
    assert unpinned(versions, pins(CONSTRAINTS.read_text("utf-8"))) == []


def test_a_missing_and_a_wrong_pin_are_found() -> None:
    pinned = pins("# comment\nclick==8.1.0\n\nRich==14.0\n")
    assert unpinned({"click": "8.2.0", "rich": "14.0", "apsw": "3.51"}, pinned) == [
        "apsw 3.51 is installed, constraints.txt says nothing",
        "click 8.2.0 is installed, constraints.txt says 8.1.0",
    ]


@pytest.mark.parametrize("line", ["click>=8", "click", "click==8.*"])
def test_a_line_that_is_no_exact_pin_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="is not name==version"):
        pins(line)
