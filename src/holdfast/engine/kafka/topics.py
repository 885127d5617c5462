"""The topics of a fleet: their names and settings, made where missing, checked where not."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from holdfast.engine.kafka.settings import RECORD_BYTES_MAX, KafkaSettings
from holdfast.engine.kafka.troubles import admin_of, error_of, explain, explained
from holdfast.errors import UsageError

ASK_SECONDS = 15.0
KNOWN_SECONDS = 5.0
LOOK_SECONDS = 0.1
LOOKS = 50
LARGEST_MESSAGE_BYTES = 2 * 1024 * 1024  # an agent's message has up to one, and what is around it
USUAL_REPLICATION = 3  # as many as let one broker be lost and one be restarted

_log = logging.getLogger("holdfast.engine")
_warned: set[str] = set()  # once is enough


class TopicPlan(NamedTuple):
    """What a topic has to be. `config` is what it is made with, and refused for if it differs."""

    name: str
    partitions: int
    config: Mapping[str, str]


def catalog_topic(prefix: str) -> str:
    return f"{prefix}.catalog"


def inbox_topic(prefix: str, first: int) -> str:
    """Of the partitions numbered on from `first`: a rescaling makes new topics."""
    return f"{prefix}.inbox.{first}"


def is_inbox(topic: str, prefix: str) -> bool:
    return re.fullmatch(inbox_topic(re.escape(prefix), 0)[:-1] + "[0-9]+", topic) is not None


def changelog_topic(prefix: str, first: int) -> str:
    return f"{prefix}.changelog.{first}"


def bases_topic(prefix: str, first: int) -> str:
    return f"{prefix}.bases.{first}"


def owners_topic(prefix: str) -> str:
    return f"{prefix}.owners"


def fleet_plans(prefix: str) -> list[TopicPlan]:
    """Those that a fleet has once."""
    owners = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
    return [catalog_plan(prefix), TopicPlan(owners_topic(prefix), 1, owners)]


def catalog_plan(prefix: str) -> TopicPlan:
    return TopicPlan(catalog_topic(prefix), 1, _kept_for_ever())


def partition_plans(prefix: str, first: int, partitions: int) -> list[TopicPlan]:
    inbox = {
        **_kept_for_ever(),
        # Stamps are the brokers': a device with a wrong clock must not fire the timers of others.
        "message.timestamp.type": "LogAppendTime",
    }
    return [
        TopicPlan(inbox_topic(prefix, first), partitions, inbox),
        TopicPlan(changelog_topic(prefix, first), partitions, _kept_for_ever()),
        TopicPlan(bases_topic(prefix, first), partitions, _kept_for_ever()),
    ]


def _kept_for_ever() -> dict[str, str]:
    """Nothing goes by age or size: whoever has made a base copy deletes what is before it.

    Not compacted either: a commit holds many agents, so no key would be right for it.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(RECORD_BYTES_MAX),
        "unclean.leader.election.enable": "false",
    }


class Topics:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.admin = admin_of(settings)

    def existing(self) -> dict[str, int]:
        """Number of partitions by name, of every topic that this user may see."""
        with explained(self._settings, "listing topics"):
            found = self.admin.list_topics(timeout=ASK_SECONDS)
        return {
            name: len(topic.partitions) for name, topic in found.topics.items() if not topic.error
        }

    def make(self, plans: Sequence[TopicPlan]) -> None:
        """Those that are missing. Somebody else may make them at the same moment."""
        there = self.existing()
        new = [plan for plan in plans if plan.name not in there]
        if not new:
            return
        replication = self._replication()
        least = max(1, replication - 1)  # so that an acknowledged record survives one broker
        asked = self.admin.create_topics(
            [
                NewTopic(
                    plan.name,
                    num_partitions=plan.partitions,
                    replication_factor=replication,
                    config={**plan.config, "min.insync.replicas": str(least)},
                )
                for plan in new
            ],
            operation_timeout=ASK_SECONDS,
        )
        for name, future in asked.items():
            try:
                future.result()
            except KafkaException as trouble:
                error = error_of(trouble)
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise explain(error, self._settings, f"making topic {name}") from None

    def _replication(self) -> int:
        if self._settings.replication is not None:
            return self._settings.replication
        with explained(self._settings, "counting brokers"):
            brokers = len(self.admin.list_topics(timeout=ASK_SECONDS).brokers)
        if brokers < USUAL_REPLICATION and self._settings.place not in _warned:
            _warned.add(self._settings.place)
            _log.warning(
                "%s: %d broker%s: what is acknowledged is lost with %s disk; use three",
                self._settings.place,
                brokers,
                "" if brokers == 1 else "s",
                "its" if brokers == 1 else "their",
            )
        return min(USUAL_REPLICATION, brokers)

    def _wait_for(self, names: set[str]) -> dict[str, int]:
        """What is there. A topic that was made a moment ago is not known to every broker yet."""
        deadline = time.monotonic() + KNOWN_SECONDS
        while names - (there := self.existing()).keys() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return there

    def check(self, plans: Sequence[TopicPlan], again: int = LOOKS) -> None:
        """Refuse a topic with which a promise would not hold, naming the setting."""
        there = self._wait_for({plan.name for plan in plans})
        for plan in plans:
            if plan.name not in there:
                raise UsageError(
                    f"{self._settings.place}: topic {plan.name} is missing: restore it, or start "
                    "anew under another prefix"
                )
            if there[plan.name] != plan.partitions:
                raise UsageError(
                    f"{self._settings.place}: topic {plan.name} has {there[plan.name]} partitions, "
                    f"the fleet has {plan.partitions}: a fleet is rescaled with `holdfast rescale`"
                )
        resources = [ConfigResource(ResourceType.TOPIC, plan.name) for plan in plans]
        found = self.admin.describe_configs(resources, request_timeout=ASK_SECONDS)
        for resource, future in found.items():
            plan = next(plan for plan in plans if plan.name == resource.name)
            try:
                config = future.result()
            except KafkaException as trouble:
                if error_of(trouble).code() == KafkaError.UNKNOWN_TOPIC_OR_PART and again:
                    time.sleep(LOOK_SECONDS)  # a broker that has not heard of it yet
                    self.check(plans, again - 1)
                    return
                doing = f"reading the settings of {plan.name}"
                raise explain(error_of(trouble), self._settings, doing) from None
            for name, wanted in plan.config.items():
                entry = config.get(name)
                if entry is not None and not _fits(name, entry.value, wanted):
                    raise UsageError(
                        f"{self._settings.place}: topic {plan.name} has {name}={entry.value}, and "
                        f"{wanted} is needed: change it with `kafka-configs --alter --topic "
                        f"{plan.name} --add-config {name}={wanted}`"
                    )


def _fits(name: str, found: str | None, wanted: str) -> bool:
    if name == "max.message.bytes":
        return int(found or 0) >= LARGEST_MESSAGE_BYTES  # below ours it only bounds senders
    return found == wanted
