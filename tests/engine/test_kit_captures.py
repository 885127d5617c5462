"""Goal: the conformance kit notices an engine that captures or plants wrongly."""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any, Self, cast

import pytest

from holdfast.engine.contents import Contents, HeldContents, HeldPartition, PartitionContents
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.stamping import NEVER
from holdfast.errors import HoldfastError
from tests.engine.broken import Sound
from tests.engine.test_kit import Kit, run


class Torn(Sound):
    """Captures its partitions one after the other, while everybody works on."""

    def capture(self) -> HeldContents:
        parts = []
        for number in range(len(self.catalog.layout.partitions)):
            parts.append(super().capture().partitions[number])
            threading.Event().wait(0.02)
        return dataclasses.replace(super().capture(), partitions=parts)


class Backward(Torn):
    """The same in the other order, so that messages are lost instead of doubled."""

    def capture(self) -> HeldContents:
        parts: list[PartitionContents] = []
        for number in reversed(range(len(self.catalog.layout.partitions))):
            parts.insert(0, super(Torn, self).capture().partitions[number])
            threading.Event().wait(0.02)
        return dataclasses.replace(super(Torn, self).capture(), partitions=parts)


class Early(Sound):
    """Fixes all inboxes at one moment, but the states before it."""

    def capture(self) -> HeldContents:
        states = super().capture().partitions
        threading.Event().wait(0.02)
        ends = super().capture()
        parts: list[PartitionContents] = [
            self._mixed(one, other) for one, other in zip(states, ends.partitions, strict=True)
        ]
        return dataclasses.replace(ends, partitions=parts)

    def _mixed(self, state: Any, end: Any) -> HeldPartition:
        facts = state.facts._replace(
            next=end.facts.next, stamp=end.facts.stamp, marks=end.facts.marks
        )
        position = facts.head.position
        part = self._partitions[facts.number]
        frames = [f for f in part.inbox if position < f.first + f.count <= facts.next]
        return dataclasses.replace(state, facts=facts, held_frames=frames)


class Live(Sound):
    """Shows what is there now, not what was."""

    def capture(self) -> HeldContents:
        return cast(HeldContents, Now(self))


class Now:
    def __init__(self, engine: Live) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(super(Live, self._engine).capture(), name)


class Reckless(Sound):
    """Captures in the middle of a rescaling."""

    def capture(self) -> HeldContents:
        closed = [part.closed for part in self._partitions]
        for part in self._partitions:
            part.closed = False
        try:
            return super().capture()
        finally:
            for part, was in zip(self._partitions, closed, strict=True):
                part.closed = was


def planting(bug: str, spoil: Callable[[HeldPartition], None]) -> type[Sound]:
    """An engine that plants something else than what was captured."""

    class Wrong(Sound):
        @classmethod
        def plant(cls, contents: Contents, *others: Any, **more: Any) -> Self:
            parts = [dataclasses.replace(cast(HeldPartition, p)) for p in contents.partitions]
            for part in parts:
                spoil(part)
            changed = dataclasses.replace(cast(HeldContents, contents), partitions=list(parts))
            return super().plant(changed, *others, **more)

    Wrong.__name__ = f"planting another {bug}"
    return Wrong


def facts(**changes: object) -> type[Sound]:
    def spoil(part: HeldPartition) -> None:
        part.facts = part.facts._replace(**changes)  # type: ignore[arg-type]

    return planting(" ".join(changes), spoil)


def held(**changes: object) -> type[Sound]:
    def spoil(part: HeldPartition) -> None:
        vars(part).update(changes)

    return planting(" ".join(changes), spoil)


GOES_ON = "test_what_is_planted_goes_on_from_there"
DEDUPES = "test_dedupe_marks_and_order_go_on_where_it_is_planted"
TRAFFIC = "test_a_cut_under_traffic_loses_and_doubles_nothing"


@pytest.mark.planted("conformance kit")
@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Torn, TRAFFIC),
        (Backward, TRAFFIC),
        (Early, TRAFFIC),
        (Live, "test_what_comes_later_is_not_in_it"),
        (Reckless, "test_not_while_partitions_are_replaced"),
        (facts(incarnation="another"), GOES_ON),
        (facts(stamp=NEVER), GOES_ON),
        (facts(marks={}), DEDUPES),
        (facts(sent_next={}), GOES_ON),
        (held(held_dedupe=Dedupe({}, {}, {})), DEDUPES),
        (held(held_outbox=[]), GOES_ON),
        (held(held_letters=[]), GOES_ON),
        (held(held_calls=[]), GOES_ON),
        (held(held_fates=[]), GOES_ON),
        (held(held_records=[]), GOES_ON),
        (held(held_frames=[]), GOES_ON),
    ],
)
def test_a_broken_capture_is_noticed(broken: type[Sound], test: str) -> None:
    with pytest.raises((AssertionError, HoldfastError, pytest.fail.Exception)):
        run(Kit(broken), test, ())
    run(Kit(Sound), test, ())
