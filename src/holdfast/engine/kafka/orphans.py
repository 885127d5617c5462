"""Partitions that the group of workers has left to nobody: found, and given away again.

Assignment is cooperative: who has to give partitions away does so first, then joins again, and only
then others get them. A static member that dies in between and comes back under its name gets what
was left to it, and the brokers see no reason to ask anybody again. So somebody has to look.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import MemberDescription

from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import admin_of, explained

# Longer than the second half of a rebalance takes if nobody is in the middle of a commit. Looking
# too early does no harm: it costs one rebalance, in which nothing has to move.
ORPHAN_SECONDS = 3.0
LOOK_SECONDS = 1.0
ASK_SECONDS = 3.0

_log = logging.getLogger("holdfast.engine")


class OrphanWatch:
    """For every worker, called now and then by its upkeep."""

    def __init__(
        self, settings: KafkaSettings, topic: str, partitions: int, membership: Membership
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._membership = membership
        self._group = f"{settings.prefix}.workers"
        self._admin = admin_of(settings)
        self._since: float | None = None
        self._looked = 0.0

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        with explained(self._settings, f"looking at group {self._group}"):
            asked = self._admin.describe_consumer_groups([self._group], request_timeout=ASK_SECONDS)
            found = asked[self._group].result()
        orphans = self._partitions - sum(map(self._count, found.members))
        if found.state != ConsumerGroupState.STABLE or not orphans:
            self._since = None
            return
        self._since = self._since or now
        first = min(found.members, key=lambda member: member.member_id).member_id
        if now - self._since >= ORPHAN_SECONDS and first == self._membership.member_id:
            _log.warning("the group of workers left %d partitions to nobody: again", orphans)
            self._membership.rejoin()
            self._since = None

    def _count(self, member: MemberDescription) -> int:
        assigned = member.assignment.topic_partitions if member.assignment else []
        return sum(each.topic == self._topic for each in assigned)
