"""Goal: the memory and the SQLite engine do what the engine port says, sentence by sentence."""

import copy
import shutil
import threading
from pathlib import Path

import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.stamping import Clock
from holdfast.testing.conformance import FLEET, EngineConformance

ALL_POINTS = frozenset(
    f"{call}.{place}" for call in ("append", "commit") for place in ("before", "inside", "after")
) | {"plant.inside", "plant.after"}


def twin_of(engine: Engine) -> Engine:
    """The data lives in the object: what another process would find is a copy that shares it."""
    assert isinstance(engine, MemoryEngine)
    twin = copy.copy(engine)
    twin._granted = set()
    twin._changed = threading.Condition()
    return twin


class TestMemory(EngineConformance):
    capabilities = MemoryEngine.capabilities
    fault_points = ALL_POINTS

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        return MemoryEngine(FLEET, partitions, limits, clock, self.faults)

    def reopen(self, engine: Engine) -> Engine:
        return twin_of(engine)

    def plant(self, contents: Contents) -> Engine:
        return MemoryEngine.plant(contents, faults=self.faults)


class TestSqlite(EngineConformance):
    capabilities = SqliteEngine.capabilities
    fault_points = ALL_POINTS

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.root = tmp_path / "data"

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        SqliteEngine.create(self.root, FLEET, partitions)
        self.limits, self.clock = limits, clock
        return SqliteEngine(self.root, limits, clock, self.faults)

    def reopen(self, engine: Engine) -> Engine:
        return SqliteEngine(self.root, self.limits, self.clock, self.faults)

    def plant(self, contents: Contents) -> Engine:
        SqliteEngine.plant(self.root.with_name("planted"), contents, self.faults)
        return SqliteEngine(self.root.with_name("planted"), self.limits, self.clock, self.faults)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root.parent).free
