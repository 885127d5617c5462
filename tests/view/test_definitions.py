"""Goal: a view that cannot work is refused where it is written, with the way to mend it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import About, Agent, DefinitionError, Event, Fleet, Row, UsageError, View, on
from tests.view.zones import Battery, Drone, Zone, ZoneLoad


def no_row() -> None:
    class Wrong(View):
        @on
        def drained(self, event: Battery, about: About) -> None: ...


def no_handlers() -> None:
    class Wrong(View[Zone]):
        pass


def a_field() -> None:
    class Wrong(View[Zone]):
        count: int = 0

        @on
        def drained(self, event: Battery, about: About) -> None: ...


def a_guard() -> None:
    class Wrong(View[Zone]):
        @on(when=lambda self, event: True)
        def drained(self, event: Battery, about: About) -> None: ...


def twice() -> None:
    class Wrong(View[Zone]):
        @on
        def drained(self, event: Battery, about: About) -> None: ...

        @on
        def again(self, event: Battery, about: About) -> None: ...


def no_event() -> None:
    class Wrong(View[Zone]):
        @on
        def drained(self, event: Zone, about: About) -> None: ...


def no_default() -> None:
    class Wrong(Row):
        count: int


def a_bad_version() -> None:
    class Wrong(View[Zone], version="2"):
        @on
        def drained(self, event: Battery, about: About) -> None: ...


def two_of_a_name() -> None:
    Fleet("zones", agents=[Drone], views=[ZoneLoad, ZoneLoad])


def no_view() -> None:
    Fleet("zones", agents=[Drone], views=[Drone])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("define", "complaint"),
    [
        (no_row, r"does not say what its rows are: write `class Wrong\(View\[Zone\]\)`"),
        (no_handlers, "Wrong has no handlers: mark a method with `@on`"),
        (a_field, "Wrong.count is a field, but a view has none of its own: put it into the Row"),
        (a_guard, "Wrong.drained: handlers of a view have no mode=, when= and idempotent="),
        (twice, "Wrong has two handlers for Battery: make them one"),
        (no_event, "handles Zone, which is not an event or action: name a class derived from"),
        (no_default, "Wrong.count has no default: every field of a row needs one"),
        (a_bad_version, "Wrong has version='2': give a whole number"),
        (two_of_a_name, "fleet zones has two views ZoneLoad: rename one"),
        (no_view, "in views=: give classes derived from View"),
    ],
)
def test_it_is_refused(define: Callable[[], None], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint) as refusal:
        define()
    assert "\n" not in str(refusal.value)


def test_the_view_in_a_handler_is_a_dictionary_of_rows() -> None:
    view = ZoneLoad()
    assert view.get("north") is None
    assert "north" not in view
    view["north"].events = 7
    assert view["north"].events == 7
    del view["north"]
    assert view.get("north") is None
    with pytest.raises(UsageError, match="cannot be a key"):
        view["a/b"]
    with pytest.raises(AttributeError):
        view.count = 1  # type: ignore[attr-defined]


def test_a_handler_of_a_base_class_takes_its_heirs_and_fingerprints_tell_code_apart() -> None:
    class Move(Event):
        pass

    class Turn(Move):
        pass

    class Van(Agent):
        @on
        def moved(self, event: Move, ctx: object) -> None: ...

    def made(step: int, version: int) -> type[View[Zone]]:
        class Moves(View[Zone], version=version):
            STEP = step

            @on
            def moved(self, event: Move, about: About) -> None:
                self["all"].events += self.STEP

        return Moves

    assert set(made(1, 0).__holdfast__.classes()) == {("event", "Move"), ("event", "Turn")}
    prints = [made(*each).__holdfast__.fingerprint for each in ((1, 0), (1, 0), (2, 0), (1, 1))]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
