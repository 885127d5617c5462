"""Conformance: bounds. At each one it is defined who is refused; stamps.py has the clock's."""

from __future__ import annotations

import pytest

from holdfast.engine.port import Limits, Taken
from holdfast.errors import Backlog, DiskFull
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    parcel,
    refusal,
    soon,
)


class BoundConformance(Workbench):
    @promise("external sends past it: Backlog", "what is not external passes the bound")
    def test_backlog_refuses_the_outside_and_not_messages(self) -> None:
        """At the bound outside sends stop; messages go on, or two partitions could deadlock."""
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(backlog_events_max=10))
        owner = Owner.of(engine)
        append(engine, parcel([f"{i}" for i in range(10)]))
        assert isinstance(refusal(engine, parcel(["one more"])), Backlog)
        assert append(engine, messages("other", 1, 3)).new == 3
        control = parcel(["command"], external=False)
        assert append(engine, control).new == 1
        owner.fold_all()
        # An engine may judge the backlog by a folded position that is a moment old.
        soon(lambda: isinstance(engine.append(0, [parcel(["room again"])])[0], Taken))

    @promise("Bounds, each with a defined refusal")
    def test_the_backlog_ends_exactly_at_its_bound(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(backlog_events_max=10))
        append(engine, parcel([f"{i}" for i in range(9)]))
        tenth, eleventh, message = engine.append(
            0, [parcel(["tenth"]), parcel(["eleventh"]), messages("other", 1, 1)]
        )
        assert isinstance(tenth, Taken)
        assert isinstance(eleventh, Backlog)
        assert isinstance(message, Taken)
        assert inbox(engine)[9:] == ["tenth", "other>1"]
        for _ in range(3):
            assert isinstance(refusal(engine, parcel(["more"])), Backlog)
        assert engine.view(0).inbox_next() == 11

    def test_a_backlog_belongs_to_its_partition(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(partitions=2, limits=Limits(backlog_events_max=1))
        append(engine, parcel(["a"]), 0)
        assert isinstance(refusal(engine, parcel(["b"]), 0), Backlog)
        assert append(engine, parcel(["b"]), 1).new == 1

    def _free(self) -> int:
        free = self.free_bytes()
        if free is None:
            pytest.skip("this engine does not look at free space")
        return free

    @promise("DiskFull: messages at it, sends at twice it")
    def test_sends_stop_at_twice_the_reserve(self) -> None:
        engine = self.engine(limits=Limits(disk_reserve_bytes=self._free() * 3 // 4))
        assert isinstance(refusal(engine, parcel(["from outside"])), DiskFull)
        assert append(engine, messages("other", 1, 1)).new == 1
        assert inbox(engine) == ["other>1"]

    def test_messages_stop_at_the_reserve(self) -> None:
        engine = self.engine(limits=Limits(disk_reserve_bytes=self._free() * 2))
        assert isinstance(refusal(engine, parcel(["from outside"])), DiskFull)
        assert isinstance(refusal(engine, messages("other", 1, 1)), DiskFull)
        assert inbox(engine) == []
        assert engine.view(0).marks() == {}
