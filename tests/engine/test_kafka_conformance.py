"""Goal: the Kafka engine does what the engine port says, on a real broker."""

import uuid
from pathlib import Path

import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Engine, Limits
from holdfast.engine.stamping import Clock
from holdfast.testing.conformance import FLEET, EngineConformance


class TestKafka(EngineConformance):
    capabilities = KafkaEngine.capabilities
    fault_points = frozenset(
        f"{call}.{place}"
        for call in ("append", "commit")
        for place in ("before", "inside", "after")
    ) | {"plant.inside", "plant.after"}

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, kafka: str) -> None:
        self.cache = tmp_path
        self.bootstrap = kafka

    def make_engine(self, *, partitions: int, limits: Limits, clock: Clock) -> Engine:
        prefix = f"kit-{uuid.uuid4().hex[:8]}"
        self.settings = KafkaSettings(self.bootstrap, prefix, limits, cache=self.cache)
        # Stamps are the broker's: a clock that stands still would be taken for a broken one.
        return KafkaEngine(self.settings, FLEET, partitions, faults=self.faults)

    def plant(self, contents: Contents) -> Engine:
        there = self.settings.named(f"{self.settings.prefix}-planted")
        KafkaEngine.plant(there, contents, self.faults)
        return KafkaEngine(there, FLEET, faults=self.faults)

    def reopen(self, engine: Engine) -> Engine:
        return KafkaEngine(self.settings, FLEET, faults=self.faults)
