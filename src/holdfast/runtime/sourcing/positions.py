"""Where to begin in each partition of a source topic, and the name under which it sends.

A topic that was deleted and made anew counts from 0 again, and so does its copy on other brokers:
under the same name its records would be taken for repeats. So the name has a part of the topic's id
in it, and offsets are committed together with that id.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import ASK_SECONDS
from holdfast.engine.kafka.troubles import explained
from holdfast.errors import Unreachable
from holdfast.runtime.sourcing.declaring import Declaration

_log = logging.getLogger("holdfast.sources")


def topic_ids(admin: AdminClient, settings: KafkaSettings, topics: Sequence[str]) -> dict[str, str]:
    """Eight letters for each; none from brokers that are too old to have ids."""
    ids: dict[str, str] = {}
    with explained(settings, f"looking at {', '.join(topics)}"):
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ASK_SECONDS)
        for name, future in asked.items():
            found = future.result().topic_id
            bits = (found.get_most_significant_bits(), found.get_least_significant_bits())
            whole = b"".join((each % 2**64).to_bytes(8, "big") for each in bits)
            ids[name] = base64.urlsafe_b64encode(whole[-6:]).decode() if any(whole) else ""
    return ids


class Positions:
    def __init__(
        self, settings: KafkaSettings, declared: Sequence[Declaration], ids: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._declared = {each.topic: each for each in declared}
        self._ids = ids

    def source_of(self, topic: str, partition: int) -> str:
        made = self._ids[topic]
        return f"{topic}[{partition}]" + (f"@{made}" if made else "")

    def mark(self, topic: str, partition: int, offset: int) -> TopicPartition:
        """What is committed: the next offset to read, and of which topic it is."""
        return TopicPartition(topic, partition, offset, self._ids[topic])

    def begin(self, consumer: Consumer, given: Sequence[TopicPartition]) -> list[TopicPartition]:
        """For partitions that were just assigned. Where nothing was committed yet, it is now: a
        process that dies before its first record must not begin at another place next time."""
        with explained(self._settings, "looking where to begin"):
            known = consumer.committed(list(given), timeout=ASK_SECONDS)
            begun = [each for each in known if self._is_ours(each)]
            begins = [self._resumed(consumer, each) for each in begun]
            new = [each for each in known if not self._is_ours(each)]
            if new:
                fresh = self._fresh(consumer, new)
                consumer.commit(offsets=fresh, asynchronous=False)
                wanted = {(each.topic, each.partition) for each in new}
                begins += [each for each in fresh if (each.topic, each.partition) in wanted]
        return begins

    def _is_ours(self, known: TopicPartition) -> bool:
        """Who sets the group to another offset by hand leaves no id."""
        return known.offset >= 0 and (known.metadata or "") in ("", self._ids[known.topic])

    def _resumed(self, consumer: Consumer, known: TopicPartition) -> TopicPartition:
        low, high = self._ends(consumer, known)
        offset = known.offset
        if offset < low:
            _log.warning(
                "%s[%d]: the records from %d to %d are gone before they were read: raise "
                "retention.ms of the topic",
                *(known.topic, known.partition, offset, low - 1),
            )
            offset = low
        elif offset > high:
            _log.warning(
                "%s[%d]: read up to %d, but it ends at %d now: beginning with its first record",
                *(known.topic, known.partition, offset, high),
            )
            offset = low
        return self.mark(known.topic, known.partition, offset)

    def _fresh(self, consumer: Consumer, new: Sequence[TopicPartition]) -> list[TopicPartition]:
        marks: dict[tuple[str, int], TopicPartition] = {}
        for each in new:
            if self._declared[each.topic].start == "earliest":
                low, _ = self._ends(consumer, each)
                marks[each.topic, each.partition] = self.mark(each.topic, each.partition, low)
        for topic in dict.fromkeys(each.topic for each in new):
            if self._declared[topic].start == "latest":
                own = [each.partition for each in new if each.topic == topic]
                marks |= self._latest(consumer, topic, own)
        return list(marks.values())

    def _latest(
        self, consumer: Consumer, topic: str, own: Sequence[int]
    ) -> dict[tuple[str, int], TopicPartition]:
        """All of its partitions begin at the same moment. One that is added later begins with its
        first record: what came before we noticed it would be lost."""
        count = len(consumer.list_topics(topic, timeout=ASK_SECONDS).topics[topic].partitions)
        every = [TopicPartition(topic, number) for number in range(count)]
        known = consumer.committed(every, timeout=ASK_SECONDS)
        first_time = not any(self._is_ours(each) for each in known)
        wanted = range(count) if first_time else own
        marks = {}
        for number in wanted:
            low, high = self._ends(consumer, TopicPartition(topic, number))
            marks[topic, number] = self.mark(topic, number, high if first_time else low)
        return marks

    def _ends(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
        asked = TopicPartition(place.topic, place.partition)
        ends = consumer.get_watermark_offsets(asked, timeout=ASK_SECONDS)
        if ends is None:
            raise Unreachable(f"{place.topic}: no answer where it begins and ends: trying again")
        return ends[0], ends[1]
