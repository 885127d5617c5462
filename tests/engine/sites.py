"""Handles of a fleet on Kafka, as if on several machines."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Limits
from holdfast.stepping.commit import Outgoing
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import Owner, messages


class Site:
    """Handles of one fleet, each with a folder of its own, and other prefixes beside it."""

    def __init__(self, bootstrap: str, folder: Path, closing: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._closing = closing
        self.prefix = f"site-{uuid.uuid4().hex[:8]}"

    def settings(self, machine: str = "a", place: str = "", **limits: float) -> KafkaSettings:
        return KafkaSettings(
            self._bootstrap,
            self.prefix + place,
            Limits(**limits),  # type: ignore[arg-type]
            cache=self._folder / machine,
        )

    def open(
        self, machine: str = "a", place: str = "", partitions: int = 2, **limits: float
    ) -> KafkaEngine:
        engine = KafkaEngine(self.settings(machine, place, **limits), FLEET, partitions)
        self._closing.callback(engine.close)
        return engine

    def planted(self, place: str) -> KafkaEngine:
        engine = KafkaEngine(self.settings("planted", place), FLEET)
        self._closing.callback(engine.close)
        return engine


@pytest.fixture
def site(kafka: str, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as closing:
        yield Site(kafka, tmp_path, closing)


def sends(owner: Owner, destination: int, first: int, count: int = 1) -> dict[str, Any]:
    """Parts of a commit that sends messages."""
    frame = messages(owner.claim.incarnation, first, count).encoded
    return {
        "outgoing": [Outgoing(destination, first, count, frame)],
        "sent_next": {destination: first + count},
    }
