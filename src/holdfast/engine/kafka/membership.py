"""Membership in the group of workers: which partitions this process is to fold.

The group only assigns; what is in the topics comes through the feed, so all partitions of this
consumer are paused. Assignment is cooperative and sticky: only partitions that move are taken away.
A worker with a name is a static member: if it is back within its session, nothing moves at all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import error_of, explain, is_refusal
from holdfast.errors import Busy, HoldfastError

# The consumer is touched by its own thread only, and lets nobody else in while it polls.
POLL_SECONDS = 0.1
# Longer than a worker takes from one look at its assignments to the next: a large commit, a claim.
RELEASE_SECONDS = 30.0
# With a heartbeat a member learns that partitions are to move, and until all have learned it none
# does; twice, where one comes that gets some of another's.
HEARTBEAT_MILLISECONDS = 300
JOIN_SECONDS = 5.0  # so long after it joined, who has got nothing gets nothing
SETTLED_SECONDS = 10.0  # so long after partitions were given away, others have them
# Errors that come as a record, which the library does not mark as fatal then.
_ENDS = {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}

_log = logging.getLogger("holdfast.engine")


class Membership:
    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        name: MemberName | None,
        changed: Callable[[], None],
    ) -> None:
        """`name` is that of this worker, if it has one: no other may have the same."""
        self._settings = settings
        self._topic = topic
        self._name = name
        self._changed = changed
        self._lock = threading.Condition()
        self._assigned: set[int] = set()
        self._held: set[int] = set()  # by the worker, which has to let go of them first
        self._metadata: object = None
        self._failure: HoldfastError | None = None
        self._joined = name is None  # one with a name looks at what it got first
        self._got_by = 0.0  # when a first assignment is there, at the latest; 0.0: not joined yet
        self._settles_at = 0.0  # 0.0: nothing is being given away
        self._stopping = False
        self._consumer = self._new_consumer()
        self._thread = threading.Thread(target=self._run, name="holdfast-member", daemon=True)
        self._thread.start()

    def _new_consumer(self) -> Consumer:
        settings, name = self._settings, self._name
        member = {} if name is None else {"group.instance.id": f"{settings.prefix}.{name}"}
        session = int(settings.session_seconds * 1000)
        consumer = made(
            Consumer,
            settings,
            {
                **member,
                "group.id": settings.group,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": min(max(100, session // 10), HEARTBEAT_MILLISECONDS),
                "max.poll.interval.ms": max(300_000, session),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            },
        )
        consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        return consumer

    # For the worker.

    def assigned(self) -> set[int]:
        """Raises what has ended the membership: a fresh process may join again."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return set(self._assigned)

    def hold(self, index: int) -> None:
        with self._lock:
            self._held.add(index)

    def let_go(self, index: int) -> None:
        """The worker commits to it no more, so that another member may have it."""
        with self._lock:
            self._held.discard(index)
            self._lock.notify_all()

    def metadata(self) -> object:
        """With which the group knows a commit to be of a member of now.

        None before it joined, and while partitions are given away: the group would refuse it.
        """
        with self._lock:
            return self._metadata

    # The thread.

    def _run(self) -> None:
        while not self._stopping:
            try:
                record = self._consumer.poll(POLL_SECONDS)
                if record is not None and (error := record.error()) is not None:
                    self._complain(error)
                with self._lock:
                    self._metadata = self._consumer.consumer_group_metadata()
                self._look_after_name()
            except KafkaException as trouble:
                self._complain(error_of(trouble))
                time.sleep(POLL_SECONDS)

    def _look_after_name(self) -> None:
        """1 say that we live, 2 see whether we have got what we had, 3 note what we have."""
        if self._name is None:
            return
        now = time.monotonic()
        self._name.alive()
        if not self._joined:
            if not self._got_by and self._consumer.memberid():
                self._got_by = now + JOIN_SECONDS
            got = self._consumer.assignment()
            if got or (self._got_by and now > self._got_by):
                self._judge_first(self._name, {each.partition for each in got})
        elif self._settles_at and now > self._settles_at:
            self._settles_at = 0.0
            self._publish(())

    def _judge_first(self, name: MemberName, got: set[int]) -> None:
        if name.lacks(got):
            _log.warning(
                "the group left partitions of ours to nobody: we join by another name, and have "
                "them again once the session of the old one is over"
            )
            self._consumer.close()  # a static member does not leave: its session has to end
            name.change()
            self._consumer = self._new_consumer()
        self._joined = True
        self._publish(self._consumer.assignment())

    def _publish(self, partitions: Sequence[TopicPartition]) -> None:
        if not self._joined:
            return
        with self._lock:
            self._assigned |= {each.partition for each in partitions}
            assigned = frozenset(self._assigned)
        if self._name is not None:
            self._name.keep(assigned)
        self._changed()

    def _complain(self, error: KafkaError) -> None:
        trouble = explain(error, self._settings, "joining the group of workers")
        is_out = error.fatal() or error.code() in _ENDS
        if is_out:
            trouble = Busy(
                f"{self._settings.place}: another worker has our name in the group "
                f"({error.str()}): this one starts anew"
            )
        if is_out or is_refusal(error):
            with self._lock:
                self._failure = trouble
            self._changed()
        _log.warning("%s", trouble)

    # The library calls these. What they raise it mixes up where it closes: they raise nothing.

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        try:
            consumer.incremental_assign(list(partitions))
            consumer.pause(list(partitions))
        except KafkaException as trouble:  # the group hears of it at the next rebalance
            self._complain(error_of(trouble))
            return
        with self._lock:
            self._metadata = None  # of before; one that closes must not be asked for a newer one
        self._publish(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Others get them once this returns, so the worker lets go of them first."""
        deadline = time.monotonic() + RELEASE_SECONDS
        indexes = {each.partition for each in partitions}
        with self._lock:
            self._assigned -= indexes
            self._metadata = None
        self._changed()
        with self._lock:
            while self._held & indexes and not self._stopping:
                if time.monotonic() > deadline:
                    break  # whoever gets them fences us
                self._lock.wait(POLL_SECONDS)
                if self._name is not None:
                    self._name.alive()
        try:
            consumer.incremental_unassign(list(partitions))
            self._settles_at = time.monotonic() + SETTLED_SECONDS
        except KafkaException as trouble:  # of a membership that has ended: then they are gone
            self._complain(error_of(trouble))

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """They are others' already, and nobody waits for us. Who claims one fences us there."""
        with self._lock:
            self._assigned -= {each.partition for each in partitions}
        self._changed()

    def close(self) -> None:
        self._stopping = True
        with self._lock:
            self._lock.notify_all()
        self._thread.join()
        self._consumer.close()
        del self._consumer  # feed.py says why
