"""Opening a fleet on Kafka: finding its prefix, and saying what is missing."""

from __future__ import annotations

import re

from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Engine
from holdfast.errors import UsageError

_CATALOG = ".catalog"


def open_kafka(
    settings: KafkaSettings, fleet: str | None, partitions: int | None, faults: FaultPoints
) -> Engine:
    try:
        from holdfast.engine.kafka.engine import KafkaEngine
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise UsageError("kafka:// needs its client: pip install 'holdfast[kafka]'") from None
    if settings.prefix is None:
        settings = settings.named(_usual_prefix(fleet) if fleet else _only_prefix(settings))
    return KafkaEngine(settings, fleet, partitions, faults=faults)


def _usual_prefix(fleet: str) -> str:
    return re.sub("[^A-Za-z0-9._-]", "_", fleet)


def _only_prefix(settings: KafkaSettings) -> str:
    """Who reads need not name the fleet where there is but one."""
    from holdfast.engine.kafka.topics import Topics

    names = Topics(settings).existing()
    found = sorted(name.removesuffix(_CATALOG) for name in names if name.endswith(_CATALOG))
    if len(found) != 1:
        there = f"there are {', '.join(found)}" if found else "there is none"
        raise UsageError(
            f"{settings.place}: which fleet? Write its name behind the address, as in "
            f"kafka://{settings.bootstrap}/NAME: {there}"
        )
    return found[0]
