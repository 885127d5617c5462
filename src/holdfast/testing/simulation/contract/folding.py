"""FOLD: what a commit stored is what the reference fold has at that point, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable

from holdfast.model.schema import Schema
from holdfast.stepping.commit import Answer, Commit, Letter, Record
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import (
    StoredCall,
    actions_of,
    extras_of,
    is_row_of,
    messages_of,
)
from holdfast.testing.simulation.evidence import Accepted
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition
from holdfast.testing.simulation.plainagent import PlainAgent, Waiting
from holdfast.testing.simulation.plaincontext import Message
from holdfast.testing.simulation.reference import (
    Outputs,
    PlainAnswer,
    PlainLetter,
    Reference,
)

Stored = tuple[object, ...]


def _grounded(text: str) -> tuple[str, str] | None:
    """Why and by whom, as the head has it: in force, when, why, by, told."""
    found = json.loads(text) if text else None
    return (found[2], found[3]) if found and found[0] else None


class Comparison:
    """Commits of one partition against the reference fold of it."""

    def __init__(self, history: History, partition: Partition, report: Report) -> None:
        self._history = history
        self._schemas = history.schemas
        self._partition = partition
        self._report = report
        self._now: Accepted | None = None  # what is compared; None: what was inherited
        self._stored: set[tuple[str, str]] = set()

    def _found(self, promise: Promise, text: str, key: str | None = None) -> None:
        number, at = self._partition.number, None
        where = f"partition {number}, as it was born"
        if self._now is not None:
            head, at = self._now.commit.head, self._now.at
            where = f"partition {number}, commit {head.commits} at {head.position}"
        self._report.add(promise, f"{where}: {text}", number, key, at)

    def inherited(
        self, records: Iterable[Record], agents: dict[tuple[str, str], PlainAgent]
    ) -> None:
        stored = {(record.agent, record.key): record for record in records}
        for name in dict.fromkeys([*agents, *stored]):
            self._record(name, stored.get(name), agents.get(name))

    def commit(self, accepted: Accepted, reference: Reference, outputs: Outputs) -> list[str]:
        """The ids of its actions, as they are stored."""
        commit, self._now = accepted.commit, accepted
        if commit.head.now != reference.now:
            text = f"its time is {commit.head.now}, expected {reference.now}"
            self._found(Promise.FOLD, text)
        self._records(commit, reference, outputs)
        ids: list[str] = []
        if commit.issued is not None or outputs.actions:
            ids = self._actions(commit, outputs)
        if commit.outgoing or outputs.messages:
            self._messages(commit, outputs)
        if commit.letters or outputs.letters:
            self._letters(commit, outputs)
        if commit.answers or outputs.answers:
            self._answers(commit, outputs)
        if commit.calls or outputs.calls:
            self._calls(commit, outputs)
        if commit.closed != outputs.closed:
            text = f"closes the calls {commit.closed}, expected {outputs.closed}"
            self._found(Promise.CALLS, text)
        for what, stored, expected in (
            ("redriven letters", commit.redriven, outputs.redriven),
            ("fates", sorted(map(tuple, commit.fates)), sorted(map(tuple, outputs.fates))),
            ("what no fold does", [], outputs.wrong),
            ("ground stop", _grounded(commit.head.ground_stop), reference.ground.reason),
            ("log lines", commit.logs, outputs.logs),
        ):
            if stored != expected:
                self._found(Promise.FOLD, f"{what} {stored}, expected {expected}")
        return ids

    # Agents.

    def _records(self, commit: Commit, reference: Reference, outputs: Outputs) -> None:
        changed = commit.changed
        stored = {(record.agent, record.key): record for record in changed}
        if len(stored) != len(changed):
            self._found(Promise.FOLD, "two records of one agent")
        for name in dict.fromkeys([*outputs.touched, *stored]):
            record = stored.get(name)
            agent = reference.agents.get(name)
            if record is not None or agent is not None or name in self._stored:
                self._record(name, record, agent)

    def _record(
        self, name: tuple[str, str], record: Record | None, agent: PlainAgent | None
    ) -> None:
        who = f"{name[0]}/{name[1]}"
        if record is not None and not record.gone:
            self._stored.add(name)
        else:
            self._stored.discard(name)
        if record is None:
            self._found(Promise.FOLD, f"{who} was not stored, expected {agent or 'gone'}", who)
        elif agent is None or record.gone:
            if agent is not None or not record.gone:
                expected = "gone" if agent is None else agent.state
                self._found(Promise.FOLD, f"{who} is stored as {record}, expected {expected}", who)
        else:
            wrong = _difference(self._schemas, record, agent)
            if wrong is not None:
                self._found(Promise.FOLD, f"{who} {wrong}", who)

    # Outputs.

    def _actions(self, commit: Commit, outputs: Outputs) -> list[str]:
        fleet = self._history.fleet
        stored = actions_of(commit)
        ids = [f"{fleet}/{a.agent}/{a.key}/{a.version}/{a.serial}" for a in stored]
        expected = [each.id for each in outputs.actions]
        if ids != expected:
            self._found(Promise.CONTIGUOUS, f"actions {ids}, expected {expected}")
            return ids
        for one, other in zip(stored, outputs.actions, strict=True):
            if one.now != other.now or not is_row_of(self._schemas, one.raw, other.action):
                text = f"action {other.id} is stored as {one}, expected {other.action}"
                self._found(Promise.FOLD, text, f"{other.agent}/{other.key}")
        return ids

    def _messages(self, commit: Commit, outputs: Outputs) -> None:
        groups: dict[int | None, list[Message]] = {}
        for message in outputs.messages:
            home = self._history.home_of(self._partition.generation, message.key)
            groups.setdefault(home, []).append(message)
        stored = {out.destination: messages_of(out.frame) for out in commit.outgoing}
        for home in dict.fromkeys([*groups, *stored]):
            expected, seen = groups.get(home, []), stored.get(home, []) if home is not None else []
            for i in range(max(len(expected), len(seen))):
                one = seen[i] if i < len(seen) else None
                other = expected[i] if i < len(expected) else None
                if one is None or other is None or not _is_message(self._schemas, one, other):
                    text = f"message {i} to partition {home} is {one}, expected {other}"
                    self._found(Promise.MESSAGES, text)
                    break

    def _calls(self, commit: Commit, outputs: Outputs) -> None:
        for i in range(max(len(commit.calls), len(outputs.calls))):
            one = commit.calls[i][1:] if i < len(commit.calls) else None
            other = outputs.calls[i] if i < len(outputs.calls) else None
            if one != other:
                self._found(Promise.CALLS, f"call {i} is {one}, expected {other}")
                return

    def _letters(self, commit: Commit, outputs: Outputs) -> None:
        if len(commit.letters) != len(outputs.letters):
            seen = [(letter.agent, letter.key, letter.error) for letter in commit.letters]
            expected = [(each.agent, each.key, each.reason.text) for each in outputs.letters]
            self._found(Promise.FOLD, f"dead letters {seen}, expected {expected}")
            return
        for letter, expected_letter in zip(commit.letters, outputs.letters, strict=True):
            if not _is_letter(self._schemas, letter, expected_letter):
                text = f"{letter._replace(trace='')}, expected {expected_letter}"
                self._found(Promise.FOLD, text, f"{letter.agent}/{letter.key}")

    def _answers(self, commit: Commit, outputs: Outputs) -> None:
        same = len(commit.answers) == len(outputs.answers) and all(
            _is_answer(self._schemas, one, other)
            for one, other in zip(commit.answers, outputs.answers, strict=True)
        )
        if not same:
            self._found(Promise.FOLD, f"answers {commit.answers}, expected {outputs.answers}")


def _difference(schemas: dict[int, Schema], record: Record, agent: PlainAgent) -> str | None:
    """What is wrong with a stored agent, or None."""
    if record.version != agent.version:
        return f"has version {record.version}, expected {agent.version}"
    if not is_row_of(schemas, (record.schema, record.state), agent.state):
        return f"has the state {record.state!r} of schema {record.schema}, expected {agent.state}"
    if agent.state.__holdfast__.expire_after is not None and record.updated != agent.updated:
        return f"has its last event at {record.updated}, expected {agent.updated}"
    if not record.extras and not agent.busy:
        return None
    extras = extras_of(record.extras)
    if extras.paused != agent.paused and not _same_refusal(extras.paused, agent.paused):
        return f"is paused for {extras.paused!r}, expected {agent.paused!r}"
    held = len(extras.held) == len(agent.held) and all(
        is_row_of(schemas, one[0], other.event) and one[1:] == _facts(other)
        for one, other in zip(extras.held, agent.held, strict=True)
    )
    if not held:
        return f"holds {extras.held}, expected {agent.held}"
    stored = {timer.name: timer for timer in extras.timers}
    timers = stored.keys() == agent.timers.keys() and all(
        (one.due, one.period) == (agent.timers[name].due, agent.timers[name].period)
        and is_row_of(schemas, one.raw, agent.timers[name].event)
        for name, one in stored.items()
    )
    if not timers:
        return f"has the timers {extras.timers}, expected {agent.timers}"
    known = [StoredCall(c.id, c.function, c.digest, c.reply) for c in agent.calls.values()]
    if sorted(extras.calls) != sorted(known):
        return f"has the open calls {extras.calls}, expected {known}"
    return None


def _same_refusal(stored: str, expected: str) -> bool:
    return expected == "UsageError: " and stored.startswith(expected)


def _facts(one: Waiting) -> Stored:
    sender = None if one.sender is None else tuple(one.sender)
    return one.position, one.event_time, sender, one.hops, one.ask


def _is_message(schemas: dict[int, Schema], one: Stored, other: Message) -> bool:
    sender = other.sender
    facts = (other.agent, other.key, sender.agent, sender.key, other.hops, other.now)
    return one[:6] == facts and is_row_of(schemas, one[6], other.event)  # type: ignore[arg-type]


def _is_letter(schemas: dict[int, Schema], one: Letter, other: PlainLetter) -> bool:
    facts = (one.position, one.event_time, one.sender, one.hops, one.ask)
    return (
        (one.id, one.now, one.agent, one.key) == other[:4]
        and facts == _facts(other.input)
        and is_row_of(schemas, (one.schema, one.row), other.input.event)
        and other.reason.is_told_by(one.error)
    )


def _is_answer(schemas: dict[int, Schema], one: Answer, other: PlainAnswer) -> bool:
    if (one.position, one.now, one.status) != (other.position, other.now, other.status):
        return False
    return other.reply is None or is_row_of(schemas, (one.schema, one.row), other.reply)
