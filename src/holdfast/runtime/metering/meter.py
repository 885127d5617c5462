"""The meter of one partition: counts per commit, never per event.

What would cost a look at every event or agent is sampled instead, ten times a second at most: keys
that many events are for, sizes of states, and how old events are by their producers' clocks. It
reads no clock: whoever commits tells the time. One thread writes, another reads.
"""

from __future__ import annotations

import random
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.engine.stamping import Instant
from holdfast.runtime.metering.hot import HotKeys
from holdfast.runtime.metering.samples import EVENTS, SECONDS, Histogram, Sample, gauge
from holdfast.stepping import fields
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import Inputs

if TYPE_CHECKING:
    from holdfast.stepping.stepper import Stepper

SAMPLE_SECONDS = 0.1
FRAMES_SAMPLED_MAX = 4  # of one commit
ROWS_SAMPLED_MAX = 32  # of one commit
STATES_SAMPLED_MAX = 32  # of one commit
LARGE_STATES_KNOWN_MAX = 64
LARGE_STATES_TOLD_MAX = 5  # per partition
LARGE_STATE_BYTES = 16 * 1024  # a smaller one is not told by its key
_FEW_FRAMES = 64  # more of them are not looked at one by one
_SMOOTHING = 0.1  # of a mean: what one sampled commit moves it by

_chance = random.Random()
_T = TypeVar("_T")


