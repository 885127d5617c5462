"""Goal: who has no classes goes by what is stored, soon after it has changed, whatever threads
do; and asks the catalog no more often than that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import Busy, DamagedData, UsageError
from holdfast.model.schema import Field, Schema
from holdfast.runtime.naming import Names
from holdfast.runtime.stored import FRESH_SECONDS, StoredSchemas

SOON = FRESH_SECONDS * 1.5


def event(name: str, *fields: str, **options: object) -> Schema:
    own = tuple(Field(each, "int", required=False) for each in fields)
    return Schema("event", name, own, {"defaults": dict.fromkeys(fields, 0), **options})


class Stored:
    """A catalog that counts who looks, with a clock of its own."""

    def __init__(self, *schemas: Schema) -> None:
        self.schemas = dict(enumerate(schemas, start=1))
        self.looks = 0
        self.now = 100.0
        self.refuses = False
        self.on_look: Callable[[], object] = lambda: None

    def load(self) -> Mapping[int, Schema]:
        self.looks += 1
        self.on_look()
        if self.refuses:
            raise Busy("somebody writes")
        return dict(self.schemas)

    def add(self, schema: Schema) -> None:
        self.schemas[len(self.schemas) + 1] = schema

    def stored(self) -> StoredSchemas:
        return StoredSchemas(self.load, lambda: self.now)


def test_a_look_lasts_a_moment() -> None:
    catalog = Stored(event("Load", "weight"))
    stored = catalog.stored()
    first = stored.current()
    assert all(stored.current() is first for _ in range(10))
    assert catalog.looks == 1
    catalog.now += SOON
    assert stored.current() is first, "nothing has changed"
    assert catalog.looks == 2
    catalog.schemas[1] = event("Load", "weight", priority="urgent")
    catalog.now += SOON
    assert stored.current()[1].options["priority"] == "urgent"


def test_while_the_catalog_cannot_be_read_what_was_seen_is_good() -> None:
    catalog = Stored(event("Load", "weight"))
    stored = catalog.stored()
    catalog.refuses = True
    with pytest.raises(Busy):
        stored.current()
    catalog.refuses = False
    seen = stored.current()
    catalog.refuses = True
    catalog.now += SOON
    looks = catalog.looks
    assert all(stored.current() is seen for _ in range(10))
    assert catalog.looks == looks + 1, "not with every call"


def test_a_look_that_failed_is_none() -> None:
    """Somebody's look fails while another waits who wants to know what is there now."""
    catalog = Stored(event("Load", "weight"))
    asked = threading.Event()

    def monotonic() -> float:
        if threading.current_thread() is not threading.main_thread():
            asked.set()
        return catalog.now

    stored = StoredSchemas(catalog.load, monotonic)
    stored.current()
    with ThreadPoolExecutor(1) as thread:
        waiting = []

        def fail() -> None:
            catalog.on_look = lambda: None
            waiting.append(thread.submit(stored.renewed))
            assert asked.wait(20)
            catalog.now += 0.1
            raise Busy("somebody writes")

        catalog.add(event("Halt"))
        catalog.now += SOON
        catalog.on_look = fail
        assert 2 not in stored.current()
        assert 2 in waiting[0].result(20)


def test_many_who_come_at_once_look_once() -> None:
    catalog = Stored(event("Load", "weight"))
    stored = catalog.stored()
    together = threading.Barrier(8)

    def look(_: int) -> object:
        together.wait()
        return stored.current()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(look, range(8)))
    assert all(each is found[0] for each in found)
    assert catalog.looks == 1


def test_a_schema_that_nobody_has_is_told() -> None:
    with pytest.raises(DamagedData, match="rows of schema 9, which the catalog does not have"):
        Stored(event("Load")).stored().of(9)


def test_all_versions_of_an_event_are_as_urgent_as_the_newest() -> None:
    catalog = Stored(event("Halt"), event("Halt", "why", priority="urgent"))
    assert [each.options["priority"] for each in catalog.stored().current().values()] == (
        ["urgent", "urgent"]
    )


def test_a_version_is_sent_until_a_newer_one_is_needed() -> None:
    catalog = Stored(event("Load", "weight"), event("Unload", "weight"))
    names = Names("quarry", catalog.stored())
    assert (names.pack("Load", {})[0], names.pack("Unload", {})[0]) == (1, 2)
    catalog.add(event("Load", "weight", "place"))
    catalog.add(event("Unload", "weight", "place"))
    with pytest.raises(UsageError, match="no field 'place'"):
        names.pack("Load", {"place": 1})
    catalog.now += SOON
    with pytest.raises(UsageError, match="no field 'plase': did you mean place"):
        names.pack("Load", {"plase": 1})
    assert names.pack("Load", {})[0] == 1, "what does not fit the newest either moves nobody"
    assert names.pack("Load", {"place": 1})[0] == 3
    assert names.pack("Load", {})[0] == 3
    assert names.pack("Unload", {})[0] == 2, "nor does another class"
    looks = catalog.looks
    for _ in range(20):
        with pytest.raises(UsageError):
            names.pack("Load", {"plase": 1})
    assert catalog.looks == looks


def test_a_class_that_has_come_just_now_is_found() -> None:
    catalog = Stored(event("Load", "weight"))
    names = Names("quarry", catalog.stored())
    with pytest.raises(UsageError, match="no event 'Halt'"):
        names.event("Halt")
    catalog.add(event("Halt"))
    assert names.pack("Halt", {})[0] == 2


def test_threads_that_need_a_new_version_at_once_all_get_it() -> None:
    for _ in range(20):
        catalog = Stored(event("Load", "weight"))
        names = Names("quarry", catalog.stored())
        names.pack("Load", {})
        catalog.add(event("Load", "weight", "place"))
        catalog.now += SOON
        together = threading.Barrier(4)

        def send(_: int, names: Names = names, together: threading.Barrier = together) -> int:
            names.schemas("event")
            together.wait()
            return names.pack("Load", {"place": 1})[0]

        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(send, range(4))) == {2}


def test_an_older_look_does_not_meet_newer_versions() -> None:
    """One thread has looked and is held up; another one sends the newer version meanwhile."""
    catalog = Stored(event("Load", "weight"))
    stored = catalog.stored()
    names = Names("quarry", stored)
    before = stored.current()
    catalog.add(event("Load", "weight", "place"))
    catalog.now += SOON
    assert names.pack("Load", {"place": 1})[0] == 2
    stored._seen = before
    assert names.pack("Load", {"weight": 1})[0] == 1
