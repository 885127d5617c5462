"""MESSAGES: what agents sent each other, by the reference, against what reached the inboxes."""

from __future__ import annotations

from collections import defaultdict

from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import Input, is_row_of
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History
from holdfast.testing.simulation.plaincontext import Message
from holdfast.testing.simulation.reference import Name
from holdfast.testing.simulation.retelling import Story


def check(history: History, story: Story, report: Report) -> None:
    came: dict[tuple[Name, Name], list[tuple[int, Input]]] = defaultdict(list)
    for partition in history.partitions:
        for one in partition.inputs:
            if one.sender is not None:
                sender = one.sender.agent, one.sender.key
                came[sender, (one.agent, one.key)].append((partition.number, one))
    for at, number in history.evidence.premature:
        text = f"a message came into partition {number} before the commit that sent it"
        report.add(Promise.MESSAGES, text, number, at=at)
    for pair in dict.fromkeys([*story.messages, *came]):
        _pair(history, report, pair, story.messages.get(pair, []), came.get(pair, []))


def _pair(
    history: History,
    report: Report,
    pair: tuple[Name, Name],
    sent: list[Message],
    came: list[tuple[int, Input]],
) -> None:
    sender, receiver = ("/".join(name) for name in pair)
    between = f"{sender} to {receiver}"
    for i, (number, one) in enumerate(came):
        where = f"{between}: message {i}, partition {number} at {one.position}"
        if i >= len(sent):
            text = f"{where}, is {one.raw}, which was not sent (or came twice)"
            report.add(Promise.MESSAGES, text, number, receiver)
            return
        message = sent[i]
        facts = (one.hops, one.event_time) == (message.hops, message.now)
        if not facts or not is_row_of(history.schemas, one.raw, message.event):
            text = f"{where}, is {one}, expected {message}"
            report.add(Promise.MESSAGES, text, number, receiver)
            return
    if history.evidence.quiet and len(came) < len(sent):
        text = f"{between}: {len(came)} of {len(sent)} messages came; next is {sent[len(came)]}"
        report.add(Promise.MESSAGES, text, None, receiver)
