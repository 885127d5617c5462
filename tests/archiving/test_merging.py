"""Goal: small objects become few, and at every moment the archive can be read whole."""

import random

import pytest

from holdfast.errors import Missing, Unreachable
from holdfast.runtime.archiving import merging
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.merging import SETTLED_SECONDS, Merger
from holdfast.runtime.archiving.objects import Run, Shipment, encode, name_of
from tests.archiving.bots import Store

BORN = "0-abc"


def put(store: Store, first: int, shipped: float, gap: str = "") -> None:
    runs = [] if gap else [Run(first, 1, 1.0, b"%d" % first)]
    shipment = Shipment("log", "bots", BORN, first, first + 1, runs, shipped, gap, folded=first)
    store.objects[name_of("log", BORN, first)] = encode(shipment)


def read(store: Store, first: int = 0) -> list[int]:
    return [frame.first for frame in Archive(store).frames(BORN, first)]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "OBJECTS_PER_MERGE", 10)


def test_what_is_settled_is_merged_and_the_rest_left_alone() -> None:
    store = Store()
    for number in range(100):
        put(store, number, shipped=float(number))
    merger = Merger(store, clock=lambda: SETTLED_SECONDS + 54.5)
    while merger.tick():
        assert read(store) == list(range(100))
    # 0 to 54 are an hour old.
    assert len(store.objects) == 6 + 45
    assert Archive(store).reach("log", BORN)[:2] == (0, 100)  # type: ignore[index]
    assert Archive(store).folded(BORN) == 99
    assert read(store, 37) == list(range(37, 100))


def test_few_objects_are_not_worth_it() -> None:
    store = Store()
    for number in range(10):
        put(store, number, shipped=0.0)
    assert Merger(store, clock=lambda: 2 * SETTLED_SECONDS).tick() == 0


def test_a_merged_object_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "BYTES_PER_MERGE", 7)
    store = Store()
    for number in range(10, 60):
        put(store, number, shipped=0.0)
    merger = Merger(store, clock=lambda: 2 * SETTLED_SECONDS)
    while merger.tick():
        pass
    sizes = [len(Archive(store).shipment(name).runs) for name in store.objects]
    assert sizes.count(3) == 14, "three of two bytes each fit into seven"


def test_a_gap_stays_named() -> None:
    store = Store()
    for number in range(60):
        put(store, number, shipped=0.0, gap="gone" if number == 25 else "")
    merger = Merger(store, clock=lambda: 2 * SETTLED_SECONDS)
    while merger.tick():
        assert [*Archive(store).problems()] != []
    assert len(store.objects) < 20
    (problem,) = Archive(store).problems()
    assert "events 25 to 26 of 0-abc are missing: gone" in problem
    assert read(store, 26) == list(range(26, 60))


@pytest.mark.parametrize("seed", range(20))
def test_mergers_that_die_anywhere_and_race(seed: int) -> None:
    """Puts fail, a merger ends between any two of its acts, another one goes on."""
    chance = random.Random(seed)

    def fault() -> None:
        if chance.random() < 0.2:
            raise Unreachable("died")

    store = Store(fault)
    delete = store.delete

    def failing_delete(name: str) -> None:
        fault()
        delete(name)

    store.delete = failing_delete  # type: ignore[method-assign]
    now = 2 * SETTLED_SECONDS
    for number in range(80):
        put(store, number, shipped=0.0)
    for _ in range(100):
        try:
            Merger(store, clock=lambda: now).tick()
        except Unreachable:
            pass
        assert read(store) == list(range(80))
        assert read(store, 33) == list(range(33, 80))
        assert Archive(store).reach("log", BORN)[:2] == (0, 80)  # type: ignore[index]
    assert len(store.objects) <= 18


def test_another_merger_may_be_faster() -> None:
    """It removes what was listed here, before it is read."""
    store = Store()
    for number in range(100):
        put(store, number, shipped=0.0)
    mergers = [Merger(store, clock=lambda: 2 * SETTLED_SECONDS) for _ in range(2)]
    get = store.get

    def first(name: str) -> bytes:
        store.get = get  # type: ignore[method-assign]
        assert mergers[1].tick() == 10
        return get(name)

    store.get = first  # type: ignore[method-assign]
    assert mergers[0].tick() == 0
    assert mergers[0].tick() == 10
    assert read(store) == list(range(100))


def test_what_is_listed_and_not_there_is_told() -> None:
    store = Store()
    for number in range(100):
        put(store, number, shipped=0.0)
    store.get = lambda name: Store.get(store, "")  # type: ignore[method-assign]
    with pytest.raises(Missing):
        Merger(store, clock=lambda: 2 * SETTLED_SECONDS).tick()