class PartitionMeter:
    def __init__(self, number: int) -> None:
        self.number = number
        self.cpu_seconds = 0.0
        self.read_bytes = 0
        self._to_action = Histogram(SECONDS)
        self._age = Histogram(SECONDS)
        self._fold = Histogram(SECONDS)
        self._commit = Histogram(SECONDS)
        self._sizes = Histogram(EVENTS)
        self._commit_bytes = 0
        self._messages = 0
        self._message_bytes = 0
        self._changed = 0
        self._redriven = 0
        self._sample_after = 0.0
        self._hot = HotKeys()
        self._large: dict[tuple[str, str], int] = {}
        self._mean_bytes: dict[str, float] = {}
        self._epoch = 0
        self._load_seconds = 0.0
        self._claimed_at: float | None = None  # until the first commit
        self._pause_seconds = 0.0

    def claimed(self, epoch: int, seconds: float, now: float, stepper: Stepper) -> None:
        """The partition is ours, and its states are loaded."""
        self._epoch, self._load_seconds, self._claimed_at = epoch, seconds, now
        for name, kind in stepper.kinds.items():
            if not kind.compiled:
                saved = [c.saved for c in islice(kind.cells.values(), STATES_SAMPLED_MAX)]
                sizes = [len(each.state) for each in saved if each is not None]
                if sizes:
                    self._mean_bytes[name] = sum(sizes) / len(sizes)

    def committed(
        self,
        batch: Sequence[Inputs],
        urgent: Sequence[Inputs],
        commit: Commit,
        now: Instant,
        fold_seconds: float,
        commit_seconds: float,
    ) -> None:
        self._fold.add(fold_seconds)
        self._commit.add(commit_seconds)
        end = commit.head.position
        overtook = commit.head.urgent - commit.before.urgent
        self._sizes.add(end - commit.before.position + overtook)
        for inputs in urgent[:overtook]:
            self._to_action.add(max(0.0, now.wall - inputs.stamp))
        size, changed = len(commit.delta), len(commit.records)
        self._commit_bytes += size
        if commit.issued is not None:
            self._commit_bytes += len(commit.issued.frame)
        for out in commit.outgoing:
            self._messages += out.count
            self._message_bytes += len(out.frame)
        self._changed += changed
        for block in commit.blocks:
            self._changed += block.count
        self._redriven += len(commit.redriven)
        if batch:
            self._note_times(batch, end, now.wall)
        if now.uptime >= self._sample_after:
            self._sample_after = now.uptime + SAMPLE_SECONDS
            self._sample_events(batch, now.wall)
            self._sample_states(commit)
        elif size >= LARGE_STATE_BYTES and changed <= STATES_SAMPLED_MAX:
            # A large state is rare, and seen at once where few others are beside it.
            self._sample_states(commit)

    def _note_times(self, batch: Sequence[Inputs], end: int, now: float) -> None:
        """From the stamp of every event to this commit, which took those before `end`."""
        if self._claimed_at is not None:
            waited = batch[0].stamp < self._claimed_at
            self._pause_seconds = max(0.0, now - batch[0].stamp) if waited else 0.0
            self._claimed_at = None
        times = self._to_action
        if len(batch) <= _FEW_FRAMES:
            for inputs in batch:
                count = min(len(inputs), end - inputs.first)
                if count <= 0:
                    return
                times.add(max(0.0, now - inputs.stamp), count)
            return
        # Stamps never go back, and positions count events: one search per bucket is enough.
        for place, bound in enumerate(times.bounds):
            first = bisect_left(batch, now - bound, key=_stamp)
            begin = min(end, batch[first].first) if first < len(batch) else end
            times.counts[place] += end - begin
            end = begin
        times.counts[-1] += end - batch[0].first
        step = len(batch) // _FEW_FRAMES
        picked = batch[::step]
        mean = sum(max(0.0, now - inputs.stamp) for inputs in picked) / len(picked)
        times.sum += mean * sum(map(len, batch))

    # Samples.

    def _sample_events(self, batch: Sequence[Inputs], now: float) -> None:
        one = bool(batch) and len(batch[0]) >= ROWS_SAMPLED_MAX  # taking a large one apart costs
        frames = _some(batch, 1 if one else FRAMES_SAMPLED_MAX)
        for inputs in frames:
            if inputs.origin == "control" or not len(inputs):
                continue
            if (claimed := _event_time(inputs)) is not None:
                self._age.add(max(0.0, now - claimed))
            rows = _some(range(len(inputs)), ROWS_SAMPLED_MAX // len(frames))
            for row, key in zip(rows, _keys(inputs, rows), strict=True):
                self._hot.add(inputs.agent or inputs.agents[row], key)

    def _sample_states(self, commit: Commit) -> None:
        for record in _some(commit.records, STATES_SAMPLED_MAX):
            size = len(record.state)
            mean = self._mean_bytes.get(record.agent, float(size))
            self._mean_bytes[record.agent] = mean + _SMOOTHING * (size - mean)
            name = record.agent, record.key
            if size < LARGE_STATE_BYTES:
                self._large.pop(name, None)
                continue
            self._large[name] = size
            if len(self._large) > LARGE_STATES_KNOWN_MAX:
                del self._large[min(self._large, key=self._large.__getitem__)]

    # Telling.

    def samples(self, stepper: Stepper) -> Iterator[Sample]:
        own = {"partition": self.number}
        yield self._to_action.sample("holdfast_event_to_action_seconds", **own)
        yield self._age.sample("holdfast_event_age_seconds", **own)
        yield self._fold.sample("holdfast_fold_seconds", **own)
        yield self._commit.sample("holdfast_commit_seconds", **own)
        yield self._sizes.sample("holdfast_commit_events", **own)
        yield gauge("holdfast_partition_cpu_seconds_total", self.cpu_seconds, **own)
        yield gauge("holdfast_read_bytes_total", self.read_bytes, **own)
        yield gauge("holdfast_commit_bytes_total", self._commit_bytes, **own)
        yield gauge("holdfast_messages_total", self._messages, **own)
        yield gauge("holdfast_message_bytes_total", self._message_bytes, **own)
        yield gauge("holdfast_changed_agents_total", self._changed, **own)
        yield gauge("holdfast_redriven_total", self._redriven, **own)
        yield gauge("holdfast_claim_epoch", self._epoch, **own)
        yield gauge("holdfast_load_seconds", self._load_seconds, **own)
        yield gauge("holdfast_handover_pause_seconds", self._pause_seconds, **own)
        for hot in self._hot.hottest():
            name = "holdfast_hot_key_share"
            yield gauge(name, round(hot.share, 4), **own, agent=hot.agent, key=hot.key)
        large = sorted(self._large.items(), key=lambda each: -each[1])
        for (agent, key), size in large[:LARGE_STATES_TOLD_MAX]:
            yield gauge("holdfast_large_state_bytes", size, **own, agent=agent, key=key)
        yield from self._of_classes(stepper)

    def _of_classes(self, stepper: Stepper) -> Iterator[Sample]:
        compiled = {kind.name: kind for kind in stepper.compiled}
        for name, kind in stepper.kinds.items():
            own = {"partition": self.number, "agent": name}
            if name in compiled:
                table = compiled[name].table
                count, size = table.count, float(table.dtype.itemsize)
            else:
                count, size = len(kind.cells) + len(kind.paused), self._mean_bytes.get(name, 0.0)
            yield gauge("holdfast_agents", count, **own)
            yield gauge("holdfast_paused_agents", len(kind.paused), **own)
            if size or not count:
                yield gauge("holdfast_state_bytes", round(count * size), **own)


def _stamp(inputs: Inputs) -> float:
    return inputs.stamp


def _some(values: Sequence[_T], most: int) -> Sequence[_T]:
    """Up to `most` of them, evenly spread, from anywhere on."""
    if len(values) <= most:
        return values
    step = len(values) // most
    begin = _chance.randrange(step)
    return values[begin : begin + step * most : step]


def _event_time(inputs: Inputs) -> float | None:
    """When the first event of a frame happened, by its producer; without reading the others."""
    column = None if inputs.frame is None else inputs.frame.columns.get("event_time")
    if column is None:
        return None
    if column.kind == "f64":
        return cast(float, struct.unpack_from("<d", column.data, 8 * inputs.start)[0])
    times = inputs.event_times
    return None if times is None else times[0]


def _keys(inputs: Inputs, rows: Sequence[int]) -> list[str]:
    """Of a frame in columns only those asked for are made."""
    column = None if inputs.frame is None else inputs.frame.columns.get("key")
    if column is None or column.kind != "names":
        return [inputs.keys[row] for row in rows]
    ends, blob, codes = fields.parts_of_names(column.data)
    places = [codes[inputs.start + row] for row in rows]
    return [blob[ends[at - 1] if at else 0 : ends[at]].decode() for at in places]
