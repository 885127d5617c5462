"""From an engine URL to an engine: `memory:`, `sqlite:PATH?name=value&…`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Limits
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import NotYet, UsageError

DEFAULT_URL = "sqlite:./holdfast-data"
_LATER = ("kafka", "nats", "redis", "http", "https")


class EngineUrl(NamedTuple):
    scheme: str
    path: str
    partitions: int | None
    limits: Limits

    @property
    def root(self) -> Path:
        return Path(self.path or DEFAULT_URL.partition(":")[2])


def parse(url: str) -> EngineUrl:
    scheme, colon, rest = url.partition(":")
    if scheme in _LATER and colon:
        raise NotYet(f"{scheme}: comes with a later release: this one has memory: and sqlite:PATH")
    if not colon or scheme not in ("memory", "sqlite"):
        raise UsageError(f"unknown engine {url!r}: use memory: or sqlite:PATH")
    path, _, query = rest.partition("?")
    partitions, limits = _settings(query)
    return EngineUrl(scheme, path, partitions, limits)


def _settings(query: str) -> tuple[int | None, Limits]:
    usual = dataclasses.asdict(Limits())
    kinds: dict[str, type[int] | type[float]] = {n: type(v) for n, v in usual.items()}
    partitions: int | None = None
    values: dict[str, int | float] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        kind = int if name == "partitions" else kinds.get(name)
        if kind is None:
            known = ", ".join(["partitions", *sorted(kinds)])
            raise UsageError(f"unknown engine setting {name!r}: known are {known}")
        try:
            value = kind(text)
        except ValueError:
            raise UsageError(f"engine setting {name}={text!r} is no {kind.__name__}") from None
        if not value > 0:  # nor is nan
            raise UsageError(f"engine setting {name}={text!r} must be more than 0")
        if name == "partitions":
            partitions = int(value)
        else:
            values[name] = value
    return partitions, Limits(**values)  # type: ignore[arg-type]


def open_engine(
    url: str,
    fleet: str | None,
    *,
    create_partitions: int | None = None,
    faults: FaultPoints = no_faults,
) -> Engine:
    """Open what the URL names; `create_partitions` lays out a new one if there is none yet."""
    wanted = parse(url)
    if wanted.scheme == "memory":
        if fleet is None:
            raise UsageError("memory: lives in one process only: open it with fleet.open")
        partitions = wanted.partitions or create_partitions or 1
        return MemoryEngine(fleet, partitions, wanted.limits, faults=faults)
    check_root(wanted.root)
    if not SqliteCatalog.exists(wanted.root):
        if create_partitions is None or fleet is None:
            raise UsageError(
                f"{wanted.root}: no fleet here: start one with `holdfast run fleet.py "
                f"--engine sqlite:{wanted.root}`, or name the right directory"
            )
        SqliteEngine.create(wanted.root, fleet, wanted.partitions or create_partitions)
    engine = SqliteEngine(wanted.root, wanted.limits, faults=faults)
    if fleet is not None:
        try:
            engine.catalog.check_fleet(fleet)
        except BaseException:
            engine.close()
            raise
    return engine
