"""The member of the group PREFIX.sources: reads, re-routes, commits offsets, in this order.

All of it happens on one thread, which calls `tick`. A batch that is refused for now waits, with its
partition paused, while the group is polled on. A batch whose partition was taken away is dropped:
whoever has it now sends it, and what of it was sent here is known by its numbers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import error_of, explain, is_refusal
from holdfast.errors import Missing, TryAgain, Unreachable
from holdfast.runtime.sourcing.batching import RECORDS_PER_READ, Batch, Batcher, Place
from holdfast.runtime.sourcing.lease import Lease, now
from holdfast.runtime.sourcing.positions import Positions
from holdfast.runtime.sourcing.rejecting import Rejects
from holdfast.runtime.sourcing.rerouting import Rerouter

POLL_SECONDS = 0.1
QUEUED_KILOBYTES = 16 * 1024  # read ahead of what is sent
COMPLAIN_SECONDS = 10.0

_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID}
# The group goes on with or without us: the next poll tells which.
_REBALANCING = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
}

_log = logging.getLogger("holdfast.sources")


def group_of(prefix: str) -> str:
    return f"{prefix}.sources"


class SourceReader:
    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        positions: Positions,
        batcher: Batcher,
        rerouter: Rerouter,
        rejects: Rejects,
        lease: Lease,
    ) -> None:
        self._settings = settings
        self._positions = positions
        self._batcher = batcher
        self._rerouter = rerouter
        self._rejects = rejects
        self._waiting: dict[Place, deque[Batch]] = {}  # of partitions that are assigned
        self._expected: dict[Place, int] = {}
        self._paused: set[Place] = set()
        self._dropped: set[Place] = set()  # during the read that is under way
        self._lease = lease
        self._complained = float("-inf")
        session = int(settings.session_seconds * 1000)
        self._consumer = made(
            Consumer,
            settings,
            {
                "group.id": group_of(settings.prefix or ""),
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": max(100, session // 4),
                "max.poll.interval.ms": max(300_000, session),
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "queued.max.messages.kbytes": QUEUED_KILOBYTES,
                "fetch.queue.backoff.ms": 5,  # a second, if left alone, once so much waits
                "topic.metadata.refresh.interval.ms": 30_000,  # to notice new partitions
            },
        )
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._drop, on_lost=self._drop
        )

    def tick(self) -> None:
        """1 read, 2 append what is an event, 3 write down what is none, 4 commit the offsets."""
        self._read()
        if self._waiting and self._is_member():
            self._send()
        self._rejects.tell()
        self._hold()

    def _send(self) -> None:
        batches = [queue[0] for queue in self._waiting.values()]
        refusal = self._rerouter.append(piece for batch in batches for piece in batch.pieces)
        sent = [batch for batch in batches if batch.is_sent]
        try:
            for batch in sent:
                self._write_rejected(batch)
        except TryAgain as trouble:
            refusal = trouble
        self._commit([batch for batch in sent if batch.told])
        if refusal is not None:
            self._complain(refusal)

    # Reading.

    def _read(self) -> None:
        self._dropped.clear()
        try:
            first = self._consumer.poll(POLL_SECONDS)
            more = [] if first is None else self._consumer.consume(RECORDS_PER_READ - 1, 0)
        except KafkaException as trouble:
            raise explain(error_of(trouble), self._settings, "reading source topics") from None
        read: dict[Place, list[Message]] = {}
        for message in [] if first is None else [first, *more]:
            error = message.error()
            if error is not None:
                self._fails(error)
                continue
            place = (message.topic() or "", message.partition() or 0)
            offset = message.offset() or 0
            if place not in self._expected:
                continue  # taken away while it was on its way to us
            if offset < self._expected[place] or place in self._dropped:
                raise Unreachable(
                    f"{place[0]}[{place[1]}] goes back to {offset}: was the topic made anew, or "
                    "taken away and given back? Beginning again"
                )
            self._expected[place] = offset + 1
            read.setdefault(place, []).append(message)
        for place, messages in read.items():
            queue = self._waiting.setdefault(place, deque())
            queue.extend(self._batcher.batches(place, messages))

    def _fails(self, error: KafkaError) -> None:
        if error.code() in _GONE:
            raise Missing(
                f"{self._settings.place}: a source topic is gone ({error.str()}): make it again, "
                "or take it out of --source"
            )
        trouble = explain(error, self._settings, "reading source topics")
        if is_refusal(error):
            raise trouble
        self._complain(trouble)

    # The group.

    def _on_assign(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        begins = self._positions.begin(consumer, given)
        consumer.incremental_assign(begins)
        consumer.resume(begins)  # the library remembers what was paused when it was taken away
        self._expected |= {(each.topic, each.partition): each.offset for each in begins}

    def _drop(self, consumer: Consumer, lost: Sequence[TopicPartition]) -> None:
        """Nothing has to be committed before: what was done is committed, the rest is others'."""
        for each in lost:
            place = (each.topic, each.partition)
            self._waiting.pop(place, None)
            self._expected.pop(place, None)
            self._paused.discard(place)
            self._dropped.add(place)
        consumer.incremental_unassign(list(lost))

    def _is_member(self) -> bool:
        """Whether what waits may be sent: brokers let nobody but a member commit."""
        if self._lease.runs:
            return True
        firsts = [queue[0] for queue in self._waiting.values()]
        return self._commit_at([(batch.place, batch.first) for batch in firsts])

    def _commit(self, done: Sequence[Batch]) -> None:
        if done and self._commit_at([(batch.place, batch.following) for batch in done]):
            for batch in done:
                queue = self._waiting[batch.place]
                queue.popleft()
                if not queue:
                    del self._waiting[batch.place]

    def _commit_at(self, offsets: Sequence[tuple[Place, int]]) -> bool:
        """False: not now, or not by us."""
        marks = [self._positions.mark(*place, offset) for place, offset in offsets]
        asked = now()
        try:
            answers = self._consumer.commit(offsets=marks, asynchronous=False) or []
            errors = [each.error for each in answers if each.error is not None]
        except KafkaException as trouble:
            errors = [error_of(trouble)]
        if not errors:
            self._lease.renew(asked)
            return True
        if errors[0].code() not in _REBALANCING:
            explained = explain(errors[0], self._settings, "committing offsets of source topics")
            if is_refusal(errors[0]):
                raise explained
            self._complain(explained)
        return False

    def _hold(self) -> None:
        """Partitions with a batch that waits are not read on."""
        waiting = set(self._waiting)
        if resumed := self._paused - waiting:
            self._consumer.resume([TopicPartition(*place) for place in resumed])
        if paused := waiting - self._paused:
            self._consumer.pause([TopicPartition(*place) for place in paused])
        self._paused = waiting

    def _write_rejected(self, batch: Batch) -> None:
        if not batch.told:
            self._rejects.write(batch.all_rejected())
            batch.told = True

    def _complain(self, trouble: Exception) -> None:
        if now() - self._complained > COMPLAIN_SECONDS:
            self._complained = now()
            _log.warning("source topics wait: %s", trouble)

    def close(self) -> None:
        self._rejects.tell(at_once=True)
        self._consumer.close()
