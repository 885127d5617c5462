"""Evidence spoiled in the urgent lane: what came to it, and what the journal took of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from holdfast.testing.simulation.contract.overtaking import is_overtaking
from holdfast.testing.simulation.decoding import Fired, fired_of, inputs_of
from holdfast.testing.simulation.findings import Promise
from tests.simulation.tampering import Case, Found, breaks, chosen, edited, first
from tests.simulation.tampers_inputs import change_sends

KEPT, ONCE, ORDER, FOLD = Promise.KEPT, Promise.ONCE, Promise.ORDER, Promise.FOLD
SETTLES, RECEIPTS = Promise.SETTLES, Promise.RECEIPTS


class Taken(NamedTuple):
    """An urgent event in the journal of a commit."""

    found: Found
    row: int
    fired: Fired

    def put(self, **columns: object) -> None:
        """Other values in its row."""

        def change(value: object) -> Callable[[list[object]], list[object]]:
            return lambda old: [*old[: self.row], value, *old[self.row + 1 :]]

        journalled = self.found.commit.journalled
        assert journalled is not None
        changes = {name: change(value) for name, value in columns.items()}
        self.found.put(journalled=replace(journalled, frame=edited(journalled.frame, **changes)))


def taken(case: Case) -> Iterator[Taken]:
    for found in case.commits():
        for row, fired in enumerate(fired_of(found.commit)):
            if is_overtaking(fired):
                yield Taken(found, row, fired)


@breaks(KEPT, ORDER, alone=False)
def an_urgent_event_is_lost_from_its_lane(case: Case) -> None:
    log = first(
        log
        for log in case.last_generation()
        if log.lane and inputs_of(log.lane[-1])[0].origin == "external"
    )
    log.lane.pop()


@breaks(ONCE, alone=False)
def an_urgent_event_is_folded_twice(case: Case) -> None:
    one = first(taken(case))
    journalled = one.found.commit.journalled
    assert journalled is not None
    rows = [*range(one.row + 1), *range(one.row, journalled.count)]
    frame = chosen(journalled.frame, rows)
    one.found.put(journalled=replace(journalled, count=len(rows), frame=frame))


@breaks(ORDER, alone=False)
def an_urgent_event_is_left_out(case: Case) -> None:
    one = first(taken(case))
    journalled = one.found.commit.journalled
    assert journalled is not None
    rows = [row for row in range(journalled.count) if row != one.row]
    frame = chosen(journalled.frame, rows)
    one.found.put(journalled=replace(journalled, count=len(rows), frame=frame))


@breaks(FOLD)
def an_urgent_event_is_journalled_with_another_row(case: Case) -> None:
    one = first(taken(case))
    assert one.fired.raw is not None
    number, encoded = one.fired.raw
    one.put(event=(number, encoded[:-1] + bytes([encoded[-1] ^ 1])))


@breaks(FOLD)
def an_urgent_event_is_folded_at_another_time(case: Case) -> None:
    one = first(taken(case))
    one.put(now=one.fired.now + 1.0)


@breaks(FOLD)
def an_urgent_event_is_folded_before_it_came(case: Case) -> None:
    log = first(log for log in case.logs if log.lane)
    log.came[0] = 1e9


@breaks(ORDER, alone=False)
def an_urgent_event_is_folded_behind_what_came_later(case: Case) -> None:
    """It was acknowledged before anything else was sent."""
    log = first(log for log in case.last_generation() if log.lane)
    one = first(
        one
        for frame in reversed(log.lane)
        for one in inputs_of(frame)
        if one.origin == "external" and not one.asks
    )
    change_sends(case, one, lambda send: send._replace(began=-1.0, ended=-1.0))


@breaks(ORDER, SETTLES)
def a_head_counts_more_urgent_events_than_came(case: Case) -> None:
    log = first(log for log in case.last_generation() if log.commits)
    found = Found(log, len(log.commits) - 1, log.commits[-1])
    head = found.commit.head
    found.put(head=head._replace(urgent=head.urgent + 1))


@breaks(RECEIPTS)
def a_receipt_names_a_place_in_the_lane_before_its_event(case: Case) -> None:
    sends = case.evidence.sends
    lane = {
        (one.source, one.seq) for log in case.logs for frame in log.lane for one in inputs_of(frame)
    }
    place, receipt = first(
        (i, s.receipt)
        for i, s in enumerate(sends)
        if s.receipt is not None and not s.receipt.repeats and (s.source, s.seq) in lane
    )
    positions = tuple((number, 1 << 52) for number, _ in receipt.positions)
    sends[place] = sends[place]._replace(receipt=receipt._replace(positions=positions))
