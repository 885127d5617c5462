"""Clients of the library: each with what all of them share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.errors import UsageError

client_log = logging.getLogger("holdfast.kafka.client")  # what the client library says itself
client_log.addFilter(lambda line: client_log.level == logging.DEBUG)  # we say what matters

Client = TypeVar("Client")


def made(
    kind: Callable[[Any], Client],
    settings: KafkaSettings,
    options: Mapping[str, object] | None = None,
) -> Client:
    """A client that knows nobody yet. `options` are those of its kind."""
    try:
        return kind({**settings.common(), **(options or {}), "logger": client_log})
    except KafkaException as trouble:
        raise UsageError(
            f"{settings.place}: the client library refuses its settings: {trouble.args[0].str()}: "
            "correct the engine URL, or the file that ?config names"
        ) from None
