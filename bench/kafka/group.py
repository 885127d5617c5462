"""A consumer group from outside: who has partitions, what is committed, and how fast it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.kafka.loading import ADMIN_SECONDS

START_SECONDS_MAX = 90.0
LOOK_SECONDS = 0.1
ASK_SECONDS = 5.0
Offsets = tuple[int, ...]
Seen = tuple[float, Offsets]


class Group:
    """What the broker knows of a peer's consumer group."""

    def __init__(self, admin: AdminClient, name: str, topic: str, partitions: int) -> None:
        self._admin, self._name = admin, name
        self._asked = [TopicPartition(topic, n) for n in range(partitions)]

    def committed(self) -> Offsets:
        asked = [ConsumerGroupTopicPartitions(self._name, self._asked)]
        told = self._admin.list_consumer_group_offsets(asked)[self._name].result(ADMIN_SECONDS)
        found = {each.partition: each.offset for each in told.topic_partitions or ()}
        return tuple(max(0, found.get(each.partition, 0)) for each in self._asked)

    def busy(self) -> int:
        """How many members have partitions of the input."""
        asked = self._admin.describe_consumer_groups([self._name])
        try:
            members = asked[self._name].result(ASK_SECONDS).members
        except (KafkaException, TimeoutError):  # without members the broker may not know the group
            return 0
        topic = self._asked[0].topic
        return sum(
            any(each.topic == topic for each in member.assignment.topic_partitions)
            for member in members
            if member.assignment
        )


def wait_busy(group: Group, check: Callable[[], None], count: int) -> float:
    """Until every worker has partitions; how many seconds that took."""
    started = time.monotonic()
    while group.busy() < count:
        check()
        if time.monotonic() > started + START_SECONDS_MAX:
            raise TimeoutError(f"not every worker is busy after {START_SECONDS_MAX:g} s")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - started


def watch(group: Group, check: Callable[[], None], seconds: float, ends: Offsets) -> list[Seen]:
    """Committed offsets, and when they were seen."""
    begin = time.monotonic()
    seen: list[Seen] = []
    while time.monotonic() < begin + seconds:
        check()
        offsets = group.committed()
        seen.append((time.monotonic() - begin, offsets))
        if offsets == ends:
            break
        time.sleep(LOOK_SECONDS)
    return seen


def steady(seen: Sequence[Seen], ends: Offsets) -> tuple[float, float, int]:
    """Events per second, over how many seconds, and of how many commits of the slowest partition.

    Each partition counts from its first commit to its last one, since the clock must not begin in
    the middle of what a commit covers; and none after one of them had nothing more to do.
    """
    rates, lengths, commits = [], [], []
    for n in range(len(ends)):
        changes: list[tuple[float, int]] = []
        for (_, before), (at, after) in pairwise(seen):
            if any(now == end for now, end in zip(after, ends, strict=True)):
                break
            if after[n] != before[n]:
                changes.append((at, after[n]))
        commits.append(len(changes))
        if len(changes) < 2:
            continue
        (first, low), (last, high) = changes[0], changes[-1]
        rates.append((high - low) / (last - first))
        lengths.append(last - first)
    if len(rates) < len(ends):
        return 0.0, 0.0, min(commits)
    return sum(rates), min(lengths), min(commits)
