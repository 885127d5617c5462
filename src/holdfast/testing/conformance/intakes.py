"""Conformance: an intake that is closed for a rescaling (rescales.py), and opened again."""

from __future__ import annotations

import pytest

from holdfast.errors import Fenced, Rescaling, TryAgain
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.rescales import owners
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
)


class IntakeConformance(Workbench):
    @promise(
        "The next three only with the capability",
        "From now on the inbox refuses everything but messages",
    )
    def test_a_closed_intake_takes_messages_and_nothing_else(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        first, _ = owners(engine)
        append(engine, numbered("gcs", range(1, 3)))
        engine.close_intake(first.claim)
        assert isinstance(refusal(engine, numbered("gcs", range(3, 4))), Rescaling)
        assert isinstance(refusal(engine, parcel(["command"], external=False)), Rescaling)
        assert append(engine, messages("other", 1, 2)).new == 2
        assert append(engine, numbered("gcs", range(3, 4)), 1).new == 1, "the other one is open"
        assert inbox(engine) == ["gcs.1", "gcs.2", "other>1", "other>2"]
        assert issubclass(Rescaling, TryAgain)

    @promise("Until `open_intake` or the next claim")
    def test_a_closed_intake_stays_closed_until_the_next_claim(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        engine.close_intake(Owner.of(engine).claim)
        again = self.again(engine)
        assert isinstance(refusal(again, parcel(["too early"])), Rescaling)
        Owner.of(again)
        assert append(again, parcel(["a"])).new == 1

    @promise("Its time stands still")
    def test_time_stands_while_an_intake_is_closed(self) -> None:
        """Or timers that become due in front of a message would send messages without end."""
        self.needs("rescales")
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        owner = Owner.of(engine)
        engine.close_intake(owner.claim)
        closed_at = clock.wall
        clock.pass_time(5.0)
        assert append(engine, messages("other", 1, 1)).stamp == closed_at
        engine.close_intake(owner.claim)
        assert append(engine, messages("other", 2, 1)).stamp == closed_at
        engine.open_intake(owner.claim)
        assert append(engine, messages("other", 3, 1)).stamp == closed_at + 5.0

    def test_whoever_closed_an_intake_can_open_it(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        owner = Owner.of(engine)
        engine.close_intake(owner.claim)
        engine.open_intake(owner.claim)
        assert append(engine, parcel(["a"])).new == 1

    @promise("Not by an older claim")
    def test_an_older_claim_can_not_touch_the_intake(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        old = Owner.of(engine)
        again = self.again(engine)
        new = Owner.of(again)
        with pytest.raises(Fenced):
            engine.close_intake(old.claim)
        assert append(again, parcel(["a"])).new == 1
        again.close_intake(new.claim)
        with pytest.raises(Fenced):
            engine.open_intake(old.claim)
        assert isinstance(refusal(again, parcel(["b"])), Rescaling)
