"""Evidence spoiled at what came out: states, outputs, timers, and what clients saw of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import msgspec

from holdfast.stepping.commit import Head, Record
from holdfast.testing.simulation.decoding import Fired, extras_of, fired_of
from holdfast.testing.simulation.evidence import Listing, Look, Page, Read
from holdfast.testing.simulation.findings import Promise
from tests.simulation import fleet_v2
from tests.simulation.tampering import Case, Found, breaks, chosen, edited

FOLD, TIMERS, CONTIGUOUS = Promise.FOLD, Promise.TIMERS, Promise.CONTIGUOUS
READS, RECEIPTS, MESSAGES = Promise.READS, Promise.RECEIPTS, Promise.MESSAGES


def change_record(
    case: Case, wanted: Callable[[Record], object], change: Callable[[Record], Record | None]
) -> None:
    """The first record of that kind becomes another, or none."""
    found = case.commit(lambda commit: any(map(wanted, commit.records)))
    records = found.commit.records
    place = next(i for i, record in enumerate(records) if wanted(record))
    changed = change(records[place])
    behind = [] if changed is None else [changed]
    found.put(records=[*records[:place], *behind, *records[place + 1 :]])


def repacked(record: Record, change: Callable[[list[object]], list[object]]) -> Record:
    return record._replace(
        extras=msgspec.msgpack.encode(change(msgspec.msgpack.decode(record.extras)))
    )


# States.


@breaks(FOLD)
def a_state_is_another(case: Case) -> None:
    def change(record: Record) -> Record:
        values = msgspec.msgpack.decode(record.state)
        return record._replace(state=msgspec.msgpack.encode([values[0] + 1, *values[1:]]))

    change_record(case, lambda record: record.agent == "Depot", change)


@breaks(FOLD)
def a_version_is_another(case: Case) -> None:
    change_record(case, lambda r: not r.gone, lambda r: r._replace(version=r.version + 1))


@breaks(FOLD)
def a_changed_agent_was_not_stored(case: Case) -> None:
    change_record(case, lambda record: not record.gone, lambda record: None)


@breaks(FOLD)
def an_expired_agent_is_still_there(case: Case) -> None:
    change_record(case, lambda record: record.gone, lambda record: None)


@breaks(FOLD)
def an_agent_vanished(case: Case) -> None:
    change_record(case, lambda r: not r.gone, lambda r: r._replace(state=b"", extras=b""))


@breaks(FOLD)
def an_agent_that_expires_had_its_last_event_later(case: Case) -> None:
    change_record(
        case,
        lambda record: record.agent == "Visitor" and not record.gone,
        lambda record: record._replace(updated=record.updated + 1.0),
    )


@breaks(FOLD)
def a_stored_timer_is_lost(case: Case) -> None:
    change_record(
        case,
        lambda record: extras_of(record.extras).timers,
        lambda record: repacked(record, lambda parts: [parts[0], parts[1], []]),
    )


@breaks(FOLD)
def a_held_event_is_lost(case: Case) -> None:
    change_record(
        case,
        lambda record: extras_of(record.extras).held,
        lambda record: repacked(record, lambda parts: [parts[0], [], parts[2]]),
    )


@breaks(FOLD)
def a_paused_agent_is_not_paused(case: Case) -> None:
    change_record(
        case,
        lambda record: extras_of(record.extras).paused,
        lambda record: repacked(record, lambda parts: ["", *parts[1:]]),
    )


@breaks(FOLD)
def an_agent_was_lost_by_a_rescale(case: Case) -> None:
    log = next(each for each in case.last_generation() if each.inherited)
    log.inherited = log.inherited[1:]


@breaks(FOLD)
def a_rescale_changed_a_state(case: Case) -> None:
    log = next(each for each in case.last_generation() if each.inherited)
    record = log.inherited[0]
    log.inherited = [record._replace(version=record.version + 1), *log.inherited[1:]]


@breaks(FOLD)
def the_time_of_a_commit_is_another(case: Case) -> None:
    log = case.last_generation()[0]
    found = Found(log, len(log.commits) - 1, log.commits[-1])
    found.put(head=found.commit.head._replace(now=found.commit.head.now + 1.0))


# Letters, answers, logs.


@breaks(FOLD)
def a_dead_letter_has_another_reason(case: Case) -> None:
    found = case.commit(lambda commit: commit.letters)
    letter, *others = found.commit.letters
    found.put(letters=[letter._replace(error="who knows"), *others])


@breaks(FOLD, CONTIGUOUS)
def a_dead_letter_is_lost(case: Case) -> None:
    found = case.commit(lambda commit: commit.letters)
    found.put(letters=found.commit.letters[1:])


@breaks(CONTIGUOUS, FOLD)
def dead_letters_are_numbered_with_a_gap(case: Case) -> None:
    found = case.commit(lambda commit: commit.letters)
    found.put(letters=[each._replace(id=each.id + 1) for each in found.commit.letters])


@breaks(FOLD)
def an_answer_is_lost(case: Case) -> None:
    case.commit(lambda commit: commit.answers).put(answers=[])


@breaks(FOLD)
def a_letter_was_not_marked_as_redriven(case: Case) -> None:
    case.commit(lambda commit: commit.redriven).put(redriven=[])


@breaks(FOLD)
def a_log_line_is_lost(case: Case) -> None:
    case.commit(lambda commit: commit.logs).put(logs=[])


@breaks(FOLD)
def a_reply_is_another(case: Case) -> None:
    asks = case.evidence.asks
    place = next(i for i, ask in enumerate(asks) if ask.reply is not None)
    asks[place] = asks[place]._replace(reply=fleet_v2.Count(number=4711))


@breaks(FOLD)
def a_reply_was_told_as_a_failure(case: Case) -> None:
    asks = case.evidence.asks
    place = next(i for i, ask in enumerate(asks) if ask.reply is not None)
    asks[place] = asks[place]._replace(reply=None, error="nobody replies", failed=True)


@breaks(FOLD)
def one_question_was_answered_twice(case: Case) -> None:
    """Two got the answer, one event was folded."""
    asks = case.evidence.asks
    answered = next(ask for ask in asks if ask.reply is not None)
    asks += [answered] * 9


# Actions.


def issuing(case: Case, least: int = 1) -> Found:
    return case.commit(lambda commit: commit.issued is not None and commit.issued.count >= least)


def reissue(found: Found, frame: bytes) -> None:
    assert found.commit.issued is not None
    found.put(issued=replace(found.commit.issued, frame=frame))


@breaks(CONTIGUOUS)
def an_action_is_numbered_again(case: Case) -> None:
    found = issuing(case)
    assert found.commit.issued is not None
    found.put(issued=replace(found.commit.issued, first=found.commit.issued.first + 1))


@breaks(CONTIGUOUS)
def an_action_has_the_id_of_another(case: Case) -> None:
    found = issuing(case)
    assert found.commit.issued is not None
    reissue(found, edited(found.commit.issued.frame, version=lambda all: [0 for _ in all]))


@breaks(CONTIGUOUS)
def two_actions_changed_places(case: Case) -> None:
    found = issuing(case, least=2)
    issued = found.commit.issued
    assert issued is not None
    reissue(found, chosen(issued.frame, [1, 0, *range(2, issued.count)]))


@breaks(FOLD)
def an_action_was_issued_at_another_time(case: Case) -> None:
    found = issuing(case)
    assert found.commit.issued is not None
    reissue(found, edited(found.commit.issued.frame, now=lambda all: [1.0 for _ in all]))


@breaks(CONTIGUOUS)
def a_client_got_an_action_twice(case: Case) -> None:
    pages = case.evidence.pages
    place = next(i for i, page in enumerate(pages) if page.ids)
    pages[place] = pages[place]._replace(ids=(*pages[place].ids, pages[place].ids[0]))


@breaks(CONTIGUOUS)
def a_client_missed_an_action(case: Case) -> None:
    pages = case.evidence.pages
    place = next(i for i, page in enumerate(pages) if page.ids)
    pages[place] = pages[place]._replace(ids=pages[place].ids[1:])


@breaks(CONTIGUOUS)
def a_client_got_an_empty_page_too_early(case: Case) -> None:
    case.evidence.pages.append(Page("stranger", 1e6, ()))


@breaks(CONTIGUOUS)
def a_client_got_an_action_that_was_never_issued(case: Case) -> None:
    case.evidence.pages.append(Page("stranger", 1e6, ("yard/Robot/r-1/99999/0",)))


@breaks(CONTIGUOUS)
def a_client_got_an_action_before_its_commit(case: Case) -> None:
    last = next(page for page in reversed(case.evidence.pages) if page.ids)
    case.evidence.pages.remove(last)
    case.evidence.pages.append(last._replace(at=0.0))


# Timers.


def firing(case: Case, wanted: Callable[[Fired], object]) -> tuple[Found, int]:
    """A commit and the place in its journal of the first firing of that kind."""
    found = case.commit(lambda commit: any(map(wanted, fired_of(commit))))
    return found, next(i for i, each in enumerate(fired_of(found.commit)) if wanted(each))


def rejournal(found: Found, frame: bytes) -> None:
    assert found.commit.journalled is not None
    found.put(journalled=replace(found.commit.journalled, frame=frame))


def journal_of(found: Found) -> tuple[bytes, int]:
    assert found.commit.journalled is not None
    return found.commit.journalled.frame, found.commit.journalled.count


@breaks(TIMERS, alone=False)
def a_timer_did_not_fire(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.name == "late")
    frame, count = journal_of(found)
    rejournal(found, chosen(frame, [i for i in range(count) if i != place]))


@breaks(TIMERS, alone=False)
def an_agent_did_not_expire(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.raw is None)
    frame, count = journal_of(found)
    rejournal(found, chosen(frame, [i for i in range(count) if i != place]))


@breaks(TIMERS, alone=False)
def a_timer_fired_twice(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.name == "bye")
    frame, count = journal_of(found)
    rejournal(found, chosen(frame, [*range(count), place]))


@breaks(TIMERS, alone=False)
def a_timer_fired_early(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.name == "late")
    due = fired_of(found.commit)[place].due

    def change(nows: list[object]) -> list[object]:
        return [due - 0.5 if i == place else now for i, now in enumerate(nows)]

    rejournal(found, edited(journal_of(found)[0], now=change))


@breaks(TIMERS)
def a_timer_fired_for_another_time(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.name == "beat")

    def change(dues: list[object]) -> list[object]:
        return [0.5 if i == place else due for i, due in enumerate(dues)]

    rejournal(found, edited(journal_of(found)[0], due=change))


@breaks(TIMERS, alone=False)
def a_timer_fired_that_was_not_set(case: Case) -> None:
    found, place = firing(case, lambda fired: fired.name == "late")

    def change(names: list[object]) -> list[object]:
        return ["cancelled" if i == place else name for i, name in enumerate(names)]

    rejournal(found, edited(journal_of(found)[0], name=change))


@breaks(TIMERS)
def a_timer_was_due_when_the_run_was_quiet(case: Case) -> None:
    case.evidence.clock_at_quiet = 1e9


@breaks(TIMERS)
def a_rescale_set_a_clock_back(case: Case) -> None:
    log = case.last_generation()[0]
    log.born = log.born._replace(now=1.0)
    first_commit = Found(log, 0, log.commits[0])
    first_commit.put(before=log.born)


@breaks(CONTIGUOUS)
def the_journal_is_numbered_with_a_gap(case: Case) -> None:
    found, _ = firing(case, lambda fired: True)
    journalled = found.commit.journalled
    assert journalled is not None
    found.put(journalled=replace(journalled, first=journalled.first + 1))


# Reads.


@breaks(READS)
def a_read_went_back(case: Case) -> None:
    """The agent was there, later it had never been born."""
    reads = case.evidence.reads
    place, read = next((i, r) for i, r in enumerate(reads) if r.agent == "Depot" and r.state)
    reads.insert(place + 1, read._replace(state=None, after=None))


@breaks(READS)
def a_read_shows_what_was_there_long_before(case: Case) -> None:
    """By a client that has seen nothing else."""
    read = next(r for r in case.evidence.reads if r.agent == "Depot" and r.state)
    case.evidence.reads.append(
        read._replace(client="stranger", state=None, after=None, began=1e6, ended=1e6)
    )


@breaks(READS)
def a_read_shows_what_was_never_committed(case: Case) -> None:
    read = next(r for r in case.evidence.reads if r.agent == "Depot" and r.state)
    state = msgspec.structs.replace(read.state, parcels=4711)  # type: ignore[type-var]
    case.evidence.reads.append(Read("stranger", "Depot", read.key, None, 1e6, 1e6, state))


@breaks(READS)
def a_read_shows_what_is_committed_later(case: Case) -> None:
    read = next(r for r in case.evidence.reads if r.agent == "Depot" and r.state)
    case.evidence.reads.append(read._replace(client="stranger", after=None, began=0.0, ended=1.0))


@breaks(RECEIPTS)
def a_read_does_not_show_its_receipt(case: Case) -> None:
    send = next(
        s
        for s in reversed(case.evidence.sends)
        if s.agent == "Depot" and s.receipt is not None and type(s.event).__name__ == "Parcel"
    )
    case.evidence.reads.append(
        Read("stranger", "Depot", send.key, send.receipt, send.ended, 1e6, None)
    )


@breaks(RECEIPTS)
def a_read_came_back_before_its_receipt_was_folded(case: Case) -> None:
    send = next(s for s in case.evidence.sends if s.agent == "Depot" and s.receipt is not None)
    case.evidence.reads.append(
        Read("stranger", "Depot", send.key, send.receipt, send.began, send.began - 1.0, None)
    )


@breaks(READS)
def a_head_went_back(case: Case) -> None:
    looks = case.evidence.looks
    place = max(i for i, look in enumerate(looks) if look.head.commits > 3)
    first_seen = next(
        each
        for each in looks
        if each.partition == looks[place].partition and each.client == looks[place].client
    )
    assert first_seen.head != looks[place].head
    looks.append(first_seen._replace(at=1e6))


@breaks(READS)
def a_head_was_seen_long_after_it_was_the_newest(case: Case) -> None:
    look = next(each for each in case.evidence.looks if each.head.commits < 3)
    case.evidence.looks.append(look._replace(client="stranger", at=1e6))


@breaks(READS)
def a_head_was_never_committed(case: Case) -> None:
    look = case.evidence.looks[-1]
    head: Head = look.head._replace(position=look.head.position + 1)
    case.evidence.looks.append(Look("stranger", look.partition, 1e6, head))


def listed(case: Case, what: Literal["states", "paused", "letters"], *names: str) -> None:
    numbers = tuple(log.number for log in case.last_generation())
    case.evidence.listings.append(Listing("stranger", 1e6, what, "Depot", numbers, names))


@breaks(READS)
def agents_were_missing_in_a_list(case: Case) -> None:
    listed(case, "states")


@breaks(READS)
def dead_letters_were_missing_in_a_list(case: Case) -> None:
    listed(case, "letters")


@breaks(READS)
def an_agent_was_listed_that_is_not_paused(case: Case) -> None:
    listed(case, "paused", "Depot/d-9 holds 0: tea")
