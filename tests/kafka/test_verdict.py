"""Goal: the verdict on a run can be believed: each kind of damage to the evidence is found.

The evidence is that of a real run, which is right as it is; then one thing in it is changed.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.kafka.chaos import compared, wait_for_events
from tests.kafka.ledger import Action, Arrival, Claim, Commit, Ledger
from tests.kafka.place import place
from tests.kafka.verdict import verdict
from tests.kills.oracle import Oracle
from tests.kills.script import Row

SEED = 21
pytestmark = [pytest.mark.kill, pytest.mark.slow]


class Run(NamedTuple):
    ledger: Ledger
    sent: dict[str, list[Row]]


@pytest.fixture(scope="module")
def calm() -> Iterator[Run]:
    with place(SEED) as here:
        here.begin()
        wait_for_events(here, 1_500)
        sent = here.calm()
        run = Run(compared(here, sent), sent)
        assert here.surprises() == []
        yield run


def busy(ledger: Ledger) -> list[Commit]:
    """The commits of the partition that has most of them."""
    return max((ledger.commits(number) for number in ledger.changelogs), key=len)


def log_of(ledger: Ledger) -> list[Claim | Commit]:
    return max(ledger.changelogs.values(), key=len)


def acting(ledger: Ledger) -> Commit:
    """A commit in the middle with several actions of one agent."""
    found = [commit for commit in busy(ledger) if _siblings(commit)]
    return found[len(found) // 2]


def _siblings(commit: Commit) -> list[int]:
    """Where in a commit an action follows another one of the same agent."""
    last: dict[str, int] = {}
    found = []
    for at, action in enumerate(commit.actions):
        if action.key in last:
            found.append(at)
        last[action.key] = at
    return found


def with_messages(ledger: Ledger) -> tuple[list[Arrival], int]:
    """An inbox, and where in its middle messages arrive."""
    arrivals = max(ledger.inboxes.values(), key=len)
    places = [at for at, each in enumerate(arrivals) if each.messages]
    return arrivals, places[len(places) // 2]


def from_outside(ledger: Ledger) -> tuple[list[Arrival], int]:
    """An inbox, and where in its middle something comes that was never sent again.

    On a busy machine a producer may not hear in time that its events were taken.
    """

    def places(arrivals: list[Arrival]) -> list[int]:
        times = Counter(n for each in arrivals if each.source == "north" for n in each.numbers)
        return [
            at
            for at, each in enumerate(arrivals)
            if each.source == "north" and all(times[n] == 1 for n in each.numbers)
        ]

    arrivals = max(ledger.inboxes.values(), key=lambda each: len(places(each)))
    found = places(arrivals)
    return arrivals, found[len(found) // 2]


# Each changes one thing.


def lose_an_action(ledger: Ledger) -> None:
    acting(ledger).actions.pop()


def lose_an_action_and_close_the_gap(ledger: Ledger) -> None:
    """As if it had never been issued: only the oracle knows better."""
    commits = busy(ledger)
    changed = acting(ledger)
    changed.actions.pop()
    changed.head = changed.head._replace(actions_next=changed.head.actions_next - 1)
    for commit in commits[commits.index(changed) + 1 :]:
        commit.first_action -= 1
        before, head = commit.before, commit.head
        commit.before = before._replace(actions_next=before.actions_next - 1)
        commit.head = head._replace(actions_next=head.actions_next - 1)


def double_an_action(ledger: Ledger) -> None:
    actions = acting(ledger).actions
    actions.append(copy.deepcopy(actions[0]))


def swap_two_actions(ledger: Ledger) -> None:
    commit = acting(ledger)
    at = _siblings(commit)[0]
    key = commit.actions[at].key
    other = next(i for i, action in enumerate(commit.actions) if action.key == key)
    actions = commit.actions
    actions[at], actions[other] = actions[other], actions[at]


def swap_what_two_actions_say(ledger: Ledger) -> None:
    """Their ids stay where they are: the beats of a meter are told apart by their numbers."""
    beats = [a for commit in busy_with_beats(ledger) for a in commit.actions if a.name == "Beaten"]
    one, other = beats[0], beats[1]
    one.fields, other.fields = other.fields, one.fields


def busy_with_beats(ledger: Ledger) -> list[Commit]:
    def beats(commits: list[Commit]) -> list[Action]:
        return [a for commit in commits for a in commit.actions if a.name == "Beaten"]

    return max((ledger.commits(n) for n in ledger.changelogs), key=lambda c: len(beats(c)))


def change_an_action(ledger: Ledger) -> None:
    action = acting(ledger).actions[0]
    action.fields = (*action.fields[:-1], -1)


def lose_a_commit(ledger: Ledger) -> None:
    log = log_of(ledger)
    del log[len(log) // 2]


def double_a_commit(ledger: Ledger) -> None:
    log = log_of(ledger)
    log.insert(len(log) // 2, copy.deepcopy(log[len(log) // 2]))


def swap_two_commits(ledger: Ledger) -> None:
    log = log_of(ledger)
    log[-1], log[-2] = log[-2], log[-1]


def lose_the_last_commits(ledger: Ledger) -> None:
    """From the last one on that has folded an event; behind it may be some with timers alone."""
    log = log_of(ledger)
    folding = [c for c in log if isinstance(c, Commit) and c.head.position > c.before.position]
    del log[log.index(folding[-1]) :]


def commit_after_a_later_claim(ledger: Ledger) -> None:
    log = log_of(ledger)
    log.insert(len(log) - 1, Claim(1000))


def claim_an_epoch_twice(ledger: Ledger) -> None:
    log = log_of(ledger)
    log.append(Claim(log[-1].epoch))


def lose_messages(ledger: Ledger) -> None:
    arrivals, at = with_messages(ledger)
    del arrivals[at]


def double_messages(ledger: Ledger) -> None:
    arrivals, at = with_messages(ledger)
    arrivals.append(copy.deepcopy(arrivals[at]))


def send_messages_that_no_commit_sent(ledger: Ledger) -> None:
    arrivals, at = with_messages(ledger)
    last = max(arrivals[at].numbers) + 1_000_000
    arrivals.append(Arrival(arrivals[at].source, [last], ["d-1"], messages=True))


def swap_messages(ledger: Ledger) -> None:
    arrivals, at = with_messages(ledger)
    source = arrivals[at].source
    other = next(
        i for i, each in enumerate(arrivals) if each.messages and each.source == source and i != at
    )
    arrivals[at], arrivals[other] = arrivals[other], arrivals[at]


def lose_an_event(ledger: Ledger) -> None:
    arrivals, at = from_outside(ledger)
    numbers = set(arrivals[at].numbers)
    arrivals[:] = [
        each for each in arrivals if each.source != "north" or not numbers & set(each.numbers)
    ]


def swap_events(ledger: Ledger) -> None:
    arrivals, at = from_outside(ledger)
    first = next(i for i, each in enumerate(arrivals) if each.source == "north")
    arrivals[at], arrivals[first] = arrivals[first], arrivals[at]


def leave_a_transaction_open(ledger: Ledger) -> None:
    ledger.undecided.append("swarm.inbox.0/1 is decided up to 5 and written up to 7")


DAMAGE: list[tuple[Callable[[Ledger], None], str]] = [
    (lose_an_action, "with the actions"),
    (lose_an_action_and_close_the_gap, ": expected "),  # a timer may ring twice
    (double_an_action, "occurs 2 times"),
    (swap_two_actions, "comes after"),
    (swap_what_two_actions_say, "not in the order they were sent"),
    (change_an_action, "expected 0, found 1"),
    (lose_a_commit, "the head is"),
    (double_a_commit, "the head is"),
    (swap_two_commits, "the head is"),
    (lose_the_last_commits, "events are folded"),
    (commit_after_a_later_claim, "the claim of 1000"),
    (claim_an_epoch_twice, "comes after"),
    (lose_messages, "lost"),
    (double_messages, "too many"),
    (send_messages_that_no_commit_sent, "too many"),
    (swap_messages, "out of order"),
    (lose_an_event, "has not the events of north in order"),
    (swap_events, "has not the events of north in order"),
    (leave_a_transaction_open, "a transaction is open"),
]


def test_a_run_without_damage(calm: Run) -> None:
    assert verdict(calm.ledger, Oracle(calm.sent), calm.sent) == []


@pytest.mark.parametrize(("damage", "words"), DAMAGE, ids=[d.__name__ for d, _ in DAMAGE])
def test_damage_is_found(calm: Run, damage: Callable[[Ledger], None], words: str) -> None:
    ledger = copy.deepcopy(calm.ledger)
    damage(ledger)
    found = verdict(ledger, Oracle(calm.sent), calm.sent)
    assert any(words in line for line in found), found


def test_more_acknowledged_than_folded_is_found(calm: Run) -> None:
    """A producer was told that its event is durable, and it is nowhere."""
    sent = {source: list(rows) for source, rows in calm.sent.items()}
    last = sent["south"][-1]
    sent["south"].append(last._replace(number=last.number + 1, key="m-0", agent="Meter"))
    found = verdict(calm.ledger, Oracle(sent), sent)
    assert any("has not the events of south in order: lost" in line for line in found)
