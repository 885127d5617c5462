"""Goal: a snapshot uploads what has changed and little more, and is whole nevertheless; whatever
is removed later, what remains can be restored."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, Live, on
from holdfast.blob.files import FileBlob
from holdfast.engine.memory import MemoryEngine
from holdfast.errors import DamagedData, DiskFull, Missing, Unreachable, UsageError
from holdfast.runtime.snapshots import chunks, creating, retention
from holdfast.runtime.snapshots.backing import Request, _choose
from holdfast.runtime.snapshots.chunks import Chunks, runs_of_slots
from holdfast.runtime.snapshots.creating import Creation, Made, Memory
from holdfast.runtime.snapshots.restoring import StoredContents, verify
from holdfast.runtime.snapshots.retention import GRACE_SECONDS, Keeping, collect, expendable
from holdfast.runtime.snapshots.rows import Row
from holdfast.runtime.snapshots.store import Listed, SnapshotStore
from tests.cli.commands import holdfast_here

AGENTS = 4_000
NOW = 1_800_000_000.0


class Set(Event):
    value: float


class Leave(Event):
    pass


class Meter(Agent, expire_after=0.05):
    value: float = 0.0

    @on
    def set(self, event: Set, ctx: Context) -> None:
        self.value = event.value


class Gauge(Agent):
    value: float = 0.0

    @on
    def set(self, event: Set, ctx: Context) -> None:
        self.value = event.value


fleet = Fleet("gauges", agents=[Gauge, Meter])


class World:
    def __init__(self, folder: Path) -> None:
        self.live: Live = fleet.open("memory:", partitions=2)
        assert isinstance(self.live._engine, MemoryEngine)
        self.engine = self.live._engine
        self.blob = FileBlob(folder / "snapshots")
        self.store = SnapshotStore(self.blob)
        self.memory = Memory()
        self.random = random.Random(1)

    def set(self, keys: list[int]) -> None:
        rows = [(Gauge, f"g-{k}", Set(value=self.random.random())) for k in keys]
        self.live.send_many(rows)
        self.live.settle()

    def snapshot(self, *, remember: bool = True, name: str | None = None) -> Made:
        memory = self.memory if remember else Memory()
        store = self.store if remember else SnapshotStore(self.blob)
        return Creation(self.engine, store, memory).run(name)

    def check(self, made: Made) -> None:
        """What the snapshot says the fleet is, is what it is."""
        contents = StoredContents(SnapshotStore(self.blob), made.manifest)
        now = self.engine.capture()
        for stored, live in zip(contents.partitions, now.partitions, strict=True):
            assert sorted(stored.records()) == sorted(live.records())
            assert stored.dedupe() == live.dedupe()
            assert list(stored.frames()) == list(live.frames())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.live:
        made.set(list(range(AGENTS)))
        yield made


@pytest.mark.parametrize("remember", [True, False], ids=["remembered", "read back"])
def test_one_percent_changed_uploads_little(world: World, remember: bool) -> None:
    first = world.snapshot()
    for _ in range(5):
        world.set(world.random.sample(range(AGENTS), AGENTS // 100))
        made = world.snapshot(remember=remember)
        world.check(made)
        assert made.bytes < first.bytes / 20
    assert world.snapshot().bytes == 0  # nothing has changed


def test_a_new_base_when_deltas_are_half_of_it(world: World) -> None:
    world.snapshot()
    anew = 0
    for _ in range(8):
        world.set(world.random.sample(range(AGENTS), AGENTS // 5))
        made = world.snapshot()
        world.check(made)
        entries = made.manifest.partitions
        base = sum(ref.raw for entry in entries for ref in entry.base)
        deltas = sum(ref.raw for entry in entries for ref in entry.deltas)
        assert deltas <= base / 2
        anew += deltas == 0
    assert 2 <= anew <= 4


def test_the_number_of_deltas_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creating, "DELTAS_MAX", 3)
    for turn in range(8):
        world.set([turn, turn + 100, turn + 200])
        made = world.snapshot()
        world.check(made)
        assert all(len(entry.deltas) <= 3 for entry in made.manifest.partitions)


def test_agents_that_are_gone_are_gone(world: World) -> None:
    world.live.send(Meter, "m-1", Set(value=1.0))
    world.live.settle()
    world.snapshot()
    while world.live.state(Meter, "m-1") is not None:
        world.live.settle()
    made = world.snapshot()
    world.check(made)
    assert any(entry.deltas for entry in made.manifest.partitions)


def test_a_new_base_reuses_what_has_not_changed(world: World, tmp_path: Path) -> None:
    """Runs of slots begin at the same places, so most chunks have the names they had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 4096)
        patch.setattr(creating, "DELTAS_MAX", 0)
        first = world.snapshot()
        world.set([7])
        second = world.snapshot()
    world.check(second)
    assert first.chunks > 20
    assert second.chunks <= 2


def test_what_is_damaged_is_not_built_on(world: World) -> None:
    world.snapshot()
    for name in list(world.blob.list("chunks")):
        world.blob.delete(name)
    world.set([1])
    made = world.snapshot(remember=False)
    world.check(made)
    assert verify(SnapshotStore(world.blob), made.manifest.name).agents == AGENTS


