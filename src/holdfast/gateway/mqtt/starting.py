"""What is checked before a bridge starts, and the loop around it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.gateway.mqtt.address import Broker, parse_broker
from holdfast.gateway.mqtt.decoding import classes_of
from holdfast.gateway.mqtt.keeping import Keeping, usual_folder
from holdfast.gateway.mqtt.table import Classes, Table, read_table
from holdfast.model.fleet import FleetModel
from holdfast.runtime.launching import Helper

MODULE = "holdfast.gateway.mqtt.process"

_log = logging.getLogger("holdfast.mqtt")


class BridgeOptions(NamedTuple):
    """As they were given to `holdfast run`."""

    broker: str | None = None
    table: str | None = None

    def helpers(self, fleet: FleetModel, url: str) -> list[Helper]:
        """One, or none. What it would be refused for is said here, once, before it starts."""
        if self.broker is None:
            if self.table is not None:
                raise UsageError("--mqtt-table without --mqtt: say where the broker is")
            return []
        need_client()
        parse_broker(self.broker).tls_context()
        actions = {s.name for s in fleet.schemas() if s.kind == "action"}
        known = Classes(sorted(fleet.agents), sorted(fleet.events), sorted(actions))
        read_table(self.table, known)
        arguments = [url, self.broker, self.table or "", fleet.name]
        return [Helper("MQTT bridge", MODULE, arguments)]


def need_client() -> None:
    try:
        import paho.mqtt  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("MQTT needs a client: pip install 'holdfast[mqtt]'") from None


def _line(fleet: str, broker: Broker, table: Table) -> str:
    return f"{fleet} takes {', '.join(table.filters) or 'nothing'} from {broker.place}"


def run_bridge(
    engine: Engine,
    url: str,
    broker_url: str,
    table_path: str | None,
    folder: str | None,
    stopping: Callable[[], bool],
    *,
    from_now: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Until told to stop; a line of what was done. What it takes is said once it is connected."""
    need_client()
    from holdfast.gateway.mqtt.bridge import Bridge  # its library is an extra

    broker = parse_broker(broker_url)
    broker.tls_context()
    table = read_table(table_path, classes_of(engine.catalog.schemas()))
    fleet = engine.catalog.fleet
    place = Path(folder) if folder is not None else usual_folder(url, fleet)
    keeping = Keeping(place, broker.named(fleet), fleet)
    try:
        if not keeping.acquire(stopping):
            return "another bridge was at work all the time"
        keeping.load()
        bridge = Bridge(engine, broker, table, keeping, from_now=from_now, stopping=stopping)
        try:
            told = False
            while not stopping():
                bridge.tick()
                if not told and bridge.link.is_ready:
                    told = True
                    say(_line(fleet, broker, table))
        finally:
            bridge.close()
        counts = bridge.counts
        published = bridge.commander.published if bridge.commander is not None else 0
        return (
            f"{counts.taken:,} events taken, {counts.repeats:,} repeats left out, "
            f"{counts.rejected:,} messages rejected, {published:,} commands published"
        )
    finally:
        keeping.close()
