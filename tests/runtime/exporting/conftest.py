"""A PostgreSQL for the whole folder, a database and the other targets for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.exporting.sinks import SINKS, Database, Sink, sink_named
from tests.servers.postgres import fresh_database, some_server


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with some_server() as url:
        yield url


@pytest.fixture
def database(server: str) -> Iterator[Database]:
    with fresh_database(server) as url:
        yield Database(url)


@pytest.fixture(params=SINKS)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sink]:
    """Each target in turn."""
    if request.param != "postgres":
        yield sink_named(request.param, tmp_path, "")
        return
    with fresh_database(request.getfixturevalue("server")) as url:
        yield sink_named("postgres", tmp_path, url)
