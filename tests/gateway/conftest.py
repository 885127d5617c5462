"""One fleet with its gateway for a file of tests that only need one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.hanging import clocks
from tests.gateway.served import Served, served

__all__ = ["clocks"]  # a fixture


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("yard")
    with served(folder) as found:
        yield found
