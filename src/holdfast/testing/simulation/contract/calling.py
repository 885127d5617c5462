"""CALLS: functions run for calls that were made, answers are what they returned, and all come."""

from __future__ import annotations

from collections import defaultdict

from holdfast.model.calls import CallFailed
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import Input, Unreadable, is_row_of
from holdfast.testing.simulation.evidence import Attempted
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History
from holdfast.testing.simulation.plaincontext import PlainCall
from holdfast.testing.simulation.retelling import Story


def check(history: History, story: Story, report: Report) -> None:
    attempts: dict[str, list[Attempted]] = defaultdict(list)
    for attempt in history.evidence.attempts:
        attempts[attempt.call].append(attempt)
        _ran(report, attempt, story.calls.get(attempt.call))
    for partition in history.partitions:
        for one in partition.inputs:
            if one.answers is not None:
                wrong = _why_wrong(history, one, story, attempts[one.answers[0]])
                if wrong is not None:
                    text = f"{one.who} at {one.position}: the reply to {one.answers[0]} {wrong}"
                    report.add(Promise.CALLS, text, partition.number, one.who)
    if history.evidence.quiet:
        for call in story.open:
            text = f"call {call.id} was never answered, and the run was called quiet"
            report.add(Promise.SETTLES, text, None, f"{call.agent}/{call.key}")


def _ran(report: Report, attempt: Attempted, made: tuple[float, PlainCall] | None) -> None:
    if made is None:
        report.add(Promise.CALLS, f"{attempt.call} ran, and nobody called it", at=attempt.at)
        return
    at, call = made
    who = f"{call.agent}/{call.key}"
    if attempt.at < at:
        text = f"{attempt.call} ran before its call was durable at {at}"
        report.add(Promise.CALLS, text, None, who, attempt.at)
    if (attempt.function, attempt.arguments) != (call.function, call.arguments):
        text = f"{attempt.call} ran as {attempt.function}, {attempt.arguments!r}, expected {call}"
        report.add(Promise.CALLS, text, None, who, attempt.at)


def _why_wrong(history: History, one: Input, story: Story, attempts: list[Attempted]) -> str | None:
    assert one.answers is not None
    made = story.calls.get(one.answers[0])
    if made is None:
        return "answers a call that nobody made"
    if any(
        a.returned is not None and is_row_of(history.schemas, one.raw, a.returned) for a in attempts
    ):
        return None
    try:
        event = history.releases[-1].read(one.raw)
    except Unreadable as error:
        return f"cannot be read: {error}"
    if not isinstance(event, CallFailed):
        return f"is {event}, which no attempt returned"
    facts = (event.call, event.function) == (made[1].id, made[1].function)
    if not facts or not 0 <= event.attempts <= made[1].retries + 1:
        return f"is {event}, expected a failure of {made[1]}"
    return None
