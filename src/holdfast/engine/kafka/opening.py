"""Opening a fleet on Kafka: finding its prefix, and saying what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Engine
from holdfast.errors import UsageError

_CATALOG = ".catalog"


def open_kafka(
    settings: KafkaSettings, fleet: str | None, partitions: int | None, faults: FaultPoints
) -> Engine:
    with _client():
        from holdfast.engine.kafka.engine import KafkaEngine
    if settings.prefix is None:
        settings = settings.named(_usual_prefix(fleet) if fleet else _only_prefix(settings))
    return KafkaEngine(settings, fleet, partitions, faults=faults)


def fleet_on_kafka(settings: KafkaSettings) -> str | None:
    """The name of the fleet that is there, if one is."""
    with _client():
        from holdfast.engine.kafka.founding import fleet_under
    named = settings if settings.prefix else settings.named(_only_prefix(settings))
    return fleet_under(named)


def check_target(settings: KafkaSettings) -> None:
    """UsageError where a fleet is. Without a prefix it is known only from what is planted."""
    with _client():
        from holdfast.engine.kafka.planting import check_place
    if settings.prefix is not None:
        check_place(settings)


def plant_on_kafka(settings: KafkaSettings, contents: Contents, faults: FaultPoints) -> None:
    with _client():
        from holdfast.engine.kafka.planting import plant
    named = settings if settings.prefix else settings.named(_usual_prefix(contents.fleet))
    plant(named, contents, faults)


@contextmanager
def _client() -> Iterator[None]:
    """The client library is an extra."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise UsageError("kafka:// needs its client: pip install 'holdfast[kafka]'") from None


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
