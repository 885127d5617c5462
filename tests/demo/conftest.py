"""One finished demo for all tests of this folder. It is only read; whoever changes it copies it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.demo.commands import demo


class Finished(NamedTuple):
    data: Path
    done: subprocess.CompletedProcess[str]

    @property
    def output(self) -> str:
        return self.done.stdout


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    data = tmp_path_factory.mktemp("demo") / "data"
    return Finished(data, demo("--seconds", 4, "--drones", 50, "--rate", 1000, "--data", data))
