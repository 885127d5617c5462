"""The worker: a plain loop over the partitions it was granted. `tick()` advances it once.

No threads and no processes here; the clock and the engine are handed in. Who runs it decides:
a background thread of `fleet.open`, a process under the supervisor, or a simulator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from math import inf
from time import thread_time

from holdfast.engine.port import Engine, Granted
from holdfast.engine.stamping import Clock, system_clock
from holdfast.errors import AccessDenied, Fenced, TryAgain
from holdfast.model.fleet import FleetModel
from holdfast.runtime import logs
from holdfast.runtime.kernels import kernels_of
from holdfast.runtime.metering.meter import PartitionMeter
from holdfast.runtime.partition import Partition
from holdfast.runtime.schemas import agree, states_in_use
from holdfast.runtime.tracing.spans import Tracer

DECLARE_SECONDS = 10.0  # until it is tried again
IDLE_SECONDS_MAX = 0.5  # a worker looks around this often even if nobody wakes it

_log = logging.getLogger("holdfast.worker")


class Worker:
    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        wanted: Sequence[int] | None,
        clock: Clock = system_clock,
        called: Callable[[], None] = lambda: None,
        *,
        metered: bool = False,
        tracer: Tracer | None = None,
    ) -> None:
        """`called` is told when calls were committed, so that whoever runs them need not look.

        With None wanted, the engine says which partitions this worker has. Who is `metered` counts
        what it commits; a `tracer` gets spans of it.
        """
        self._fleet = fleet
        self._engine = engine
        self._wanted = None if wanted is None else list(wanted)
        self._clock = clock
        self._called = called
        self._metered = metered
        self._tracer = tracer
        self._cpu_seen = 0.0
        self._codebook, self.generation = agree(fleet, engine.catalog, states_in_use(engine))
        self._declares_at = 0.0  # of the uptime; never once it has
        self._kernels = kernels_of(fleet)
        self.partitions: dict[int, Partition] = {}
        self.fenced: dict[int, str] = {}
        self.alarms: dict[int, str] = {}

    def tick(self) -> bool:
        """Take what was granted, advance every partition once. True if anything moved."""
        self._take_assignments()
        if self.partitions and self._declares_at < inf:
            self._declare()
        moved = False
        for number, partition in list(self.partitions.items()):
            try:
                moved = self._advance(partition) or moved
                self._note(number, partition.trouble)
            except Fenced as reason:
                _log.warning("partition %d: %s", number, reason, extra=logs.ids(partition=number))
                del self.partitions[number]
                self.fenced[number] = str(reason)
        return moved

    def _advance(self, partition: Partition) -> bool:
        if partition.meter is None:
            return partition.advance()
        moved = partition.advance()
        if moved:  # what was spent on looking around before is little, and counted here
            now = thread_time()
            partition.meter.cpu_seconds += now - self._cpu_seen
            self._cpu_seen = now
        return moved

    def turn(self, sleep: Callable[[float], None]) -> None:
        """Tick, then sleep for as long as there is nothing, or little, to do."""
        if not self.tick():
            self._engine.wait(self.idle_seconds())
            return
        pause = max((p.pause_seconds for p in self.partitions.values()), default=0.0)
        if pause > 0.0:
            sleep(pause)

    def _take_assignments(self) -> None:
        for change in self._engine.assignments(self._wanted, self.generation):
            if isinstance(change, Granted):
                claim = change.claim
                began = self._clock().uptime
                meter = PartitionMeter(claim.partition) if self._metered else None
                partition = self.partitions[claim.partition] = Partition(
                    claim,
                    self._engine,
                    self._fleet,
                    self._codebook,
                    self._clock,
                    self._called,
                    self._kernels,
                    meter,
                    self._tracer,
                )
                if meter is not None:
                    now = self._clock()
                    meter.claimed(claim.epoch, now.uptime - began, now.wall, partition.stepper)
                if self._engine.capabilities.assigns and self._has_calls(claim.partition):
                    self._called()  # whoever committed them may have died before it could say so
            else:
                self.partitions.pop(change.partition, None)

    def _declare(self) -> None:
        """Tell those who have no classes what ours are declared with beside their fields. Not
        before a claim: a program that is outdated gets none. Actions keep what they were first
        declared with: when one expires that was issued long ago is read from there."""
        if self._clock().uptime < self._declares_at:
            return
        events = [schema for schema in self._fleet.schemas() if schema.kind == "event"]
        try:
            self._engine.catalog.register(events, renew=True)
            self._declares_at = inf
        except (TryAgain, AccessDenied) as refusal:  # a full disk, brokers: folding comes first
            if self._declares_at == 0.0:
                _log.warning("events are not yet declared to those without classes: %s", refusal)
            self._declares_at = self._clock().uptime + DECLARE_SECONDS

    def _has_calls(self, partition: int) -> bool:
        return bool(self._engine.view(partition).calls(0, 1))

    def _note(self, partition: int, trouble: str | None) -> None:
        if trouble is None:
            self.alarms.pop(partition, None)
        elif self.alarms.get(partition) != trouble:
            about = logs.ids(partition=partition)
            _log.error("partition %d waits: %s", partition, trouble, extra=about)
            self.alarms[partition] = trouble

    def idle_seconds(self) -> float:
        """How long nothing can happen, unless somebody appends."""
        dues = [p.next_due for p in self.partitions.values()]
        due = min((d for d in dues if d is not None), default=None)
        if due is None:
            return IDLE_SECONDS_MAX
        return min(IDLE_SECONDS_MAX, max(0.0, due - self._clock().wall))

    def committing_seconds(self) -> float:
        """How long a commit has been under way."""
        begun = [p.committing_since for p in list(self.partitions.values())]
        since = min((each for each in begun if each is not None), default=None)
        return 0.0 if since is None else self._clock().uptime - since

    def progress(self) -> object:
        """What user code is at, or None. The same value for long means an endless loop."""
        for partition in list(self.partitions.values()):
            if partition.folding:
                subject = getattr(partition.stepper.context, "_subject", None)
                version = getattr(subject, "version", 0)
                inside = tuple(int(kind.controls[0]) for kind in partition.stepper.compiled)
                return partition.position, id(subject), version, partition.stepper.tries, inside
        return None
