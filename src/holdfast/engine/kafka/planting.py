"""Planting on Kafka: base copies under a name of their own, then one record of the catalog.

Until that record is there, there is no fleet. Whoever plants draws a new `born`, every base copy
says it, and the record names it: so what an attempt leaves that was killed, or another one that
goes on at the same time, is nobody's, and the first record of the catalog decides who has planted.
Nothing is written to inboxes and changelogs: they are read from their ends of now on.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from holdfast.engine.contents import Contents, Facts, PartitionContents
from holdfast.engine.delivering import DeliveredPartition, delivered
from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.bases import BaseStore, BlobBases, TopicBases, pack_folder
from holdfast.engine.kafka.catalog import FORMAT, Planted
from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.founding import Founded, fleet_under
from holdfast.engine.kafka.mirrored import BOOT
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import (
    TopicPlan,
    Topics,
    changelog_topic,
    fleet_plans,
    inbox_topic,
    partition_plans,
)
from holdfast.engine.port import Limits
from holdfast.engine.sources import SourceCount
from holdfast.engine.sqlite.files import explained, open_existing
from holdfast.engine.sqlite.folders import folder_of
from holdfast.engine.sqlite.planting import plant_partition, plant_retired
from holdfast.engine.sqlite.standing import put_about
from holdfast.engine.stamping import Instant
from holdfast.errors import UsageError


def check_place(settings: KafkaSettings) -> None:
    """That no fleet is there. One may come until the planting is done, and is found again then."""
    fleet = fleet_under(settings)
    if fleet is not None:
        raise _is_taken(settings, fleet)


def _is_taken(settings: KafkaSettings, fleet: str) -> UsageError:
    return UsageError(
        f"{settings.place}: fleet {fleet!r} is there already: name another prefix, as in "
        "kafka://broker:9092/PREFIX"
    )


def plant(settings: KafkaSettings, contents: Contents, faults: FaultPoints) -> None:
    """1 check the place, 2 topics, 3 deliver what is on its way, 4 base copies, 5 the record."""
    with _place(settings, contents) as opened:
        contents = delivered(contents)
        born = uuid.uuid4().hex[:12]
        most = _put_bases(opened, contents, born, settings.limits)
        faults("plant.inside")
        entry = _entry(contents, born, most)
        faults("plant.after")
        if not opened.catalog.plant(entry):
            raise _is_taken(settings, opened.catalog.fleet)


@contextmanager
def _place(settings: KafkaSettings, contents: Contents) -> Iterator[Founded]:
    prefix = settings.prefix or ""
    check_place(settings)
    topics = Topics(settings)
    topics.make(fleet_plans(prefix))
    topics.check(fleet_plans(prefix))
    opened = Founded(settings)
    try:
        plans = _plans(prefix, contents)
        _check_counts(settings, topics.existing(), plans)
        topics.make(plans)
        topics.check(plans)
        yield opened
    finally:
        opened.close()


def _plans(prefix: str, contents: Contents) -> list[TopicPlan]:
    """Of all layouts there were: retired partitions can be read for ever."""
    firsts = _firsts(contents)
    starts = sorted(set(firsts.values()))
    counts = {start: list(firsts.values()).count(start) for start in starts}
    return [plan for start in starts for plan in partition_plans(prefix, start, counts[start])]


def _firsts(contents: Contents) -> dict[int, int]:
    """For each partition the number of the first one that was laid out together with it."""
    firsts: dict[int, int] = {}
    first = 0
    for facts in sorted(contents.retired, key=lambda facts: facts.number):
        first = facts.number if facts.slots.start == 0 else first
        firsts[facts.number] = first
    return firsts | dict.fromkeys(contents.layout.numbers, contents.layout.first)


def _check_counts(settings: KafkaSettings, there: dict[str, int], plans: list[TopicPlan]) -> None:
    for plan in plans:
        if there.get(plan.name, plan.partitions) != plan.partitions:
            raise UsageError(
                f"{settings.place}: topic {plan.name} has {there[plan.name]} partitions, and "
                f"{plan.partitions} are needed: somebody has begun another fleet there: name "
                "another prefix, or delete its topics"
            )


def _put_bases(opened: Founded, contents: Contents, born: str, limits: Limits) -> SourceCount:
    """Returns the bounds of sources: no partition may know more."""
    settings, firsts = opened.settings, _firsts(contents)
    prefix, most = (
        settings.prefix or "",
        SourceCount(limits.sources_max, limits.anonymous_sources_max),
    )
    store: BaseStore = (
        BlobBases(settings, born)
        if settings.base is not None
        else TopicBases(settings, opened.feed, opened.appender, firsts.__getitem__, born)
    )
    root = Path(tempfile.mkdtemp(prefix="holdfast-planting-"))
    try:
        parts: list[Facts | PartitionContents] = [*contents.retired, *contents.partitions]
        for part in parts:
            facts = part if isinstance(part, Facts) else part.facts
            index = facts.number - firsts[facts.number]
            inbox = opened.feed.end(Place(inbox_topic(prefix, firsts[facts.number]), index))
            place = Place(changelog_topic(prefix, firsts[facts.number]), index)
            folder = _make_folder(root, part, inbox, opened.feed.end(place))
            store.add(*pack_folder(folder, facts.number, facts.incarnation))
            shutil.rmtree(folder)
            if not isinstance(part, Facts):
                most = SourceCount(*map(max, most, SourceCount.of(part.dedupe().sources)))
    finally:
        shutil.rmtree(root, ignore_errors=True)
        store.close()
    return most


def _make_folder(root: Path, part: Facts | PartitionContents, inbox: int, changelog: int) -> Path:
    """A mirror that reads on from these offsets."""
    if isinstance(part, Facts):
        plant_retired(root, part._replace(stamp=_at(part, inbox)))
        folder = folder_of(root, part.number)
    else:
        assert isinstance(part, DeliveredPartition)
        part.facts = part.facts._replace(stamp=_at(part.facts, inbox))
        plant_partition(root, part)
        folder = folder_of(root, part.facts.number)
    path = folder / "state.db"
    with closing(open_existing(path)) as connection, explained(path):
        put_about(connection, {"changelog": changelog})
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return folder


def _at(facts: Facts, offset: int) -> Instant:
    return Instant(facts.stamp.wall, float(offset), BOOT)


def _entry(contents: Contents, born: str, bounds: SourceCount) -> Planted:
    live = [part.facts for part in contents.partitions]
    return Planted(
        FORMAT,
        contents.fleet,
        born,
        contents.layout.first,
        [(slots.start, slots.stop) for slots in contents.layout.partitions],
        {facts.number: (facts.slots.start, facts.slots.stop) for facts in contents.retired},
        {facts.number: facts.incarnation for facts in [*contents.retired, *live]},
        {number: schema.to_json() for number, schema in contents.schemas.items()},
        *bounds,
    )
