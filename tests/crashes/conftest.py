"""Crash states live in memory where the machine has such a place: thousands of them are written."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes import workload
from tests.crashes.script import Run


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    memory = Path("/dev/shm")
    fast = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory if fast else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def run(place: Path) -> Run:
    """The workload, recorded once."""
    base = place / "recorded"
    base.mkdir()
    return workload.run(base)
