"""A partition in the hands of its worker: read, step, commit, relay.

The phase before is the claim (engine), the phase after is a revocation or the end of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.engine.port import Claim, Engine, Loaded
from holdfast.engine.stamping import Clock, next_stamp
from holdfast.errors import Fenced, HoldfastError, OutdatedCode
from holdfast.model.fleet import FleetModel
from holdfast.runtime import logs
from holdfast.runtime.gathering import INTERVAL_SECONDS_MAX, pause
from holdfast.runtime.metering.meter import PartitionMeter
from holdfast.runtime.relay import Relay
from holdfast.runtime.tracing.spans import Committed, Tracer
from holdfast.stepping.codebook import Codebook, UnknownSchema
from holdfast.stepping.commit import Commit, Outgoing
from holdfast.stepping.inputs import Inputs, StoredFrame, read_inputs
from holdfast.stepping.lane import LANE
from holdfast.stepping.stepper import Stepper

if TYPE_CHECKING:
    from holdfast.stepping.compiled.kind import Kernel

EVENTS_PER_COMMIT_MAX = 65_536
COMPILED_PER_COMMIT_MAX = 262_144  # where all classes are compiled
EVENTS_PER_AGENT_MAX = 8  # the same, of a large fleet, if that is more
MESSAGES_MAX = 100_000  # where a commit had more, commits of a large fleet are as of others
COMMIT_BYTES_MAX = 256 * 1024 * 1024  # a larger one is folded again in smaller parts
URGENT_PER_COMMIT_MAX = 1024  # events of the lane per commit
LOOK_SECONDS = 0.005  # so often it is looked into while a batch is folded
HOLD_SECONDS = 1.0  # how long a partition rests before it looks again at what held it up
LETTERS_LOGGED = 10  # per commit; all of them are stored
CLEAR_SECONDS = 0.5  # an idle partition clears its delivered messages after this long
CONDEMNED_ATTEMPTS = 2  # deaths of one event folded alone before it is not run any more
CONDEMNED = "it ended its worker again and again, also when it was folded alone"

_log = logging.getLogger("holdfast.worker")
_agent_log = logging.getLogger("holdfast.agent")


class Partition:
    def __init__(
        self,
        claim: Claim,
        engine: Engine,
        fleet: FleetModel,
        codebook: Codebook,
        clock: Clock,
        called: Callable[[], None] = lambda: None,
        kernels: Mapping[str, Kernel] | None = None,
        meter: PartitionMeter | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.claim = claim
        self.number = claim.partition
        self._engine = engine
        self._codebook = codebook
        self._clock = clock
        self._called = called
        self._held_up_by: str | None = None
        self._relay = Relay(engine, claim.incarnation)
        self._pending: Commit | None = None
        self._events_max = EVENTS_PER_COMMIT_MAX
        self._too_many = 0  # events that made a commit too large, last time that happened
        self._many_messages = False  # in some commit: all of them are in memory at once
        self._more = False  # the newest commit took as many as it may: more waits already
        self.folding = False  # user code runs now
        self.committing_since: float | None = None
        self.pause_seconds = 0.0
        self._sends = 0  # that the newest commit took
        self.draining = False  # a rescaling waits: timers are left to the partitions to come
        self._rest_until = 0.0
        self._last_moved = 0.0
        self._alone = claim.alone
        self._kept: Inputs | None = None
        self._looked = 0.0  # into the lane, last
        self._put_off: list[Inputs] = []  # read already, when something urgent went first
        self._lane_end = 0  # when that was read
        self._condemned = claim.alone and claim.attempts >= CONDEMNED_ATTEMPTS
        self._fleet = fleet
        self._kernels = kernels
        self.meter = meter
        self._tracer = tracer
        self._batch: list[Inputs] = []  # what the commit under way takes
        self._urgent: list[Inputs] = []  # and of the lane
        loaded = self._load()
        self._instant = loaded.stamp  # so that a clock that jumped while nobody folded is noticed
        self._relay.add(Outgoing(*row) for row in loaded.outbox)
        self._alone_until = self.position + (EVENTS_PER_COMMIT_MAX if claim.alone else 0)

    def _load(self) -> Loaded:
        self._put_off = []
        view = self._engine.view(self.number)
        layout = self._engine.catalog.layout
        self.stepper = Stepper(
            self._fleet,
            layout,
            self._codebook,
            view.letter,
            view.fates_of,
            kernels=self._kernels,
        )
        loaded = self._engine.load(self.claim)
        self.stepper.load(loaded.head, loaded.sent_next, loaded.records)
        return loaded

    @property
    def position(self) -> int:
        return self.stepper.head.position

    @property
    def _most_events(self) -> int:
        """A commit writes every agent it changed: a large fleet in a table takes larger steps."""
        most = EVENTS_PER_COMMIT_MAX
        if self.stepper.all_compiled:
            large = 0 if self._many_messages else EVENTS_PER_AGENT_MAX * self.stepper.rows
            most = max(COMPILED_PER_COMMIT_MAX, large)
        return max(1, min(most, self._too_many // 2)) if self._too_many else most

    @property
    def next_due(self) -> float | None:
        """When the next timer is due; None while the partition rests or may not fold."""
        idle = self._outbox_full or self._resting(self._clock().wall)
        return None if idle else self.stepper.agenda.next_due

    @property
    def _outbox_full(self) -> bool:
        """Then the relay has to catch up first; appends elsewhere never wait for us."""
        return self._relay.messages_waiting > self._engine.limits.outbox_messages_max

    @property
    def messages_waiting(self) -> int:
        return self._relay.messages_waiting

    @property
    def trouble(self) -> str | None:
        """Why this partition, or a message from it, waits. None if nothing does."""
        return self._held_up_by or self._relay.trouble

    def _resting(self, now: float) -> bool:
        # Two-sided, so that a clock set back does not turn a rest into a sleep.
        return self._rest_until - 2 * HOLD_SECONDS < now < self._rest_until

    def advance(self) -> bool:
        """One turn: 1 finish what waits, 2 fold, 3 commit, 4 relay. True if anything moved."""
        self.pause_seconds = 0.0
        if self._resting(self._clock().wall):
            return False
        self._held_up_by = None
        try:
            now = self._tell_time()
            if self._pending is None:
                self._pending = self._fold(now)
            moved = (commit := self._pending) is not None
            if commit is not None:
                self._commit(commit)
            moved = self._deliver(now) or moved
        except Fenced:
            raise
        except HoldfastError as trouble:
            # Newer events, a full disk, a clock that jumped, a damaged frame: what waits is safe,
            # nothing is skipped, and it goes on once the reason is gone.
            self._rest(str(trouble))
            return False
        if moved:
            self._last_moved = now
            if commit is not None:
                self.pause_seconds = self._pause_after(commit)
        return moved

    def _pause_after(self, commit: Commit) -> float:
        if self._more or self._put_off:
            return 0.0
        events = commit.head.position - commit.before.position
        agents = len(commit.records) + sum(block.count for block in commit.blocks)
        took = self._clock().uptime - self._instant.uptime
        interval = min(INTERVAL_SECONDS_MAX, self._engine.limits.commit_interval_seconds)
        return max(interval - took, pause(events, self._sends, agents, took))

    def _tell_time(self) -> float:
        """The clock, as long as it does not outrun time: timers must not fire by a jump."""
        jump = self._engine.limits.clock_jump_seconds_max
        self._instant = next_stamp(self._instant, self._clock(), jump)
        return self._instant.wall

    def _fold(self, now: float) -> Commit | None:
        if self._outbox_full:
            return None
        batch = self._put_off or self._read()
        urgent = self._read_urgent()  # behind the inbox: so whatever came with that is seen
        first = bool(urgent) and (not self._put_off or self._goes_first(urgent))
        if self._alone and not self._put_off:
            self._lane_end = LANE + self._engine.view(self.number).urgent_next()
        self._put_off = batch if first else []
        if first:
            batch = []  # what is urgent has a commit of its own, and with the next one all goes on
        elif self._alone:
            urgent = []  # it came later, and waits once: of two nobody would know which kills
        self._sends = len(batch) + len(urgent)
        self._batch, self._urgent = batch, urgent
        self._looked = self._clock().uptime
        waits = bool(batch or urgent)
        due = None if self.draining else self.stepper.agenda.next_due
        clear = bool(self._relay.delivered) and (
            waits or self.draining or abs(now - self._last_moved) > CLEAR_SECONDS
        )
        if not waits and not clear and (due is None or due > now):
            return None
        # Behind a batch more may wait that came before a timer was due: the clock fires timers only
        # when nothing waits in the inbox, and until then the stamps of the frames do.
        idle = not (batch or self._put_off or self.draining)
        commit = self._step(urgent, batch, now if idle else None)
        if commit.size_bytes > COMMIT_BYTES_MAX and self._events_max > 1:
            self._too_many = sum(map(len, batch)) + len(urgent)
            self._events_max = max(1, self._events_max // 16)
            self._relay.delivered = commit.relayed
            self._load()
            return self._fold(now)
        return None if commit.empty else commit

    def _step(self, urgent: list[Inputs], batch: list[Inputs], clock: float | None) -> Commit:
        condemned = None
        if self._condemned and bool(urgent) == self.claim.urgent:  # or something else goes first
            condemned, self._condemned = CONDEMNED, False
            self._alone_until = self.position + (not urgent)  # found: behind it, batches again
        relayed = self._relay.take_delivered()
        # With both, the next worker finds out: it begins with the lane.
        place = self.position if batch or not urgent else LANE + self.stepper.head.urgent
        self._engine.folding(self.claim, place)
        self.folding = True
        try:
            commit = self.stepper.step(
                batch,
                clock,
                relayed,
                urgent=urgent,
                alone=self._alone,
                condemned=condemned,
                overtaken=self._overtaken,
            )
        except MemoryError:
            raise  # like any death: the mark stays, and a fresh process tries again
        except Exception as error:
            self._relay.delivered = relayed
            self._load()  # memory may be half-way: start again from what is committed
            if isinstance(error, HoldfastError):  # it goes on here; anything else ends the worker
                self._engine.folding(self.claim, None)
            raise
        finally:
            self.folding = False
        # What is no Exception ends the worker. Its mark stays, so that it counts as a death here.
        self._engine.folding(self.claim, None)
        return commit

    def _read(self) -> list[Inputs]:
        """What waits, from our position on, up to the first frame that newer code has to fold."""
        position = self.position
        self._more = False
        if self._alone:
            return self._read_one(position)
        most = self._events_max
        batch: list[Inputs] = []
        count = 0
        for stored in self._engine.read(self.number, position, most):
            if self.meter is not None:
                self.meter.read_bytes += len(stored.frame)
            try:
                inputs = self._decode(stored)
            except OutdatedCode:
                if not batch:
                    raise
                break
            start = max(0, position - inputs.first)
            stop = min(len(inputs), start + most - count)
            if start or stop < len(inputs):
                inputs = inputs.part(start, stop)
            batch.append(inputs)
            count += len(inputs)
            if count >= most:
                self._more = True
                break
        return batch

    def _overtaken(self) -> bool:
        """Whether something urgent has come while a batch is folded. Asked between its frames."""
        now = self._clock().uptime
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        place = LANE + self.stepper.head.urgent + len(self._urgent)
        found = bool(self._engine.read(self.number, place, 1))
        self._more |= found
        return found

    def _read_urgent(self) -> list[Inputs]:
        """What waits in the lane. What newer code has to fold there holds up everything."""
        most = 1 if self._alone else min(URGENT_PER_COMMIT_MAX, self._events_max)
        stored = self._engine.read(self.number, LANE + self.stepper.head.urgent, most)
        return [self._decode(each) for each in stored[:most]]

    def _goes_first(self, urgent: list[Inputs]) -> bool:
        """Whether the lane has some that what was put off must not overtake."""
        if self._alone:  # one by one, so those that waited when it was read are counted
            return urgent[0].first < self._lane_end
        return bool(self._engine.read(self.number, urgent[-1].first + 1, 1))

    def _read_one(self, position: int) -> list[Inputs]:
        """The next event only; its frame is kept, because the next ones are in it too."""
        kept = self._kept
        if kept is None or not kept.first <= position < kept.first + len(kept):
            found = self._engine.read(self.number, position, 1)
            kept = self._kept = self._decode(found[0]) if found else None
        if kept is None:
            return []
        return [kept.part(position - kept.first, position - kept.first + 1)]

    def _decode(self, stored: StoredFrame) -> Inputs:
        try:
            return read_inputs(stored, self._codebook)
        except UnknownSchema:
            self._codebook.learn(self._engine.catalog.schemas())
            return read_inputs(stored, self._codebook)

    def _commit(self, commit: Commit) -> None:
        self.committing_since = since = self._clock().uptime
        try:
            self._engine.commit([(self.claim, commit)])
        finally:
            self.committing_since = None
        self._pending = None
        if self.meter is not None:
            self._measure(commit, self.meter, since)
        if self._tracer is not None:
            self._trace(commit, self._tracer)
        self._batch, self._urgent = [], []  # frames are large
        self._engine.compact(self.claim, self.stepper.images)
        if not self._engine.capabilities.delivers_messages:
            self._relay.add(commit.outgoing)
        self._many_messages |= sum(out.count for out in commit.outgoing) > MESSAGES_MAX
        if commit.calls:
            self._called()
        self._log_lines(commit)
        self._events_max = min(self._most_events, self._events_max * 2)
        for kind in self.stepper.compiled:
            if (complaint := kind.complaint()) is not None:
                _log.warning("%s", complaint)
        if self._alone and self.position >= self._alone_until:
            self._alone = False

    def _log_lines(self, commit: Commit) -> None:
        """What handlers have logged, and what has become a dead letter, now that it is true."""
        about = {"partition": self.number, "commit": commit.head.commits}
        for line in commit.logs:
            level = logging.getLevelName(line.level.upper())
            own = logs.ids(**about, agent=line.agent, key=line.key, **logs.trace_ids(line.trace))
            _agent_log.log(level, "%s/%s: %s", line.agent, line.key, line.text, extra=own)
        traces = {each.position: each.trace for each in commit.traced if each.error}
        for letter in commit.letters[:LETTERS_LOGGED]:
            name = f"{self.number}.{letter.id}"
            own = {"agent": letter.agent, "key": letter.key, "position": letter.position}
            own |= logs.trace_ids(traces.get(letter.position, ""))
            _log.warning(
                "dead letter %s: %s/%s: %s",
                *(name, letter.agent, letter.key, letter.error),
                extra=logs.ids(**about, **own, letter=name),
            )
        if len(commit.letters) > LETTERS_LOGGED:
            more = len(commit.letters) - LETTERS_LOGGED
            _log.warning("and %d more dead letters", more, extra=logs.ids(**about))

    def _trace(self, commit: Commit, tracer: Tracer) -> None:
        rows = self.stepper.traced_rows
        if commit.traced or rows:
            now = self._clock().wall
            told = Committed.of(self._fleet.name, self.number, commit, rows, now)
            tracer.add(told.size, told.spans)

    def _measure(self, commit: Commit, meter: PartitionMeter, since: float) -> None:
        now = self._clock()
        folded = since - self._instant.uptime
        meter.committed(self._batch, self._urgent, commit, now, folded, now.uptime - since)

    def _deliver(self, now: float) -> bool:
        """Hand over what waits. True if anything went; who is refused waits, and stops nobody."""
        return self._relay.messages_waiting > 0 and self._relay.deliver(now) > 0

    def _rest(self, reason: str) -> None:
        self._rest_until = self._clock().wall + HOLD_SECONDS
        self._held_up_by = reason
