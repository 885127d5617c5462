"""The verdict: what is wrong with a ledger, by itself and beside what the oracle expects.

Pure functions from plain values to lines of text, so that a test can show that each kind of
damage is found. An empty list is what everybody hopes for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from holdfast.model.keys import Layout
from holdfast.stepping.commit import Head
from tests.kafka.ledger import Action, Claim, Commit, Ledger, Sent
from tests.kills.oracle import Oracle
from tests.kills.script import Row

LINES_MAX = 20


def verdict(ledger: Ledger, oracle: Oracle, sent: Mapping[str, Sequence[Row]]) -> list[str]:
    """`sent` is what was acknowledged, per source in order."""
    found = [f"a transaction is open: {line}" for line in ledger.undecided]
    for number in sorted(ledger.changelogs):
        found += [f"partition {number}: {line}" for line in _wrong_chain(ledger, number)]
    found += _wrong_messages(ledger)
    found += _wrong_arrivals(ledger, sent)
    found += _wrong_actions(ledger, oracle)
    return found


# Commits follow each other.


def _wrong_chain(ledger: Ledger, number: int) -> Iterator[str]:
    head, epoch = Head(), 0
    for entry in ledger.changelogs[number]:
        if isinstance(entry, Claim):
            if entry.epoch <= epoch:
                yield f"the claim of epoch {entry.epoch} comes after {epoch}"
            epoch = max(epoch, entry.epoch)
            continue
        if entry.epoch != epoch:
            yield f"commit {entry.head.commits} is of epoch {entry.epoch}, the claim of {epoch}"
        if entry.before != head:
            yield f"commit {entry.head.commits} follows {entry.before}, the head is {head}"
        yield from _wrong_step(entry)
        head = entry.head
    if head.position != (taken := _events_in(ledger, number)):
        yield f"{head.position} events are folded, {taken} different ones are in the inbox"


def _wrong_step(commit: Commit) -> Iterator[str]:
    before, head = commit.before, commit.head
    if head.commits != before.commits + 1 or head.position < before.position:
        yield f"a commit goes from {before} to {head}"
    actions = (commit.first_action, commit.first_action + len(commit.actions))
    if actions != (before.actions_next, head.actions_next):
        yield f"commit {head.commits} goes from {before} to {head} with the actions {actions}"


def _events_in(ledger: Ledger, number: int) -> int:
    """Resent ones once. Messages are there once, which is looked at elsewhere."""
    numbered: dict[str, set[int]] = {}
    others = 0
    for arrival in ledger.inboxes[number]:
        if arrival.messages or not arrival.source:
            others += len(arrival.keys)
        else:
            numbered.setdefault(arrival.source, set()).update(arrival.numbers)
    return others + sum(map(len, numbered.values()))


# Messages.


def _wrong_messages(ledger: Ledger) -> Iterator[str]:
    """What commits say they have sent is what stands in the inboxes: once, and in order."""
    for sender in sorted(ledger.changelogs):
        sent: dict[int, list[int]] = {}
        for commit in ledger.commits(sender):
            for one in commit.sent:
                sent.setdefault(one.to, []).extend(_numbers(one))
        for to in sorted(ledger.inboxes):
            numbers, arrived = sent.get(to, []), _messages(ledger, sender, to)
            which = f"messages from partition {sender} to {to}"
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"{which} are not numbered without a gap: {_ends(numbers)}"
            if arrived != numbers:
                lost = sorted((Counter(numbers) - Counter(arrived)).elements())
                doubled = sorted((Counter(arrived) - Counter(numbers)).elements())
                yield f"{which}: lost {_ends(lost)}, too many {_ends(doubled)}, or out of order"


def _numbers(sent: Sent) -> range:
    return range(sent.first, sent.first + sent.count)


def _messages(ledger: Ledger, sender: int, to: int) -> list[int]:
    return [
        number
        for arrival in ledger.inboxes[to]
        if arrival.messages and int(arrival.source.partition("-")[0]) == sender
        for number in arrival.numbers
    ]


# Events from outside.


def _wrong_arrivals(ledger: Ledger, sent: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Each is in the inbox of its key, and what came first keeps the order of its source."""
    layout = Layout.even(len(ledger.inboxes))
    for source, rows in sent.items():
        for number in sorted(ledger.inboxes):
            expected = [row.number for row in rows if layout.partition_of(row.key) == number]
            arrived = dict.fromkeys(
                seq
                for arrival in ledger.inboxes[number]
                if arrival.source == source and not arrival.messages
                for seq in arrival.numbers
            )
            if list(arrived) != expected:
                lost = [seq for seq in expected if seq not in arrived]
                strange = sorted(arrived.keys() - set(expected))
                yield (
                    f"partition {number} has not the events of {source} in order: lost "
                    f"{_ends(lost)}, too many {_ends(strange)}"
                )


# Actions.


def _wrong_actions(ledger: Ledger, oracle: Oracle) -> Iterator[str]:
    """Each once by id, with the content that is expected, in the order of its agent."""
    actions = ledger.actions()
    for name, count in Counter(each.id for each in actions).items():
        if count > 1:
            yield f"action {name} occurs {count} times"
    expected = oracle.actions
    issued = Counter((a.agent, a.key, a.name, a.fields) for a in actions)
    for one in sorted(expected.keys() | issued.keys(), key=str):
        if expected[one] != issued[one]:
            yield f"action {one}: expected {expected[one]}, found {issued[one]}"
    yield from _disordered(actions)
    for key, numbers in oracle.beats.items():
        beaten = [a.fields[0] for a in actions if a.name == "Beaten" and a.key == key]
        if beaten != numbers:
            yield f"the beats of {key} are not in the order they were sent: {_ends(beaten)}"


def _disordered(actions: Sequence[Action]) -> Iterator[str]:
    last: dict[str, tuple[int, int]] = {}
    for action in actions:
        agent, version, index = action.id.rsplit("/", 2)
        place = int(version), int(index)
        before = last.get(agent, (0, 0))
        follows = index == "0" if place[0] != before[0] else place[1] == before[1] + 1
        if place < before or not follows:
            yield f"action {action.id} comes after {before}"
        last[agent] = place


def _ends(values: Sequence[object]) -> str:
    """Enough of them to look for."""
    if len(values) <= 6:
        return str(list(values))
    return f"{len(values)}: {[*values[:3], '…', *values[-3:]]}"


def told(found: Sequence[str]) -> str:
    more = [f"… and {len(found) - LINES_MAX} more"] if len(found) > LINES_MAX else []
    return "\n".join([*found[:LINES_MAX], *more])