def test_runs_of_slots_are_cut_at_fixed_places() -> None:
    rows = [Row(slot, bytes([slot]), bytes(100)) for slot in range(64)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 1000)
        before = list(runs_of_slots(rows, 0, 64))
        rows[10] = Row(10, bytes([10]), bytes(250))
        after = list(runs_of_slots(rows, 0, 64))
    assert len(before) == len(after) == 8
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


# Retention.


def test_the_newest_and_one_a_day_are_kept() -> None:
    day = 86_400.0
    mine = [(Listed(n, f"auto-{n}"), NOW + n * day / 4) for n in range(1, 41)]
    named = [(Listed(50, "release"), NOW)]
    gone = expendable(mine + named, Keeping(newest=3, days=5))
    kept = [listed.number for listed, _ in mine if listed not in gone]
    assert kept[-3:] == [38, 39, 40]
    assert len(kept) == 3 + 5 - 1  # the first of the last day may be one of the newest, or not
    assert Listed(50, "release") not in gone


def test_orphans_are_removed_after_the_grace_and_a_newer_snapshot(world: World) -> None:
    old = world.snapshot(name="old")
    world.blob.put_if_absent("chunks/aa/aa", b"left by a creator that was killed")
    world.store.delete(world.store.find("old"))
    world.set(list(range(AGENTS)))
    world.snapshot(remember=False, name="new")
    everything = set(world.blob.list("chunks"))
    orphans = {ref.object for ref in old.manifest.chunks()} | {"chunks/aa/aa"}
    assert collect(world.store, NOW) == 0
    assert set(world.blob.list("chunks")) == everything
    assert collect(world.store, NOW + GRACE_SECONDS - 1) == 0
    assert collect(world.store, NOW + GRACE_SECONDS + 1) == 0  # the clock may have jumped
    world.set([1])
    kept = world.snapshot(name="newer")
    assert collect(world.store, NOW - 5) == 0  # and may go back: then they are noted anew
    assert collect(world.store, NOW + GRACE_SECONDS + 1) == 0
    world.set([2])
    world.snapshot(name="newest")
    assert collect(world.store, NOW + GRACE_SECONDS + 2) == len(orphans)
    assert set(world.blob.list("chunks")) & orphans == set()
    assert list(world.blob.list("garbage")) == []
    assert verify(world.store, kept.manifest.name).agents == AGENTS


def test_a_snapshot_under_way_loses_nothing_it_builds_on(world: World) -> None:
    """Its base is deleted, and orphans are collected twice, between its start and its end."""
    world.snapshot(name="base")
    world.set([1])
    creation = Creation(world.engine, world.store, world.memory)
    capture = world.engine.capture

    def meanwhile() -> object:
        other = SnapshotStore(world.blob)
        other.delete(other.find("base"))
        collect(other, NOW)
        collect(other, NOW + GRACE_SECONDS / 2)
        return capture()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.engine, "capture", meanwhile)
        made = creation.run("next")
    collect(world.store, NOW + GRACE_SECONDS + 1)
    world.set([2])
    world.snapshot(name="later")
    collect(world.store, NOW + 2 * GRACE_SECONDS)
    assert verify(SnapshotStore(world.blob), made.manifest.name).agents == AGENTS


def test_an_orphan_of_the_same_content_is_not_relied_on(tmp_path: Path) -> None:
    blob = FileBlob(tmp_path)
    orphan = Chunks(blob, "one").put([(b"a", b"b")])
    ours = Chunks(blob, "two").put([(b"a", b"b")])
    assert ours.object != orphan.object
    blob.delete(orphan.object)
    packed = list[tuple[bytes, bytes]]
    assert Chunks(blob, "two").get(ours, packed) == [(b"a", b"b")]
    assert Chunks(blob, "three", [ours.name, orphan.name]).put([(b"a", b"b")]) == orphan


def test_a_snapshot_that_takes_half_the_grace_is_given_up(world: World) -> None:
    assert creating.CREATE_SECONDS_MAX * 2 <= retention.GRACE_SECONDS
    clock = iter(range(0, 10**9, 7 * 3600))
    creation = Creation(world.engine, world.store, monotonic=lambda: float(next(clock)))
    with pytest.raises(TimeoutError, match="given up"):
        creation.run("slow")
    assert world.store.listed() == []


def test_two_who_create_at_once_do_not_take_the_others_rows_for_their_own(world: World) -> None:
    """The slower one captured before a change and is listed last: it is not what we remember."""
    world.snapshot()
    capture = world.engine.capture

    def meanwhile() -> object:
        captured = capture()
        patch.undo()
        world.set([1, 2, 3])
        world.snapshot()
        return captured

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.engine, "capture", meanwhile)
        world.snapshot(name="zz-savepoint", remember=False)
    world.check(world.snapshot())
    numbers = [each.number for each in world.store.listed()]
    assert len(numbers) == len(set(numbers)) == 4, numbers


