"""The feed: one consumer per process that follows topics and hands on what is committed there.

It belongs to no group: who follows a partition says so and from where. A thread fetches; records go
to the *sink* of their partition, which knows how far it has come. A sink that has trouble, or more
than it can take, is left alone for a while, and the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import admin_of, error_of, explain, is_refusal
from holdfast.errors import DamagedData, HoldfastError, UsageError

# The consumer is touched by its own thread only: it lets nobody else in while it polls. So this is
# how long one waits who begins to follow.
POLL_SECONDS = 0.01
# How long a broker holds an empty answer back. Only then we learn that nothing but the marks of
# transactions is left: a tenth of a second for whoever waits for the end of a topic.
FETCH_WAIT_MILLISECONDS = 50
RECORDS_AT_ONCE = 2_000
RETRY_SECONDS = 0.5
ASK_AGAIN_SECONDS = 0.02
STEP_BACK_SECONDS = 0.001
ASK_SECONDS = 10.0  # brokers answer within milliseconds, or a new leader is being chosen

_log = logging.getLogger("holdfast.engine")


class Place(NamedTuple):
    topic: str
    partition: int


class Sink(Protocol):
    """What takes the records of one partition of a topic, on the thread of the feed."""

    @property
    def next_offset(self) -> int:
        """Everything before it is taken."""

    @property
    def full(self) -> bool:
        """It takes no more for now."""

    def take(self, records: Sequence[Message]) -> None:
        """Some that are behind `next_offset` already may come again."""


class Feed:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._consumer = made(
            Consumer,
            settings,
            {
                "group.id": f"{settings.prefix}.feed",  # the library insists; nobody joins it
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": FETCH_WAIT_MILLISECONDS,
                "fetch.queue.backoff.ms": 5,  # a second, if left alone, once 64 MiB wait here
                "max.partition.fetch.bytes": 8 * 1024 * 1024,
            },
        )
        self._admin = admin_of(settings)
        self._sinks: dict[Place, Sink] = {}
        self._read: dict[Place, Sink] = {}  # what the consumer has been told to fetch
        self._missed: set[Place] = set()  # the consumer is behind what their sinks have not taken
        self._known: set[str] = set()
        self._reached: dict[Place, int] = {}
        self._troubles: dict[Place, HoldfastError] = {}
        self._resting: dict[Place, float] = {}  # until when; those that are full too
        self._serving = threading.RLock()  # while a sink takes, or the table of sinks changes
        self._waiting = threading.Lock()
        self._wanted = 0  # how many wait for the table, or have it
        self._changed = threading.Condition(threading.Lock())
        self._lost_track = False  # of what the consumer has given
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="holdfast-feed", daemon=True)
        self._thread.start()

    # Who follows what.

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The table of sinks. The thread of the feed, which has it most of the time, steps back."""
        with self._waiting:
            self._wanted += 1
        try:
            with self._serving:
                yield
        finally:
            with self._waiting:
                self._wanted -= 1

    def follow(self, place: Place, sink: Sink) -> None:
        with self._turn():
            self._check_open()
            if place in self._sinks:
                return
            self._sinks[place] = sink
            self._reached[place] = sink.next_offset
            self._missed.add(place)  # the end, if it was read until a moment ago: it is told once

    def leave(self, place: Place) -> None:
        """Once this returns, the sink is not called any more."""
        with self._turn():
            self._sinks.pop(place, None)
            self._reached.pop(place, None)
            self._troubles.pop(place, None)
            self._resting.pop(place, None)
        with self._changed:
            self._changed.notify_all()

    def follows(self, place: Place) -> bool:
        return place in self._sinks

    # How far it is.

    def end(self, place: Place, seconds: float = ASK_SECONDS) -> int:
        """The offset behind all that is committed.

        Asked through another client: the consumer must not be asked while it polls.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._ask(place, latest, seconds=min(seconds, ASK_SECONDS))

    def acknowledged_end(self, place: Place) -> int:
        """The offset behind all that was acknowledged.

        `end` may be before it: an open transaction hides what others have appended behind its
        first record, until it is decided.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._ask(place, latest, IsolationLevel.READ_UNCOMMITTED)

    def beginning(self, place: Place) -> int:
        return self._ask(place, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def offset_at(self, place: Place, wall: float) -> int:
        """The first record that is not older; the end where there is none."""
        found = self._ask(place, OffsetSpec.for_timestamp(int(wall * 1000)))
        return self.end(place) if found < 0 else found

    def delete_before(self, place: Place, offset: int) -> None:
        """Records that nobody needs any more. Whoever still reads there is told by the broker."""
        self._look_for_leaders(place.topic)
        asked = self._admin.delete_records([TopicPartition(*place, offset)])
        for future in asked.values():
            try:
                future.result()
            except KafkaException as trouble:
                doing = f"deleting old records of {place.topic}"
                raise explain(error_of(trouble), self._settings, doing) from None

    def _ask(
        self,
        place: Place,
        what: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        seconds: float = ASK_SECONDS,
    ) -> int:
        """Again and again while a new leader is being chosen, or a new topic has none yet.

        Where a leader has just gone, the client may answer without an error, and without an offset.
        """
        asked = TopicPartition(*place)
        deadline = time.monotonic() + seconds
        while True:
            self._check_open()
            left = max(ASK_AGAIN_SECONDS, deadline - time.monotonic())
            found = self._admin.list_offsets(
                {asked: what},
                isolation_level=isolation,
                request_timeout=left,
            )
            try:
                offset = int(found[asked].result().offset)
                if offset != OFFSET_INVALID:
                    return offset
                error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
            except KafkaException as trouble:
                error = error_of(trouble)
            if is_refusal(error) or time.monotonic() > deadline:
                raise explain(error, self._settings, f"looking at {place.topic}")
            time.sleep(ASK_AGAIN_SECONDS)
            left = max(ASK_AGAIN_SECONDS, deadline - time.monotonic())
            self._look_for_leaders(place.topic, left)

    def _look_for_leaders(self, topic: str, seconds: float = ASK_SECONDS) -> None:
        """The client asks whom it takes for the leader for ever, unless it is told to look."""
        try:
            self._admin.list_topics(topic, timeout=seconds)
        except KafkaException:
            pass  # whoever asks next meets the same trouble and says so

    def reached(self, place: Place) -> int:
        return self._reached.get(place, 0)

    def trouble(self, place: Place) -> HoldfastError | None:
        return self._troubles.get(place)

    def wait_until(self, place: Place, offset: int, seconds: float) -> bool:
        """Whether the sink has taken all before `offset`, at the latest after `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._reached.get(place, 0) < offset:
                if (trouble := self._troubles.get(place)) is not None:
                    raise trouble
                left = deadline - time.monotonic()
                if left <= 0.0 or self._stopping or place not in self._sinks:
                    return False
                self._changed.wait(left)
        return True

    # The thread.

    def _run(self) -> None:
        while not self._stopping:
            try:
                if self._lost_track:
                    self._begin_again()
                self._see_who_follows()
                first = self._consumer.poll(POLL_SECONDS)
                if first is not None:
                    # `consume` alone would wait until there are so many of them.
                    self._serve([first, *self._consumer.consume(RECORDS_AT_ONCE, 0.0)])
            except KafkaException as trouble:
                _log.warning("%s", explain(error_of(trouble), self._settings, "reading"))
                self._lost_track = True
                time.sleep(RETRY_SECONDS)

    def _begin_again(self) -> None:
        """Nobody knows what the consumer has passed over: all are read from where they are."""
        self._consumer.unassign()
        self._read.clear()
        self._missed.clear()
        self._lost_track = False

    def _see_who_follows(self) -> None:
        """Bring the consumer in line with the table of sinks, each from where its sink is.

        A sink that rests is taken away: what is fetched meanwhile would be dropped.
        """
        now = time.monotonic()
        with self._serving:
            for place, until in list(self._resting.items()):
                if now >= until and not self._sinks[place].full:
                    del self._resting[place]
                    self._troubles.pop(place, None)
                    self._missed.add(place)  # perhaps where its topic ends, which is told once
            wanted = {
                place: sink for place, sink in self._sinks.items() if place not in self._resting
            }
            past = [
                place
                for place, sink in self._read.items()
                if wanted.get(place) is not sink or place in self._missed
            ]
            for place in past:
                del self._read[place]
            self._missed.clear()
            new = {place: sink for place, sink in wanted.items() if place not in self._read}
            self._read |= new
            starts = [TopicPartition(*place, sink.next_offset) for place, sink in new.items()]
        if past:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in past])
        for topic in {start.topic for start in starts} - self._known:
            self._consumer.list_topics(topic, timeout=ASK_SECONDS)  # or the first look takes 1 s
            self._known.add(topic)
        if starts:
            self._consumer.incremental_assign(starts)

    def _serve(self, records: Sequence[Message]) -> None:
        """All that came of one place at once: whoever lags behind one who writes without a pause
        gets an end behind every record, and would never catch up one by one."""
        by_place: dict[Place, list[Message]] = {}
        ends: dict[Place, int] = {}
        for record in records:
            place = Place(record.topic() or "", record.partition() or 0)
            error = record.error()
            if error is None:
                by_place.setdefault(place, []).append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[place] = record.offset() or 0
            else:
                self._note_error(place, error)
        for place, some in by_place.items():
            self._give(place, some)
        for place, end in ends.items():
            self._note(place, end)

    def _give(self, place: Place, records: Sequence[Message]) -> None:
        while self._wanted:
            time.sleep(STEP_BACK_SECONDS)
        with self._serving:
            sink = self._sinks.get(place)
            if sink is None or place in self._resting or place in self._missed:
                # Whoever comes back before this thread has noticed that it was away would miss it.
                self._missed.add(place)
                return
            try:
                sink.take(records)
            except HoldfastError as trouble:
                self._rest(place, trouble)
                return
            except Exception as error:  # ours, or a kind of damage that nobody has met yet
                _log.exception("%s, partition %d", place.topic, place.partition)
                self._rest(place, DamagedData(f"{place.topic}: cannot be taken: {error!r}"))
                return
            self._note(place, sink.next_offset)
            if sink.full:
                self._rest(place, None)

    def _rest(self, place: Place, trouble: HoldfastError | None) -> None:
        if trouble is not None:
            if str(self._troubles.get(place)) != str(trouble):
                _log.error("%s, partition %d waits: %s", place.topic, place.partition, trouble)
            self._troubles[place] = trouble
            self._missed.add(place)
        self._resting[place] = time.monotonic() + (RETRY_SECONDS if trouble else 0.0)
        with self._changed:
            self._changed.notify_all()

    def _note(self, place: Place, offset: int) -> None:
        with self._changed:
            if place in self._sinks and place not in self._resting and place not in self._missed:
                self._reached[place] = max(offset, self._reached.get(place, 0))
                self._changed.notify_all()

    def _note_error(self, place: Place, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            with self._serving:
                if (sink := self._sinks.get(place)) is not None:
                    self._rest(place, gone(place, sink.next_offset))
            return
        trouble = explain(error, self._settings, f"reading {place.topic}")
        with self._serving:
            if is_refusal(error) and place in self._sinks:
                self._rest(place, trouble)
                return
        _log.warning("%s", trouble)

    def _check_open(self) -> None:
        if self._stopping:
            raise UsageError(f"{self._settings.place}: this handle is closed: open another")

    def close(self) -> None:
        if not self._stopping:
            self._stopping = True
            with self._changed:
                self._changed.notify_all()
            self._thread.join()
            self._consumer.close()
            # Each client takes one of the 1,024 keys that a process has for its threads, until it
            # is freed: not when somebody still holds this object, nor when a collector comes.
            del self._consumer, self._admin


def gone(place: Place, offset: int) -> DamagedData:
    return DamagedData(
        f"{place.topic}, partition {place.partition}: records from {offset} on are gone, and "
        "nothing else has them: restore the fleet from a snapshot, and give it a longer "
        "retain_seconds or a shorter base_seconds"
    )
