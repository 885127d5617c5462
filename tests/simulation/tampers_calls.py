"""Evidence spoiled in its calls and replies."""

from __future__ import annotations

from dataclasses import replace

from holdfast.testing.simulation.decoding import extras_of
from holdfast.testing.simulation.findings import Promise
from tests.simulation.tampering import Case, NothingToSpoil, breaks, edited, first
from tests.simulation.tampers_outputs import change_record, repacked

CALLS, CONTIGUOUS, FOLD, SETTLES = Promise.CALLS, Promise.CONTIGUOUS, Promise.FOLD, Promise.SETTLES


@breaks(CALLS, CONTIGUOUS)
def a_call_is_lost_on_commit(case: Case) -> None:
    found = case.commit(lambda commit: commit.calls)
    found.put(calls=found.commit.calls[1:])


@breaks(CALLS)
def a_call_has_other_arguments(case: Case) -> None:
    found = case.commit(lambda commit: commit.calls)
    one, *others = found.commit.calls
    found.put(calls=[one._replace(arguments=b"\x90"), *others])


@breaks(CALLS)
def a_call_has_an_id_of_its_own(case: Case) -> None:
    found = case.commit(lambda commit: commit.calls)
    one, *others = found.commit.calls
    found.put(calls=[one._replace(id="yard/Robot/r-1/1/call99"), *others])


@breaks(CONTIGUOUS)
def a_call_is_numbered_twice(case: Case) -> None:
    found = case.commit(lambda commit: len(commit.calls) > 1)
    one, two, *others = found.commit.calls
    found.put(calls=[one, two._replace(number=one.number), *others])


@breaks(CALLS)
def a_call_is_closed_twice(case: Case) -> None:
    found = case.commit(lambda commit: commit.closed)
    found.put(closed=[*found.commit.closed, found.commit.closed[0]])


@breaks(CALLS)
def a_call_is_not_closed(case: Case) -> None:
    case.commit(lambda commit: commit.closed).put(closed=[])


@breaks(FOLD)
def an_agent_forgets_an_open_call(case: Case) -> None:
    change_record(
        case,
        lambda record: extras_of(record.extras).calls,
        lambda record: repacked(record, lambda parts: parts[:3]),
    )


@breaks(CALLS, CONTIGUOUS)
def an_open_call_was_forgotten_by_a_rescale(case: Case) -> None:
    log = first(log for log in case.last_generation() if log.calls)
    log.calls = log.calls[1:]


@breaks(CALLS)
def a_function_ran_before_its_call_was_durable(case: Case) -> None:
    attempts = case.evidence.attempts
    case.evidence.attempts = [attempts[0]._replace(at=0.0), *attempts[1:]]


@breaks(CALLS)
def a_function_ran_with_other_arguments(case: Case) -> None:
    attempts = case.evidence.attempts
    case.evidence.attempts = [attempts[0]._replace(arguments=b"\x90"), *attempts[1:]]


@breaks(CALLS)
def a_function_ran_that_nobody_called(case: Case) -> None:
    attempts = case.evidence.attempts
    case.evidence.attempts = [*attempts, attempts[0]._replace(call="yard/Robot/r-1/1/call99")]


@breaks(CALLS)
def a_reply_says_what_no_function_returned(case: Case) -> None:
    case.evidence.attempts = [each._replace(returned=None) for each in case.evidence.attempts]


@breaks(CALLS)
def a_reply_answers_a_call_that_nobody_made(case: Case) -> None:
    """One that came late, so that nobody has taken it."""
    seen: set[object] = set()
    for log, place, inputs in case.frames("reply"):
        if inputs[0].answers in seen:
            frame = log.frames[place]
            log.frames[place] = replace(frame, frame=edited(frame.frame, call=lambda _: ["other"]))
            return
        seen.add(inputs[0].answers)
    raise NothingToSpoil


@breaks(SETTLES, CALLS, FOLD, alone=False)
def a_reply_never_came(case: Case) -> None:
    """The agent never got it, and the run was called quiet."""
    replies = list(case.frames("reply"))
    answered = [inputs[0].answers for _, _, inputs in replies]
    taken = max(i for i, each in enumerate(answered) if answered.index(each) == i)
    log, place, _ = replies[taken]
    frame = log.frames[place]
    log.frames[place] = replace(frame, frame=edited(frame.frame, arguments=lambda _: ["other"]))
