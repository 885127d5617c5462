"""The writer of one partition: transactions that the brokers refuse once somebody else has begun.

Its transactional id is the partition's. Whoever opens a writer ends the transaction of the writer
before, if one is under way, and fences it: from then on the outcome is decided and can be read.
After an error whose outcome is not known a writer is thrown away, never used again: an end of
transaction that comes late must not touch a later one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.owners import Notice
from holdfast.engine.kafka.records import Entry, Header, pack_entry, pack_messages
from holdfast.engine.kafka.settings import RECORD_BYTES_MAX, KafkaSettings
from holdfast.engine.kafka.troubles import FENCED, error_of, explain, is_refusal
from holdfast.errors import Busy, HoldfastError, Unreachable
from holdfast.stepping.commit import Outgoing

INIT_SECONDS = 15.0
OFFSETS_SECONDS = 3.0  # milliseconds, if it does not hang
# If the library does not find the coordinator at once, or that one is still ending the transaction
# of an owner that died, it looks again after half a second. Another producer is there in 0.04 s.
TRIES_SECONDS = (0.1, 0.2, 0.4)

_MOVING = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,  # the membership learns it too, and then this worker starts anew
}
# A call that comes after the transaction has failed says only that.
_FAILED_BEFORE = {KafkaError._STATE, KafkaError._FATAL}
Report = Callable[[KafkaError | None, Message], None] | None


class Overtaken(Exception):
    """Somebody else has opened a writer of this partition."""


class Moving(Exception):
    """It did not happen: the group of workers takes no offsets of ours now."""


class Lost(Exception):
    """The outcome is not known. Open another writer, then read the changelog.

    `stumbled`: the coordinator has met an error that it does not know. So it does where somebody
    else opens a writer at the wrong moment.
    """

    def __init__(self, trouble: HoldfastError, *, stumbled: bool = False) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble
        self.stumbled = stumbled


class Writer:
    def __init__(
        self, settings: KafkaSettings, changelog: Place, name: str, others: Sequence[Place] = ()
    ) -> None:
        """`others` are where it may write besides. Raises TryAgain where brokers cannot be reached,
        AccessDenied where they refuse, Overtaken where somebody else was faster."""
        self._settings = settings
        self._changelog = changelog
        self._seconds = settings.transaction_seconds
        self._name = name
        deadline = time.monotonic() + INIT_SECONDS
        if not any(self._begins(seconds, for_good=False) for seconds in TRIES_SECONDS):
            self._begins(max(TRIES_SECONDS[-1], deadline - time.monotonic()), for_good=True)
        self._sweep([changelog, *others])

    def _begins(self, seconds: float, *, for_good: bool) -> bool:
        """Whether we are the writer now. Who was not in time is ended: it must not be it later."""
        self._producer = self._new_producer()
        try:
            # The second time over the connection that it keeps: then it finds the coordinator.
            for _ in range(2):
                self._producer.list_topics(self._changelog.topic, timeout=seconds)
            self._producer.init_transactions(seconds)
            return True
        except KafkaException as trouble:
            error = error_of(trouble)
            self.abandon()
            if for_good or is_refusal(error):
                raise explain(error, self._settings, "beginning to write") from None
            return False

    def _sweep(self, places: Sequence[Place]) -> None:
        """A transaction that is aborted, with a record for every place where one of ours may stand.

        A late request of the writer before is refused only where brokers have seen a record of this
        one; and records that no end of a transaction stands behind would become visible with the
        next one that is committed there.
        """
        arrived: list[KafkaError | None] = []
        failed: KafkaError | None = None
        try:
            self._producer.begin_transaction()
            for place in places:
                self._producer.produce(
                    place.topic,
                    b"",
                    b"sweep",  # a topic that is compacted takes no record without a key
                    partition=place.partition,
                    on_delivery=lambda error, record: arrived.append(error),
                )
            self._flush()
            self._producer.abort_transaction(self._seconds)
        except KafkaException as trouble:
            failed = error_of(trouble)
        # `is`: an error of the library that is compared with None fails, in some later call.
        errors = [error for error in (*arrived, failed) if error is not None]
        if not errors and len(arrived) == len(places):
            return
        self.abandon()
        if any(error.code() in FENCED for error in errors):
            raise Overtaken(errors[0].str())
        late = KafkaError(KafkaError._MSG_TIMED_OUT)
        raise explain(errors[0] if errors else late, self._settings, "beginning to write")

    def _new_producer(self) -> Producer:
        return made(
            Producer,
            self._settings,
            {
                "transactional.id": self._name,
                "transaction.timeout.ms": int(self._seconds * 1000),
                "acks": "all",
                "linger.ms": 0,
                "message.max.bytes": RECORD_BYTES_MAX,
                "compression.type": "none",
            },
        )

    def write(
        self,
        entry: Entry,
        messages: Sequence[tuple[Place, Outgoing]] = (),
        source: str = "",
        notices: Sequence[Notice] = (),
        offsets: Sequence[TopicPartition] = (),
        group: object = None,
        inside: Callable[[], None] = lambda: None,
    ) -> int:
        """1 begin, 2 the entry, 3 messages and notices, 4 how far the inbox was read, 5 the end.

        Returns the offset behind the entry. Moving: it did not happen; Overtaken and Lost: nobody
        knows.
        """
        written: list[int] = []

        def delivered(error: KafkaError | None, record: Message) -> None:
            if error is None:
                written.append(record.offset() or 0)

        producer = self._producer
        try:
            producer.begin_transaction()
            for value, headers in pack_entry(entry):
                self._produce(self._changelog, value, headers, delivered)
            for place, out in messages:
                self._produce(place, out.frame, pack_messages(source, out), None)
            for place, key, value in notices:
                producer.produce(place.topic, value, key, partition=place.partition)
            self._flush()
            inside()
            if offsets and group is not None:
                self._send_offsets(offsets, group)
            producer.commit_transaction(self._seconds)
        except KafkaException as trouble:
            raise self._judged(error_of(trouble)) from None
        except BufferError:
            full = Busy(
                f"{self._settings.place}: more waits to be sent than memory is set aside for: if "
                "this stays so, raise queue.buffering.max.kbytes in the engine URL"
            )
            raise Lost(full) from None
        return written[-1] + 1 if written else 0

    def _flush(self) -> None:
        """What is fatal, as to be overtaken, the library mixes up with the callbacks it makes."""
        try:
            self._producer.flush(self._seconds)
        except SystemError as mixed:
            raise KafkaException(KafkaError(KafkaError._FENCED)) from mixed

    def tell(self, notice: Notice, seconds: float) -> bool:
        """Whether it is told; nothing depends on it."""
        try:
            self._producer.begin_transaction()
            place, key, value = notice
            self._producer.produce(place.topic, value, key, partition=place.partition)
            self._producer.commit_transaction(seconds)
            return True
        except KafkaException as trouble:
            error_of(trouble)  # brokers are away, or somebody else is the writer now
            return False

    def _produce(self, place: Place, value: bytes, headers: list[Header], report: Report) -> None:
        self._producer.produce(
            place.topic, value, partition=place.partition, headers=headers, on_delivery=report
        )

    def _send_offsets(self, offsets: Sequence[TopicPartition], group: object) -> None:
        """On a thread of its own: while a coordinator is away the client library does not end this
        call in time, perhaps never (its issues 5456 and 5511). Then the writer is lost."""
        sent: Future[None] = Future()
        producer = self._producer

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(list(offsets), group, OFFSETS_SECONDS)
            except KafkaException as trouble:
                sent.set_exception(KafkaException(error_of(trouble)))
            else:
                sent.set_result(None)

        threading.Thread(target=send, name="holdfast-offsets", daemon=True).start()
        try:
            sent.result(OFFSETS_SECONDS)
        except TimeoutError:
            trouble = Unreachable(
                f"{self._settings.place}: committing: the coordinator of the workers' group did "
                f"not answer within {OFFSETS_SECONDS:g} s: are the brokers up?"
            )
            raise Lost(trouble) from None

    def _judged(self, error: KafkaError) -> Exception:
        error = self._reason(error)
        if error.code() in _MOVING:
            failed = self._abort()
            if failed is None:
                return Moving(error.str())
            error = failed
        elif is_refusal(error):
            self._abort()  # so that what waits behind it need not wait for our successor
        if error.code() in FENCED:
            return Overtaken(error.str())
        trouble = explain(error, self._settings, "committing")
        return Lost(trouble, stumbled=error.code() == KafkaError.UNKNOWN)

    def _reason(self, error: KafkaError) -> KafkaError:
        """Why the transaction has failed."""
        if error.code() in _FAILED_BEFORE:
            try:
                self._producer.begin_transaction()  # refused, and told why
            except KafkaException as refusal:
                error = error_of(refusal)
        return error

    def _abort(self) -> KafkaError | None:
        """None: whatever was sent, it did not happen. Else the next writer ends it."""
        failed: KafkaError | None = None
        try:
            self._producer.abort_transaction(self._seconds)
        except KafkaException as trouble:
            failed = error_of(trouble)
        return failed

    def abandon(self) -> None:
        """Nothing of what it still holds goes out any more."""
        if hasattr(self, "_producer"):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            del self._producer  # feed.py says why
