"""Evidence spoiled at its inputs: what was sent, what the inboxes hold, who folded them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from holdfast.testing.simulation.decoding import Input, RawEvent
from holdfast.testing.simulation.evidence import PartitionLog, Send
from holdfast.testing.simulation.findings import Promise
from tests.simulation import fleet_v1
from tests.simulation.tampering import Case, Found, appended, breaks, chosen, edited, first, removed

KEPT, ONCE, ORDER, MESSAGES = Promise.KEPT, Promise.ONCE, Promise.ORDER, Promise.MESSAGES
FOLD, TIMERS, ONE_WRITER = Promise.FOLD, Promise.TIMERS, Promise.ONE_WRITER
CONTIGUOUS, RECEIPTS, SETTLES = Promise.CONTIGUOUS, Promise.RECEIPTS, Promise.SETTLES


def last_frame(case: Case, origin: str) -> tuple[PartitionLog, int, list[Input]]:
    """A frame that nothing follows, so that it can go without moving others."""
    lives = case.last_generation()
    return first(x for x in case.frames(origin) if x[0] in lives and x[1] == len(x[0].frames) - 1)


def change_sends(case: Case, one: Input, change: Callable[[Send], Send]) -> None:
    """Every attempt to send what is at this position."""
    sends = case.evidence.sends
    for i, send in enumerate(sends):
        if (send.source, send.seq) == (one.source, one.seq):
            sends[i] = change(send)


# No acknowledged event is lost.


@breaks(KEPT, ORDER, alone=False)
def the_last_event_is_lost_from_its_inbox(case: Case) -> None:
    log, place, _ = last_frame(case, "external")
    removed(log, place)


@breaks(KEPT)
def an_acknowledged_event_is_in_no_inbox(case: Case) -> None:
    sent = next(s for s in case.evidence.sends if s.outcome == "acknowledged")
    case.evidence.sends.append(sent._replace(seq=777_777, receipt=None))


@breaks(KEPT)
def an_event_was_sent_with_other_values(case: Case) -> None:
    _, _, inputs = first(x for x in case.frames("external") if x[2][0].agent == "Scale")
    other = fleet_v1.Weigh(kilograms=77.0)
    change_sends(case, inputs[0], lambda send: send._replace(event=other))


@breaks(KEPT)
def an_event_was_sent_to_another_agent(case: Case) -> None:
    _, _, inputs = first(case.frames("external"))
    change_sends(case, inputs[0], lambda send: send._replace(agent="Depot", key="d-9"))


@breaks(KEPT, alone=False)
def events_are_in_the_wrong_partition(case: Case) -> None:
    one, other = case.evidence.generations[0]
    one.slots, other.slots = other.slots, one.slots


@breaks(KEPT, alone=False)
def a_rescaled_partition_was_not_drained(case: Case) -> None:
    case.evidence.generations[0][0].commits.pop()


# No event is folded twice.


@breaks(ONCE, SETTLES)
def an_event_is_in_an_inbox_twice(case: Case) -> None:
    log, place, _ = last_frame(case, "external")
    appended(log, log.frames[place])


@breaks(ONCE)
def a_refused_event_is_in_an_inbox(case: Case) -> None:
    _, _, inputs = first(case.frames("external"))
    change_sends(case, inputs[0], lambda send: send._replace(outcome="refused", receipt=None))


@breaks(ONCE)
def nobody_sent_an_event(case: Case) -> None:
    _, _, inputs = first(case.frames("external"))
    number = inputs[0].source, inputs[0].seq
    case.evidence.sends = [s for s in case.evidence.sends if (s.source, s.seq) != number]


@breaks(ONCE)
def nobody_asked_a_question(case: Case) -> None:
    _, _, inputs = first(x for x in case.frames("external") if x[2][0].asks)
    one = inputs[0]
    case.evidence.asks = [
        ask for ask in case.evidence.asks if (ask.agent, ask.key) != (one.agent, one.key)
    ]


# Order.


@breaks(ORDER, alone=False)
def two_events_changed_places(case: Case) -> None:
    """Of two that were sent one after the other, the later one is in front."""
    singles: dict[int, list[tuple[PartitionLog, int]]] = defaultdict(list)
    for log, place, inputs in case.frames("external"):
        if len(inputs) == 1 and inputs[0].agent == "Depot":
            singles[log.number].append((log, place))
    (log, one), (_, other) = next(found[:2] for found in singles.values() if len(found) > 1)
    earlier, later = log.frames[one], log.frames[other]
    log.frames[one] = replace(earlier, frame=later.frame)
    log.frames[other] = replace(later, frame=earlier.frame)


@breaks(ORDER)
def an_event_began_after_a_later_one_was_acknowledged(case: Case) -> None:
    _, _, inputs = first(case.frames("external"))
    change_sends(case, inputs[0], lambda send: send._replace(began=1e6, ended=1e6))


@breaks(ORDER)
def an_event_of_an_old_generation_began_after_a_new_one(case: Case) -> None:
    """The only one of its partition that came so late, so only its key tells."""
    new = {
        one.key
        for log in case.last_generation()
        for x in case.frames("external")
        if x[0] is log
        for one in x[2]
    }
    old = case.evidence.generations[0]
    inputs = [one for log, _, found in case.frames("external") if log in old for one in found]
    last = next(one for one in reversed(inputs) if one.key in new)
    change_sends(case, last, lambda send: send._replace(began=1e6, ended=1e6))


@breaks(ORDER)
def positions_have_a_gap(case: Case) -> None:
    log, place, _ = last_frame(case, "message")
    frame = log.frames[place]
    log.frames[place] = replace(frame, first=frame.first + 1)


@breaks(ORDER, alone=False)
def a_stamp_goes_back(case: Case) -> None:
    """That of a command, which nobody sees: the time of the partition does not follow."""
    log, place, _ = first(x for x in case.frames("control") if x[1] > 0)
    log.frames[place] = replace(log.frames[place], stamp=1.0)


@breaks(ORDER, SETTLES)
def a_commit_covers_what_was_never_appended(case: Case) -> None:
    log = case.last_generation()[0]
    found = Found(log, len(log.commits) - 1, log.commits[-1])
    head = found.commit.head
    found.put(head=head._replace(position=head.position + 3))


# Messages.


@breaks(MESSAGES, ORDER, alone=False)
def the_last_message_is_lost_from_its_inbox(case: Case) -> None:
    log, place, _ = last_frame(case, "message")
    removed(log, place)


@breaks(MESSAGES, SETTLES)
def a_message_is_in_an_inbox_twice(case: Case) -> None:
    lives = case.last_generation()
    log, place, _ = first(x for x in case.frames("message") if x[0] in lives)
    appended(log, log.frames[place])


def two_of_a_pair(case: Case) -> tuple[PartitionLog, int, int]:
    """Frames of one message each, from one agent to another, that differ."""
    pairs: dict[object, list[tuple[PartitionLog, int, RawEvent]]] = defaultdict(list)
    for log, place, inputs in case.frames("message"):
        if len(inputs) == 1:
            pair = log.number, inputs[0].sender, inputs[0].who
            pairs[pair].append((log, place, inputs[0].raw))
    for found in pairs.values():
        for log, place, raw in found[1:]:
            if raw != found[0][2]:
                return log, found[0][1], place
    raise AssertionError("no pair of agents has two different messages")


@breaks(MESSAGES, FOLD)
def two_messages_of_a_pair_changed_places(case: Case) -> None:
    log, one, other = two_of_a_pair(case)
    earlier, later = log.frames[one], log.frames[other]
    log.frames[one] = replace(earlier, frame=later.frame)
    log.frames[other] = replace(later, frame=earlier.frame)


@breaks(MESSAGES)
def a_message_has_made_other_hops(case: Case) -> None:
    log, place, _ = last_frame(case, "message")
    frame = edited(log.frames[place].frame, hops=lambda hops: [9 for _ in hops])
    log.frames[place] = replace(log.frames[place], frame=frame)


@breaks(MESSAGES)
def a_commit_has_lost_its_messages(case: Case) -> None:
    case.commit(lambda commit: commit.outgoing).put(outgoing=[])


@breaks(MESSAGES)
def messages_are_numbered_with_a_gap(case: Case) -> None:
    found = case.commit(lambda commit: commit.outgoing)
    out = found.commit.outgoing[0]
    found.put(outgoing=[replace(out, first=out.first + 1), *found.commit.outgoing[1:]])


@breaks(MESSAGES)
def a_commit_sends_a_message_twice(case: Case) -> None:
    found = case.commit(lambda commit: len(commit.outgoing) == 1)
    out = found.commit.outgoing[0]
    twice = replace(out, frame=chosen(out.frame, [*range(out.count), 0]))
    found.put(outgoing=[twice])


@breaks(MESSAGES)
def the_next_number_of_a_message_is_wrong(case: Case) -> None:
    found = case.commit(lambda commit: commit.sent_next)
    found.put(sent_next={number: n + 1 for number, n in found.commit.sent_next.items()})


# One writer.


@breaks(ONE_WRITER)
def two_processes_share_an_epoch(case: Case) -> None:
    found = list(case.commits())[1]
    found.log.commits[found.place] = found.accepted._replace(process="somebody else")


@breaks(ONE_WRITER)
def an_epoch_goes_back(case: Case) -> None:
    found = list(case.commits())[-1]
    found.log.commits[found.place] = found.accepted._replace(epoch=0)


@breaks(ONE_WRITER)
def a_commit_does_not_follow_the_one_before(case: Case) -> None:
    found = list(case.commits())[5]
    before = found.commit.before
    found.put(before=before._replace(now=before.now - 1.0))


@breaks(ONE_WRITER, FOLD, alone=False)
def a_commit_is_lost(case: Case) -> None:
    found = case.commit(lambda commit: commit.issued is not None and commit.outgoing)
    del found.log.commits[found.place]


@breaks(FOLD)
def an_older_release_folds_after_a_newer_one(case: Case) -> None:
    log = next(each for each in case.logs if {a.program for a in each.commits} == {0, 1})
    place = max(i for i, a in enumerate(log.commits) if a.program == 0)
    # A commit of the older one that changes nothing, behind the first of the newer one.
    newer = log.commits[place + 1]
    head = newer.commit.head
    idle = replace(
        newer.commit,
        before=head,
        head=head,
        records=[],
        outgoing=[],
        sent_next={},
        issued=None,
        answers=[],
        letters=[],
        redriven=[],
        journalled=None,
        logs=[],
    )
    log.commits.insert(place + 2, newer._replace(program=0, commit=idle))


@breaks(SETTLES)
def the_run_never_became_quiet(case: Case) -> None:
    case.evidence.quiet = False


@breaks(RECEIPTS)
def a_receipt_names_a_position_before_its_event(case: Case) -> None:
    sends = case.evidence.sends
    place = next(i for i, s in enumerate(sends) if s.receipt is not None and not s.receipt.repeats)
    receipt = sends[place].receipt
    assert receipt is not None
    positions = tuple((number, 0) for number, _ in receipt.positions)
    sends[place] = sends[place]._replace(receipt=receipt._replace(positions=positions))


# An operator's commands.


@breaks(KEPT)
def a_command_is_acknowledged_and_nowhere(case: Case) -> None:
    commands = case.evidence.commands
    given = next(each for each in commands if each.receipt is not None)
    commands.append(given)


@breaks(ONCE)
def a_command_was_given_by_nobody(case: Case) -> None:
    case.evidence.commands.pop()


@breaks(ONCE)
def a_command_was_refused_and_is_there(case: Case) -> None:
    commands = case.evidence.commands
    commands[0] = commands[0]._replace(outcome="refused", receipt=None)
