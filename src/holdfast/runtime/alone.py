"""Working on data that nobody folds: rescaling, migrating."""

from __future__ import annotations

from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import UsageError


def hold_alone(engine: Engine, url: str, verb: str) -> None:
    """Raises InUse where somebody folds, UsageError where nothing is kept."""
    if isinstance(engine, SqliteEngine):
        engine.holder.acquire()
    elif engine.capabilities.assigns:
        from holdfast.engine.kafka.engine import KafkaEngine  # its library is an extra

        assert isinstance(engine, KafkaEngine)
        engine.check_nobody_folds()
    else:
        raise UsageError(f"{url} keeps nothing that could be {verb}: give sqlite:PATH")
