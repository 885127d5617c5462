"""A fleet on Kafka, opened: found, or made where there is none, and its topics checked."""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, MemberDescription

from holdfast.engine.kafka.appending import Appender
from holdfast.engine.kafka.catalog import KafkaCatalog
from holdfast.engine.kafka.feed import Feed
from holdfast.engine.kafka.owners import Owners
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import (
    Topics,
    catalog_topic,
    fleet_plans,
    is_inbox,
    partition_plans,
)
from holdfast.engine.kafka.troubles import admin_of, explained
from holdfast.errors import InUse, UsageError, WrongFleet

GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.2


class Founded:
    """What every handle has: a way to write, a way to read, and what the fleet says of itself."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.feed = Feed(settings)  # refused settings end here, before any thread is there
        self.appender = Appender(settings)
        try:
            self.catalog = KafkaCatalog(
                settings, self.feed, lambda *record: self.appender.write(*record).offset
            )
            self.owners = Owners(settings.prefix or "", self.feed)
        except BaseException:
            self.close()
            raise

    def check_group_is_empty(self) -> None:
        deadline = time.monotonic() + self.settings.session_seconds + GRACE_SECONDS
        admin = admin_of(self.settings)
        while members := len(_members(admin, self.settings)):
            if time.monotonic() > deadline:
                counted = "a worker runs" if members == 1 else f"{members} workers run"
                raise InUse(
                    f"{self.settings.place}: {counted} of this fleet: stop all of them first, on "
                    "every machine"
                )
            time.sleep(LOOK_SECONDS)

    def check_group_is_ours(self) -> None:
        """Who else is a member gets partitions of ours and leaves them lying, or keeps us out."""
        settings = self.settings
        for member in _members(admin_of(settings), settings):
            assigned = member.assignment.topic_partitions if member.assignment else []
            if any(not is_inbox(each.topic, settings.prefix or "") for each in assigned):
                raise UsageError(
                    f"{settings.place}: the group {settings.group} has a member that is no worker "
                    f"of this fleet ({member.client_id} on {member.host}): stop it, or give "
                    f"another prefix, as in kafka://{settings.bootstrap}/PREFIX"
                )

    def close(self) -> None:
        if hasattr(self, "catalog"):
            self.catalog.closed = True
        self.feed.close()
        self.appender.close()


def _members(admin: AdminClient, settings: KafkaSettings) -> list[MemberDescription]:
    group = settings.group
    with explained(settings, f"looking at group {group}"):
        found = admin.describe_consumer_groups([group])[group].result()
    return list(found.members)


def open_fleet(settings: KafkaSettings, fleet: str | None, partitions: int | None) -> Founded:
    """1 its own topics, 2 the catalog, 3 the topics of its partitions."""
    prefix = settings.prefix or ""
    topics = Topics(settings)
    if catalog_topic(prefix) not in topics.existing():
        if fleet is None or partitions is None:
            raise UsageError(
                f"{settings.place}: no fleet here: start one with `holdfast run fleet.py "
                f"--engine {settings.place}`, or name the right prefix"
            )
        topics.make(fleet_plans(prefix))
    topics.check(fleet_plans(prefix))
    opened = Founded(settings)
    try:
        opened.catalog.refresh()
        _found_or_check(opened, topics, fleet, partitions)
        layout = opened.catalog.layout
        plans = partition_plans(prefix, layout.first, len(layout.partitions))
        topics.check(plans)
        if partitions is not None:  # whoever may make a fleet is about to fold it
            opened.check_group_is_ours()
    except BaseException:
        opened.close()
        raise
    return opened


def fleet_under(settings: KafkaSettings) -> str | None:
    """The fleet that is under this prefix, if one is."""
    if catalog_topic(settings.prefix or "") not in Topics(settings).existing():
        return None
    opened = Founded(settings)
    try:
        opened.catalog.refresh()
        return opened.catalog.fleet if opened.catalog.exists else None
    finally:
        opened.close()


def _found_or_check(
    opened: Founded, topics: Topics, fleet: str | None, partitions: int | None
) -> None:
    settings, catalog = opened.settings, opened.catalog
    if not catalog.exists:
        if fleet is None or partitions is None:
            raise UsageError(f"{settings.place}: a fleet is being made: try again")
        topics.make(partition_plans(settings.prefix or "", 0, partitions))
        catalog.found(fleet, partitions)
    if fleet is not None and catalog.fleet != fleet:
        raise WrongFleet(
            f"{settings.place}: the topics are of fleet {catalog.fleet!r}, this is {fleet!r}: give "
            f"another prefix, as in kafka://broker:9092/{fleet}"
        )
