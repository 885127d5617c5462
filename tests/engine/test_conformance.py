"""Goal: the memory and the SQLite engine do what the engine port says, sentence by sentence."""

from pathlib import Path

import pytest

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.stamping import Clock
from holdfast.testing import FLEET, EngineConformance


class TestMemory(EngineConformance):
    capabilities = MemoryEngine.capabilities

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        return MemoryEngine(FLEET, partitions, limits, clock)

    def reopen(self, engine: Engine) -> Engine:
        engine.close()  # its data lives in the object, so the object is all there can be
        return engine


class TestSqlite(EngineConformance):
    capabilities = SqliteEngine.capabilities

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.root = tmp_path / "data"

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        SqliteEngine.create(self.root, FLEET, partitions)
        self.limits, self.clock = limits, clock
        return SqliteEngine(self.root, limits, clock)

    def reopen(self, engine: Engine) -> Engine:
        return SqliteEngine(self.root, self.limits, self.clock)
