"""Goal: a new copy of a partition begins with a base copy and needs nothing that is before it."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.blob.files import FileBlob
from holdfast.engine.kafka.bases import BaseCopy, BlobBases, pack
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Limits
from holdfast.errors import DamagedData, Missing
from holdfast.stepping.commit import Head
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.lanes import fold_urgent, lane, urgent
from holdfast.testing.conformance.workbench import (
    Owner,
    append,
    inbox,
    messages,
    numbered,
    record,
    soon,
)

FORGETFUL = Limits(retain_seconds=0.001)


class Fleets:
    """Handles of one fleet, each with copies of its own, as processes on other machines have."""

    def __init__(self, bootstrap: str, folder: Path, closing: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._closing = closing
        self._prefix = f"bases-{uuid.uuid4().hex[:8]}"

    def open(self, machine: str, base: str | None = None) -> KafkaEngine:
        settings = KafkaSettings(
            self._bootstrap,
            self._prefix,
            FORGETFUL,
            cache=self._folder / machine,
            base=base,
        )
        engine = KafkaEngine(settings, FLEET, 1)
        self._closing.callback(engine.close)
        return engine


@pytest.fixture
def fleets(kafka: str, tmp_path: Path) -> Iterator[Fleets]:
    with ExitStack() as closing:
        yield Fleets(kafka, tmp_path, closing)


def fill(engine: KafkaEngine) -> Owner:
    owner = Owner.of(engine)
    append(engine, numbered("gcs", range(1, 6)))
    append(engine, messages("other", 1, 2))
    owner.commit([record("d-1", "one"), record("d-2", "two")], events=6)
    return owner


def test_it_says_of_itself_what_it_has(
    fleets: Fleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was committed while it was made."""
    engine = fleets.open("a")
    owner = fill(engine)
    mirror = engine._copies.of(0).mirror
    copy_to = mirror.inbox.copy_to

    def meanwhile(folder: Path, folded: Head) -> int:
        owner.commit([record("d-1", "later", 2)])
        return copy_to(folder, folded)

    monkeypatch.setattr(mirror.inbox, "copy_to", meanwhile)
    facts, _ = pack(mirror, tmp_path / "scratch")
    assert facts.commits == owner.head.commits - 1


def test_what_leaves_the_lane_while_it_is_made_is_not_waited_for(
    fleets: Fleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new segment begins with what waits, and the changelog has the rest."""
    engine = fleets.open("a")
    owner = fill(engine)
    append(engine, urgent("u", "v"))
    soon(lambda: lane(engine) == ["u", "v"])
    mirror = engine._copies.of(0).mirror
    copy_to = mirror.inbox.copy_to

    def meanwhile(folder: Path, folded: Head) -> int:
        fold_urgent(owner, 2)
        mirror.inbox.rotate()
        return copy_to(folder, folded)

    monkeypatch.setattr(mirror.inbox, "copy_to", meanwhile)
    facts, _ = pack(mirror, tmp_path / "scratch")
    assert facts.commits == owner.head.commits - 1


@pytest.mark.parametrize("store", ["topic", "folder"])
def test_another_machine_goes_on_from_a_base_copy(
    fleets: Fleets, store: str, tmp_path: Path
) -> None:
    base = None if store == "topic" else f"file:{tmp_path / 'store'}"
    first = fleets.open("a", base)
    owner = fill(first)
    first.make_base_copies()
    owner.commit([record("d-1", "later", 2)], events=1)
    # What is before the base copy is gone from the topics, so it cannot have come from there.
    following = first._copies.of(0)
    assert first._fleet.feed.beginning(following.changelog) > 0
    assert first._fleet.feed.beginning(following.inbox) > 0
    second = fleets.open("b", base)
    view = second.view(0)
    assert view.head() == owner.head
    assert sorted(view.records()) == [record("d-1", "later", 2), record("d-2", "two")]
    assert view.marks() == {"other": 2}
    append(second, numbered("gcs", range(3, 8)))
    append(second, messages("other", 1, 3))
    assert inbox(second, position=7) == ["gcs.6", "gcs.7", "other>3"], "dedupe is in the base copy"
    assert Owner.of(second).head == owner.head


def test_a_copy_that_is_too_old_begins_again(fleets: Fleets) -> None:
    """It was away for so long that what comes next for it has been deleted."""
    early = fleets.open("old")
    assert early.view(0).head().commits == 0
    early.close()
    first = fleets.open("a")
    owner = fill(first)
    first.make_base_copies()
    owner.commit([record("d-3", "newest")], events=1)
    again = fleets.open("old")
    assert again.view(0).head() == owner.head
    assert again.view(0).record("Drone", "d-3") == record("d-3", "newest")


def test_a_damaged_copy_is_made_anew(fleets: Fleets, tmp_path: Path) -> None:
    first = fleets.open("a")
    owner = fill(first)
    first.close()
    (state,) = (tmp_path / "a").rglob("state.db")
    state.write_bytes(b"no database" * 1000)
    for side in ("state.db-wal", "state.db-shm"):
        state.with_name(side).unlink(missing_ok=True)
    assert fleets.open("a").view(0).head() == owner.head


def test_a_base_copy_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    from holdfast.engine.kafka.bases import unpack

    with pytest.raises(DamagedData, match="cannot be read"):
        unpack(b"\x28\xb5\x2f\xfd garbage", tmp_path)


def test_an_old_base_copy_does_not_take_the_place_of_a_newer_one(fleets: Fleets) -> None:
    """Of an owner that stood still, was replaced, and wakes up in its upkeep."""
    zombie = fleets.open("a")
    fill(zombie)
    old = pack(zombie._copies.of(0).mirror, zombie._copies.place.scratch / "old")
    engine = fleets.open("b")
    owner = Owner.of(engine)
    append(engine, numbered("gcs", [6]))
    owner.commit([record("d-3", "three")], events=1)
    engine.make_base_copies()
    zombie._copies.bases.put(old)
    newest = fleets.open("c").view(0)
    assert newest.record("Drone", "d-3") == record("d-3", "three")
    found = engine._copies.bases._store.newest(0, engine.catalog.incarnation(0))
    assert found is not None
    assert found[0].commits > old[0].commits


def test_one_that_newer_ones_replace_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is slow finds its parts gone, and reads the newest that is there by then."""
    settings = KafkaSettings("unused:1", "p", FORGETFUL, base=f"file:{tmp_path}")
    bases = BlobBases(settings, "born")

    def put(commits: int) -> tuple[BaseCopy, bytes]:
        packed = b"%d" % commits
        found = BaseCopy(0, "0-abc", commits, 0, 0, len(packed)), packed
        bases.put(*found)
        return found

    newest = [put(1)]
    get = FileBlob.get

    def late(blob: FileBlob, name: str) -> bytes:
        if newest[0][0].commits == 1:
            newest[:] = [put(commits) for commits in (2, 3)][1:]
        return get(blob, name)

    monkeypatch.setattr(FileBlob, "get", late)
    assert bases.newest(0, "0-abc") == newest[0]
    for part in tmp_path.rglob("000000"):
        part.unlink()
    with pytest.raises(Missing):
        bases.newest(0, "0-abc")
