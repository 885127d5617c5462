"""Goal: the archive is read whole, and what is missing or damaged in it is named in one line."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from holdfast.errors import DamagedData, HoldfastError, Missing
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.objects import Run, Shipment, encode, name_of
from tests.archiving.bots import Store

BORN = "0-abc"
CUTS = [0, 3, 4, 9, 20, 21]


def shipment(first: int, end: int, gap: str = "") -> Shipment:
    runs = [] if gap else [Run(n, 1, float(n), b"%d" % n) for n in range(first, end)]
    return Shipment("log", "bots", BORN, first, end, runs, 0.0, gap, folded=end - 1)


def put(store: Store, first: int, end: int, *, merged: bool = False, gap: str = "") -> str:
    name = name_of("log", BORN, first, merged=merged)
    store.objects[name] = encode(shipment(first, end, gap))
    return name


@pytest.fixture
def store() -> Store:
    made = Store()
    for first, end in pairwise(CUTS):
        put(made, first, end)
    return made


def numbers(store: Store, first: int) -> list[int]:
    return [frame.first for frame in Archive(store).frames(BORN, first)]


def refusal(store: Store, first: int, kind: type[HoldfastError]) -> str:
    with pytest.raises(kind) as caught:
        numbers(store, first)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_is_read_from_any_position(store: Store) -> None:
    for first in range(22):
        assert numbers(store, first) == list(range(first, 21))
    assert Archive(store).reach("log", BORN)[:2] == (0, 21)  # type: ignore[index]
    assert Archive(store).folded(BORN) == 20
    assert list(Archive(store).problems()) == []


def test_a_frame_that_holds_the_position_is_whole(store: Store) -> None:
    name = name_of("log", BORN, 21)
    run = Run(21, 10, 1.0, b"ten events")
    store.objects[name] = encode(Shipment("log", "bots", BORN, 21, 31, [run], 0.0))
    assert numbers(store, 25) == [21]


def test_nothing_is_archived() -> None:
    assert list(Archive(Store()).frames(BORN, 0)) == []
    assert list(Archive(Store()).journal(BORN, 0)) == []
    assert Archive(Store()).reach("log", BORN) is None
    with pytest.raises(Missing, match="there is no log archive: correct the URL"):
        Archive(Store()).catalog()


@pytest.mark.parametrize("gone", CUTS[1:-2])
def test_a_missing_object_is_named(store: Store, gone: int) -> None:
    """Before it all is read; then it is said from where on events are missing."""
    del store.objects[name_of("log", BORN, gone)]
    read: list[int] = []
    with pytest.raises(DamagedData, match=f"events of {BORN} from {gone} on are missing, later"):
        read += [frame.first for frame in Archive(store).frames(BORN, 0)]
    archive = Archive(store).frames(BORN, 0)
    assert [next(archive).first for _ in range(gone)] == list(range(gone))
    assert len(list(Archive(store).problems())) == 1


def test_a_damaged_object_is_named(store: Store) -> None:
    name = name_of("log", BORN, 4)
    store.objects[name] = store.objects[name][:-1] + b"?"
    assert name in refusal(store, 0, DamagedData)
    assert numbers(store, 9) == list(range(9, 21)), "what is behind it can be read"
    assert name in next(Archive(store).problems())


def test_an_object_under_a_wrong_name_is_seen(store: Store) -> None:
    store.objects[name_of("log", BORN, 4)] = store.objects[name_of("log", BORN, 9)]
    assert "holds log/0-abc 9 to 20" in refusal(store, 0, DamagedData)
    store.objects[name_of("log", "1-def", 4)] = encode(shipment(4, 9))
    with pytest.raises(DamagedData, match="holds log/0-abc 4 to 9"):
        list(Archive(store).frames("1-def", 4))


def test_events_before_the_archive_began(store: Store) -> None:
    del store.objects[name_of("log", BORN, 0)]
    assert "archived from 3 on, not from 1" in refusal(store, 1, Missing)
    assert numbers(store, 3) == list(range(3, 21))


def test_a_gap_is_named_when_it_is_reached(store: Store) -> None:
    put(store, 21, 50, gap="retention removed them")
    put(store, 50, 60)
    assert "events 21 to 50 of 0-abc are missing: retention" in refusal(store, 0, Missing)
    assert "events 21 to 50" in refusal(store, 30, Missing)
    assert numbers(store, 50) == list(range(50, 60))
    assert Archive(store).reach("log", BORN)[:2] == (0, 60)  # type: ignore[index]


@pytest.mark.parametrize("removed", [[], [3], [3, 4], [4], [4, 9], [3, 4, 9]])
def test_a_merged_object_is_as_good_as_what_it_was_made_of(
    store: Store, removed: list[int]
) -> None:
    """However many of those were removed already."""
    put(store, 3, 20, merged=True)
    for first in removed:
        del store.objects[name_of("log", BORN, first)]
    for first in range(22):
        assert numbers(store, first) == list(range(first, 21))
    assert Archive(store).reach("log", BORN)[:2] == (0, 21)  # type: ignore[index]


def test_the_end_may_be_a_merged_object(store: Store) -> None:
    put(store, 4, 21, merged=True)
    assert Archive(store).reach("log", BORN)[1] == 21  # type: ignore[index]
    for first in (4, 9, 20):
        del store.objects[name_of("log", BORN, first)]
    assert Archive(store).reach("log", BORN)[1] == 21  # type: ignore[index]
    assert numbers(store, 0) == list(range(21))


def test_reading_goes_on_while_objects_are_merged(store: Store) -> None:
    frames = Archive(store).frames(BORN, 0)
    assert [next(frames).first for _ in range(4)] == [0, 1, 2, 3]
    put(store, 3, 20, merged=True)
    for first in (3, 4, 9):
        del store.objects[name_of("log", BORN, first)]
    put(store, 21, 30)
    assert [frame.first for frame in frames] == list(range(4, 30))


def test_the_oldest_can_be_forgotten(store: Store) -> None:
    archive = Archive(store)
    archive.forget("log", BORN, 8)
    assert archive.reach("log", BORN)[:2] == (4, 21)  # type: ignore[index]
    archive.forget("log", BORN, 1_000)
    assert archive.reach("log", BORN)[:2] == (20, 21)  # type: ignore[index]  # the end stays known


def meanwhile(store: Store, act: Callable[[], None]) -> None:
    """It happens once: after a list, before anything in it is read."""
    get = store.get

    def first(name: str) -> bytes:
        store.get = get  # type: ignore[method-assign]
        act()
        return get(name)

    store.get = first  # type: ignore[method-assign]


def test_an_end_that_is_merged_while_it_is_looked_for(store: Store) -> None:
    def merge() -> None:
        put(store, 9, 21, merged=True)
        for first in (9, 20):
            del store.objects[name_of("log", BORN, first)]

    meanwhile(store, merge)
    assert Archive(store).reach("log", BORN)[1] == 21  # type: ignore[index]


def test_an_end_that_is_listed_and_not_there_is_told(store: Store) -> None:
    gone = name_of("log", BORN, 20)
    store.get = lambda name: Store.get(store, "" if name == gone else name)  # type: ignore[method-assign]
    with pytest.raises(Missing):
        Archive(store).reach("log", BORN)


def test_a_missing_object_is_named_while_others_are_added(store: Store) -> None:
    """Each listing has one more than the one before."""
    del store.objects[name_of("log", BORN, 4)]
    ends = iter(range(21, 31))

    def growing(folder: str = "") -> Iterator[str]:
        end = next(ends)
        put(store, end, end + 1)
        return Store.list(store, folder)

    store.list = growing  # type: ignore[method-assign]
    assert "from 4 on are missing" in refusal(store, 0, DamagedData)


def test_what_was_forgotten_while_it_is_read_is_not_damage(store: Store) -> None:
    frames = Archive(store).frames(BORN, 0)
    assert next(frames).first == 0
    Archive(store).forget("log", BORN, 9)
    with pytest.raises(Missing, match="are archived from 9 on, not from 3"):
        list(frames)
