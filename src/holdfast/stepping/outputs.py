"""From recorded effects to the encoded outputs of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model.effects import Called, Emitted, Sent
from holdfast.model.event import Event
from holdfast.model.keys import Layout
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Issued, Journalled, Outgoing
from holdfast.stepping.frame import Frame, codes, const, floats, integers, rows
from holdfast.stepping.rows import payload
from holdfast.stepping.traces import trace_columns


class Fired(NamedTuple):
    """A timer that fired, (event None) an agent that expired, or an urgent event that was taken,
    before an inbox position."""

    position: int
    agent: str
    key: str
    name: str
    due: float
    now: float
    event: Event | None
    next: float = 0.0  # when a periodic timer is due again
    taken: tuple[int, bytes] | None = None  # of the urgent lane: the number and the frame


def issue(
    emitted: Sequence[Emitted],
    first: int,
    now: float,
    codebook: Codebook,
    traced: bool = False,  # some may carry contexts
) -> Issued | None:
    indexes = indexes_of(emitted)
    if any(one.withheld for one in emitted):
        indexes = [i for i, one in zip(indexes, emitted, strict=True) if not one.withheld]
        emitted = [one for one in emitted if not one.withheld]
    if not emitted:
        return None
    why = {}
    if any(one.why for one in emitted):
        why = {"undoes": rows([e.undoes for e in emitted]), "why": rows([e.why for e in emitted])}
    if any(one.by for one in emitted):
        why["by"] = rows([one.by for one in emitted])
    frame = Frame(
        len(emitted),
        {
            "agent": codes([one.subject.agent_name for one in emitted]),
            "key": rows([one.subject.key for one in emitted]),
            "version": integers([one.version for one in emitted]),
            "index": integers(indexes),
            "now": floats([one.now for one in emitted]),
            **why,
            **payload([one.action for one in emitted], codebook),
            **(trace_columns([one.trace for one in emitted], len(emitted)) if traced else {}),
        },
    )
    return Issued(first, len(emitted), now, frame.encode())


def indexes_of(emitted: Sequence[Emitted]) -> list[int]:
    """The how-manieth of its event each action is."""
    indexes: list[int] = []
    last: tuple[object, int] | None = None
    for one in emitted:
        same = last is not None and last[0] is one.subject and last[1] == one.version
        indexes.append(indexes[-1] + 1 if same and not one.undoes else 0)
        last = (one.subject, one.version)
    return indexes


def dispatch(
    messages: Sequence[Sent],
    layout: Layout,
    sent_next: dict[int, int],
    codebook: Codebook,
    traced: bool = False,
) -> list[Outgoing]:
    """Messages as one frame per destination, numbered on; `sent_next` moves along."""
    groups: dict[int, list[Sent]] = {}
    for message in messages:
        groups.setdefault(layout.partition_of(message.key), []).append(message)
    outgoing = []
    for destination, group in sorted(groups.items()):
        first = sent_next.get(destination, 1)
        sent_next[destination] = first + len(group)
        frame = message_frame(group, codebook)
        if traced:
            frame.columns |= trace_columns([m.trace for m in group], len(group))
        outgoing.append(Outgoing(destination, first, len(group), frame.encode()))
    return outgoing


def message_frame(group: Sequence[Sent], codebook: Codebook) -> Frame:
    return Frame(
        len(group),
        {
            "origin": const("message"),
            "agent": codes([m.agent for m in group]),
            "key": rows([m.key for m in group]),
            "from_agent": codes([m.sender.agent_name for m in group]),
            "from_key": rows([m.sender.key for m in group]),
            "hops": codes([m.hops for m in group]),
            "event_time": floats([m.now for m in group]),
            **payload([m.event for m in group], codebook),
        },
    )


def request(called: Sequence[Called], first: int, codebook: Codebook) -> list[Call]:
    for function, reply in {(one.function, one.reply) for one in called}:
        codebook.know_call(function, reply)
    return [
        Call(
            number,
            one.id,
            one.subject.agent_name,
            one.subject.key,
            one.function.__name__,
            one.arguments,
            one.reply.__name__,
            one.timeout,
            one.retries,
            one.backoff,
            one.now,
            one.trace,
        )
        for number, one in enumerate(called, start=first)
    ]


def journal(fired: Sequence[Fired], first: int, codebook: Codebook) -> Journalled | None:
    """The inputs that came from no inbox, or before their turn."""
    if not fired:
        return None
    columns = {
        "position": integers([f.position for f in fired]),
        "agent": codes([f.agent for f in fired]),
        "key": rows([f.key for f in fired]),
        "name": rows([f.name for f in fired]),
        "due": floats([f.due for f in fired]),
        "now": floats([f.now for f in fired]),
        "event": rows([f.taken or _row(f.event, codebook) for f in fired]),
        "next": codes([f.next for f in fired]),
    }
    return Journalled(first, len(fired), Frame(len(fired), columns).encode())


def _row(event: Event | None, codebook: Codebook) -> tuple[int, bytes] | None:
    return None if event is None else (codebook.id_of(type(event)), codebook.pack_one(event))
