"""The urgent lane: each event of it is folded once, in its order, as it came, and in good time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.stepping.lane import LANE, TAKEN_NAME
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import Fired, Input, fired_of
from holdfast.testing.simulation.evidence import Accepted
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition
from holdfast.testing.simulation.reference import Reference

AT_ONCE = {"ground-stop", "lift-ground-stop", "override", "pause", "resume"}


def is_overtaking(fired: Fired) -> bool:
    return fired.name == TAKEN_NAME and fired.raw is not None


def belongs_in_lane(history: History, one: Input) -> bool:
    """By its class, or the verb of the command; what agents send each other never does."""
    if one.command is not None:
        return one.command[0] in AT_ONCE
    if one.origin != "external" or one.raw[0] not in history.schemas:
        return False
    event = history.releases[-1].model.events.get(history.schemas[one.raw[0]].name)
    return event is not None and event.__holdfast__.priority == "urgent"


class InTurn(NamedTuple):
    """An input where the fold took it."""

    urgent: bool
    input: Input


def in_order_of_folding(partition: Partition) -> Iterator[InTurn]:
    """What waits in the lane stands before what waits in the inbox."""
    at, urgent, log = 0, 0, partition.log
    for accepted in log.commits:
        for fired in fired_of(accepted.commit):
            if is_overtaking(fired) and urgent < len(partition.lane):
                end = max(at, fired.position - log.first)
                yield from (InTurn(False, one) for one in partition.inputs[at:end])
                yield InTurn(True, partition.lane[urgent])
                at, urgent = end, urgent + 1
        end = max(at, accepted.commit.head.position - log.first)
        yield from (InTurn(False, one) for one in partition.inputs[at:end])
        at = end
    yield from (InTurn(True, one) for one in partition.lane[urgent:])
    yield from (InTurn(False, one) for one in partition.inputs[at:])


class Overtaking:
    """The lane of one partition, held against what the journal says was taken of it."""

    def __init__(self, partition: Partition, report: Report) -> None:
        self._partition = partition
        self._report = report

    def _found(self, promise: Promise, text: str, who: str, at: float) -> None:
        number = self._partition.number
        self._report.add(promise, f"partition {number}: {text}", number, who, at)

    def take(self, reference: Reference, fired: Fired, accepted: Accepted) -> None:
        """Judge one, then let the reference fold what came under that number."""
        assert fired.raw is not None
        number, encoded = fired.raw
        who, what = f"{fired.agent}/{fired.key}", f"urgent event {number - LANE}"
        expected = LANE + reference.urgent
        if number < expected:
            self._found(Promise.ONCE, f"{what} was folded again", who, accepted.at)
        if number > expected:
            text = f"{what} was folded before {expected - LANE}"
            self._found(Promise.ORDER, text, who, accepted.at)
        one, index = self._partition.input_at(number), number - LANE
        if number < LANE or one is None:
            self._found(Promise.FOLD, f"{what} was folded, and never came", who, accepted.at)
            return
        log = self._partition.log
        if log.came[index] > accepted.at:
            text = f"{what} was folded before it came at {log.came[index]}"
            self._found(Promise.FOLD, text, who, accepted.at)
        if one.who != who or encoded != log.lane[index].frame:
            text = f"{what} is journalled as {encoded!r} for {who}, it came as {one}"
            self._found(Promise.FOLD, text, who, accepted.at)
        now = max(reference.now, one.stamp)
        if (fired.due, fired.now) != (one.stamp, now):
            text = f"{what} was folded at {fired.now}, stamped {fired.due}, expected {now}"
            self._found(Promise.FOLD, f"{text} and {one.stamp}", who, accepted.at)
        reference.overtake(one)

    def reached(self, reference: Reference, accepted: Accepted) -> None:
        """The head says how many were folded, and the journal has them all."""
        head = accepted.commit.head
        if head.urgent != reference.urgent:
            text = f"commit {head.commits} folds {head.urgent} urgent events by its head, by its "
            text += f"journal {reference.urgent}"
            number = self._partition.number
            self._report.add(Promise.ORDER, text, number, None, accepted.at)