def test_a_number_is_never_used_again(world: World) -> None:
    """Whoever remembers the deleted one would take the new one's chunks for orphans."""
    world.snapshot()
    world.set([1])
    world.snapshot(name="nightly", remember=False)
    snapshotter = SnapshotStore(world.blob)
    collect(snapshotter, NOW)  # it has read all there is
    world.store.delete(world.store.find("nightly"))
    world.set([2])
    world.snapshot(name="nightly", remember=False)
    collect(snapshotter, NOW + 1)
    world.set(list(range(AGENTS)))
    world.snapshot()  # has a base of its own
    collect(snapshotter, NOW + 2)
    collect(snapshotter, NOW + GRACE_SECONDS + 3)
    assert verify(SnapshotStore(world.blob), "nightly").agents == AGENTS


def test_of_two_that_are_made_at_once_under_one_name_one_is_refused(world: World) -> None:
    capture = world.engine.capture

    def meanwhile() -> object:
        patch.undo()
        world.snapshot()
        world.snapshot(name="same", remember=False)
        return capture()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.engine, "capture", meanwhile)
        with pytest.raises(UsageError, match="there is a snapshot same already"):
            world.snapshot(name="same")
    assert [each.name for each in world.store.listed()].count("same") == 1
    assert verify(world.store, "same").agents == AGENTS


def test_an_attempt_that_failed_leaves_nothing_behind(world: World) -> None:
    """Or a disk that is full would be filled up by every further attempt."""
    world.snapshot()
    before = set(world.blob.list("chunks"))
    world.set(list(range(AGENTS)))
    put, puts = world.blob.put_if_absent, iter(range(100))

    def full(name: str, data: bytes) -> bool:
        if name.startswith("chunks") and next(puts) >= 1:
            raise DiskFull("the disk is full")
        return put(name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.blob, "put_if_absent", full)
        with pytest.raises(DiskFull):
            world.snapshot()
    assert next(puts) > 1, "one had been put"
    assert set(world.blob.list("chunks")) == before
    world.check(world.snapshot())


def test_where_the_manifest_may_be_there_its_chunks_stay(world: World) -> None:
    put = world.blob.put_if_absent

    def lost(name: str, data: bytes) -> bool:
        done = put(name, data)
        if name.startswith("snapshots"):
            raise Unreachable("no answer in time")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.blob, "put_if_absent", lost)
        with pytest.raises(Unreachable):
            world.snapshot(name="there")
    assert verify(SnapshotStore(world.blob), "there").agents == AGENTS


LOOKS = [
    lambda world: world.store.newest().name,
    lambda world: [each.name for each in world.store.readable()][-1],
    lambda world: _choose(world.store, Request("unused"), None).name,
    lambda world: listed_by_command(world)[-1],
    lambda world: str(collect(world.store, NOW) or "kept"),
    lambda world: world.snapshot(name="kept-too").manifest.name.removesuffix("-too"),
]


@pytest.mark.parametrize("look", LOOKS)
def test_one_that_is_deleted_while_others_look_is_passed_over(
    world: World, look: Callable[[World], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes it after it was listed, before it is read."""
    world.snapshot(name="kept", remember=False)
    world.snapshot(name="gone", remember=False)
    get = FileBlob.get

    def late(blob: FileBlob, name: str) -> bytes:
        if name.endswith(".gone"):
            blob.delete(name)
        return get(blob, name)

    monkeypatch.setattr(FileBlob, "get", late)
    assert look(world) == "kept"
    assert not [name for name in world.blob.list("snapshots") if name.endswith(".gone")]


@pytest.mark.parametrize("look", [lambda s: s.newest(), lambda s: collect(s, NOW)])
def test_one_that_is_listed_and_not_to_be_had_is_damage(
    world: World, look: Callable[[SnapshotStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what only it refers to would be removed: perhaps its disk is away for a while."""
    world.snapshot(name="away", remember=False)
    get = FileBlob.get

    def away(blob: FileBlob, name: str) -> bytes:
        if name.endswith(".away"):
            raise Missing(name)
        return get(blob, name)

    monkeypatch.setattr(FileBlob, "get", away)
    with pytest.raises(DamagedData, match="snapshot away: is listed and cannot be read"):
        look(world.store)


@pytest.mark.parametrize("look", LOOKS)
def test_a_copy_that_no_snapshot_could_be_called_is_passed_over(
    world: World, look: Callable[[World], str]
) -> None:
    """A file manager leaves one beside it."""
    world.snapshot(name="kept")
    (name,) = world.blob.list("snapshots")
    kept = Path(world.blob.url.removeprefix("file:")) / name
    kept.with_name(f"{kept.name} (copy)").write_bytes(kept.read_bytes())
    assert look(world) == "kept"


def listed_by_command(world: World) -> list[str]:
    place = Path(world.blob.url.removeprefix("file:"))
    words = ("snapshot", "list", "--json", "--snapshots", world.blob.url)
    lines = holdfast_here(*words, cwd=place).stdout.splitlines()
    return [json.loads(line)["name"] for line in lines]
