"""From an engine URL to an engine: `memory:`, `sqlite:PATH?name=value&…`, `kafka://host:port`,
`http://host:port`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.http.settings import HttpSettings, parse_http
from holdfast.engine.kafka.settings import OURS, KafkaSettings, is_ours, parse_kafka
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Limits
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import NotYet, UsageError

DEFAULT_URL = "sqlite:./holdfast-data"
_LATER = ("nats", "redis")
_HTTP = ("http", "https")
HIDDEN = "env:"
_KNOWN = "memory:, sqlite:PATH, kafka://host:port or http://host:port"


class EngineUrl(NamedTuple):
    scheme: str
    path: str
    partitions: int | None
    limits: Limits
    kafka: KafkaSettings | None = None
    http: HttpSettings | None = None

    @property
    def root(self) -> Path:
        if self.http is not None:
            raise UsageError(f"{self.http.place} is a gateway: run this where the data is")
        return Path(self.path or DEFAULT_URL.partition(":")[2])


def hidden(url: str, name: str = "HOLDFASTHIDDEN_URL") -> str:
    """A URL that may have a password in it, for processes we start: lists of processes are public.

    Their environment is not; `parse` finds it there.
    """
    if parse(url).kafka is None:
        return url
    os.environ[name] = _shown(url)
    return f"{HIDDEN}{name}"


def _shown(url: str) -> str:
    return os.environ.get(url.removeprefix(HIDDEN), "") if url.startswith(HIDDEN) else url


def parse(url: str) -> EngineUrl:
    url = _shown(url)
    scheme, colon, rest = url.partition(":")
    if scheme in _LATER and colon:
        raise NotYet(f"{scheme}: comes with a later release: this one has {_KNOWN}")
    if scheme in _HTTP and colon:
        return EngineUrl(scheme, "", None, Limits(), http=parse_http(url))
    if not colon or scheme not in ("memory", "sqlite", "kafka"):
        shown = f"{scheme}:…" if "@" in url else url  # there may be a password in it
        raise UsageError(f"unknown engine {shown!r}: use {_KNOWN}")
    path, _, query = rest.partition("?")
    if scheme == "kafka":
        partitions, limits = _settings(query, is_ours, OURS)
        # Without its path, which may have a password in it.
        return EngineUrl(scheme, "", partitions, limits, parse_kafka(url, limits))
    partitions, limits = _settings(query)
    return EngineUrl(scheme, path, partitions, limits)


def place_of(url: str) -> str:
    """For messages: where the data is, without secrets."""
    wanted = parse(url)
    remote = wanted.kafka or wanted.http
    return str(wanted.root) if remote is None else remote.place


def for_worker(url: str, number: int) -> str:
    """The URL for one of several workers: it finds what it kept before under its name."""
    if parse(url).kafka is None:
        return url
    url = _shown(url)
    named = f"{url}{'&' if '?' in url else '?'}instance=w{number}"
    return hidden(named, f"HOLDFASTHIDDEN_URL_{number}")


def _settings(
    query: str, others: Callable[[str], bool] = lambda name: False, more: Sequence[str] = ()
) -> tuple[int | None, Limits]:
    """`others` are settings that somebody else reads, `more` the names of those."""
    usual = dataclasses.asdict(Limits())
    kinds: dict[str, type[int] | type[float]] = {n: type(v) for n, v in usual.items()}
    partitions: int | None = None
    values: dict[str, int | float] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if others(name):
            continue
        kind = int if name == "partitions" else kinds.get(name)
        if kind is None:
            known = ", ".join(["partitions", *sorted([*kinds, *more])])
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


def fleet_at(url: str) -> str | None:
    """The name of the fleet whose data is there, if any is."""
    wanted = parse(url)
    if wanted.kafka is not None:
        from holdfast.engine.kafka.opening import fleet_on_kafka  # its library is an extra

        return fleet_on_kafka(wanted.kafka)
    if wanted.http is not None:
        from holdfast.engine.http.engine import HttpEngine  # most commands need none of it

        engine = HttpEngine(wanted.http, None)
        engine.close()
        return engine.catalog.fleet
    if wanted.scheme != "sqlite" or not SqliteCatalog.exists(wanted.root):
        return None
    catalog = SqliteCatalog(wanted.root)
    try:
        return catalog.fleet
    finally:
        catalog.close()


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
    if wanted.kafka is not None:
        from holdfast.engine.kafka.opening import open_kafka  # its library is an extra

        return open_kafka(wanted.kafka, fleet, wanted.partitions or create_partitions, faults)
    if wanted.http is not None:
        if create_partitions is not None:
            raise UsageError(
                f"{wanted.http.place} is a gateway: connect to it; a fleet is opened or run where "
                "its data is"
            )
        from holdfast.engine.http.engine import HttpEngine  # most commands need none of it

        return HttpEngine(wanted.http, fleet)
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
