"""What all tests of crash states share: one recorded run, and one place."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes import workload
from tests.crashes.script import Run


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def run(place: Path) -> Run:
    """The workload, recorded once."""
    base = place / "recorded"
    base.mkdir()
    return workload.run(base)
