"""What `holdfast run --source …` checks before it starts the process that reads the topics."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.urls import HIDDEN, hidden, parse
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.launching import Helper
from holdfast.runtime.naming import suggestion
from holdfast.runtime.sourcing.declaring import Declaration, parse_sources

MODULE = "holdfast.runtime.sourcing.process"


class SourceOptions(NamedTuple):
    """As they were given."""

    sources: Sequence[str] = ()
    brokers: str | None = None

    def helpers(self, fleet: FleetModel, url: str) -> list[Helper]:
        """One, or none. What it would be refused for is said here, once, before it starts."""
        if not self.sources:
            if self.brokers is not None:
                raise UsageError("--source-brokers without a --source: say which topics to read")
            return []
        brokers = self.brokers or ""
        settings = brokers_of(url, brokers, fleet.name)
        declared = parse_sources(self.sources, settings.prefix or "")
        for each in declared:
            check_source_classes(each, fleet)
        check_topics(settings, declared)
        covert = hidden(_whole(brokers), "HOLDFAST_HIDDEN_BROKERS") if brokers else ""
        arguments = [url, covert, fleet.name, json.dumps(list(self.sources))]
        return [Helper("source reader", MODULE, arguments)]


def brokers_of(url: str, brokers: str, fleet: str) -> KafkaSettings:
    """Where the source topics are: as given, or where the fleet is. The prefix is the fleet's."""
    engine = parse(url).kafka
    if not brokers and engine is None:
        raise UsageError("--source: say where the topics are with --source-brokers host:port")
    settings = parse(_whole(brokers)).kafka if brokers else engine
    assert settings is not None
    prefix = settings.prefix or (engine.prefix if engine is not None else None)
    return settings.named(prefix or re.sub("[^A-Za-z0-9._-]", "_", fleet))


def _whole(brokers: str) -> str:
    """As a URL; one that is hidden already stays so."""
    return brokers if brokers.startswith(("kafka://", HIDDEN)) else f"kafka://{brokers}"


def check_source_classes(declared: Declaration, fleet: FleetModel) -> None:
    agent = fleet.agents.get(declared.agent)
    if agent is None:
        raise UsageError(
            f"--source {declared.topic}: no agent {declared.agent!r} in fleet {fleet.name!r}: "
            f"{suggestion(declared.agent, sorted(fleet.agents))}"
        )
    handled = {event.__name__: event for event in agent.__holdfast__.routes}
    if declared.event is not None and declared.event not in handled:
        raise UsageError(
            f"--source {declared.topic}: {declared.agent} handles no {declared.event!r}: "
            f"{suggestion(declared.event, sorted(handled))}"
        )
    if declared.format == "protobuf":
        from holdfast.runtime.sourcing.protobuf import check_fields_of, reader_of

        if declared.event is not None:
            schema = handled[declared.event].__holdfast__.schema
            check_fields_of(declared, schema)
        else:
            reader_of(declared.descriptor, declared.message)


def check_topics(settings: KafkaSettings, declared: Sequence[Declaration]) -> None:
    try:
        from holdfast.engine.kafka.topics import Topics
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise UsageError("--source needs a client: pip install 'holdfast[kafka]'") from None
    there = Topics(settings).existing()
    for each in declared:
        if each.topic not in there:
            raise UsageError(
                f"--source {each.topic}: kafka://{settings.bootstrap} has no such topic: make it "
                f"first, or name the right one"
            )
