"""Conformance: stamps. They never go back, and a clock that leaps ahead is refused."""

from __future__ import annotations

import pytest

from holdfast.engine.port import Limits
from holdfast.errors import ClockJumped
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    HandClock,
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    refusal,
    stamps,
)


class StampConformance(Workbench):
    def test_a_stamp_is_the_clock_at_append(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        for seconds in (0.0, 1.5, 60.0):
            clock.pass_time(seconds)
            assert append(engine, parcel(["a"])).stamp == clock.wall
        start = clock.wall - 61.5
        assert stamps(engine) == [start, start + 1.5, start + 61.5]

    @promise("Stamps never go back")
    def test_a_clock_set_back_does_not_set_stamps_back(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        before = append(engine, parcel(["a"])).stamp
        clock.wall -= 5_000.0
        assert append(engine, parcel(["b"])).stamp == before
        clock.pass_time(10.0)
        assert append(engine, parcel(["c"])).stamp == before
        clock.pass_time(5_000.0)
        assert append(engine, parcel(["d"])).stamp == before + 10.0
        assert stamps(engine) == sorted(stamps(engine))

    @promise("a clock that leaps ahead is refused", "a larger jump forward: ClockJumped")
    @pytest.mark.parametrize("kind", ["numbered", "message", "plain"])
    def test_a_leap_ahead_is_refused_and_leaves_no_trace(self, kind: str) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock, limits=Limits(clock_jump_seconds_max=100.0))
        append(engine, parcel(["first"]))
        one = {
            "numbered": numbered("gcs", [1]),
            "message": messages("1-abc", 1, 1),
            "plain": parcel(["a"]),
        }[kind]
        clock.wall += 101.0
        assert isinstance(refusal(engine, one), ClockJumped)
        assert inbox(engine) == ["first"]
        assert engine.view(0).marks() == {}
        clock.wall -= 101.0
        assert append(engine, one).new == 1
        assert len(set(stamps(engine))) == 1

    def test_a_leap_within_the_bound_passes(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock, limits=Limits(clock_jump_seconds_max=100.0))
        append(engine, parcel(["a"]))
        clock.wall += 99.0
        assert append(engine, parcel(["b"])).stamp == clock.wall

    def test_a_long_rest_is_no_leap(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock, limits=Limits(clock_jump_seconds_max=100.0))
        append(engine, parcel(["a"]))
        clock.pass_time(10_000.0)
        assert append(engine, parcel(["b"])).stamp == clock.wall

    def test_a_reboot_is_no_leap(self) -> None:
        """Nobody knows how long the machine was off."""
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock, limits=Limits(clock_jump_seconds_max=100.0))
        append(engine, parcel(["a"]))
        clock.wall += 10_000.0
        clock.uptime, clock.boot = 1.0, "second boot"
        assert append(engine, parcel(["b"])).stamp == clock.wall

    def test_stamps_go_on_after_a_restart(self) -> None:
        self.needs("refuses_at_append")
        self.needs("survives_exit")
        clock = HandClock()
        engine = self.engine(clock=clock)
        before = append(engine, parcel(["a"])).stamp
        clock.wall -= 1_000.0
        assert append(self.again(engine), parcel(["b"])).stamp == before

    def test_a_repeat_moves_no_stamp(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        append(engine, numbered("gcs", [1]))
        clock.pass_time(50.0)
        append(engine, numbered("gcs", [1]))
        clock.wall -= 40.0
        assert append(engine, parcel(["b"])).stamp == clock.wall

    @promise("of the newest event in the inbox")
    def test_the_newest_stamp_is_loaded(self) -> None:
        """So that whoever folds on notices a clock that leapt while nobody did."""
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        append(engine, parcel(["a"]))
        clock.pass_time(5.0)
        append(engine, parcel(["b"]))
        stamp = clock()
        clock.pass_time(5.0)
        assert engine.load(Owner.of(engine).claim).stamp == stamp
