"""The bridge: 1 take what has come, 2 decode, 3 append until durable, 4 write down what is
rejected, 5 acknowledge. One batch after the other, so a device keeps the order of its broker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError, TryAgain, UsageError
from holdfast.gateway.mqtt.address import Broker
from holdfast.gateway.mqtt.appending import Appender
from holdfast.gateway.mqtt.commanding import Commander
from holdfast.gateway.mqtt.decoding import Decoder, Row
from holdfast.gateway.mqtt.keeping import Keeping
from holdfast.gateway.mqtt.link import Came, Link
from holdfast.gateway.mqtt.rejecting import Rejected, Rejects
from holdfast.gateway.mqtt.table import Table
from holdfast.runtime.settling import IDS_AT_ONCE_MAX, Told
from holdfast.runtime.untyped import UntypedLive

MESSAGES_PER_BATCH = 65_536  # events in one send
WAIT_SECONDS = 0.2
PAUSE_SECONDS = 0.05  # before what was refused is tried again
TELL_SECONDS = 10.0

_log = logging.getLogger("holdfast.mqtt")


@dataclass
class Counts:
    taken: int = 0
    repeats: int = 0
    rejected: int = 0
    ignored: int = 0


class Bridge:
    """Works from its making to `close`; `tick` again and again takes what has come."""

    def __init__(
        self,
        engine: Engine,
        broker: Broker,
        table: Table,
        keeping: Keeping,
        *,
        from_now: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.counts = Counts()
        self._stopping = stopping
        self._told = float("-inf")
        self._decoder = Decoder(table, engine.catalog)
        self._appender = Appender(engine)
        self._rejects = Rejects(keeping.folder)
        name = broker.named(engine.catalog.fleet)
        self._live = UntypedLive(engine)
        self._keeping = keeping
        self._filters = table.filters
        gone = [each for each in keeping.filters if each not in self._filters]
        # Before the broker has them: else one that ends in between leaves some that nobody knows.
        keeping.store_filters([*self._filters, *gone])
        self.link = Link(broker, name, self._filters, gone)
        self.commander: Commander | None = None
        if table.actions:
            self.commander = Commander(
                self._live,
                self.link,
                table,
                keeping,
                expires=broker.version_5,
                from_now=from_now,
            )

    @property
    def rejected_file(self) -> Path:
        return self._rejects.path

    def tick(self) -> bool:
        """Whether something had come."""
        if self.commander is not None and self.commander.failure is not None:
            raise self.commander.failure
        if self.link.is_ready:
            self._keeping.store_filters(self._filters)
        self._rejects.tell()
        came = self.link.take(MESSAGES_PER_BATCH, WAIT_SECONDS)
        if came and self._store(came):
            self.link.acknowledge(came)
        return bool(came)

    def _store(self, came: list[Came]) -> bool:
        """False: we are told to stop first. The broker sends it again to whoever comes next."""
        rows: list[Row] = []
        told: list[Told] = []
        rejected: list[Rejected] = []
        for each in came:
            for message in each.messages:
                try:
                    row = self._decoder.row(message)
                except UsageError as error:
                    rejected.append(Rejected(message, str(error)))
                    continue
                if row is None:
                    self.counts.ignored += 1
                elif isinstance(row, Told):
                    told.append(row)
                else:
                    rows.append(row)
        batch = self._appender.batch(rows)
        while not batch.is_done:
            trouble = self._appender.advance(batch)
            if trouble is not None and not self._pauses(trouble):
                return False
        while not self._recorded(told):
            if self._stopping():
                return False
        rejected += [Rejected(each.row.of, each.reason) for each in batch.refused]
        while not self._written(rejected):
            if self._stopping():
                return False
        self.counts.taken += batch.taken + len(told)
        self.counts.repeats += batch.repeats
        self.counts.rejected += len(rejected)
        return True

    def _recorded(self, told: list[Told]) -> bool:
        try:
            for first in range(0, len(told), IDS_AT_ONCE_MAX):
                self._live.record(told[first : first + IDS_AT_ONCE_MAX])
        except TryAgain as trouble:
            self._pauses(trouble)
            return False
        return True

    def _written(self, rejected: list[Rejected]) -> bool:
        try:
            self._rejects.write(rejected)
        except TryAgain as trouble:
            self._pauses(trouble)
            return False
        return True

    def _pauses(self, trouble: HoldfastError) -> bool:
        """Nothing is acknowledged meanwhile, so the broker holds what comes. False: stop."""
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            _log.warning("messages wait with the broker: %s", trouble)
        time.sleep(PAUSE_SECONDS)
        self.link.check()
        return not self._stopping()

    def close(self) -> None:
        if self.commander is not None:
            self.commander.stop()
        self.link.close()
        self._rejects.tell(at_once=True)
        self._appender.close()
