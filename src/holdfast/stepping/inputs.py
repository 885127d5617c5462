"""Inputs: what one stored inbox frame holds for the stepper, decoded to columns of objects.

Origins: "external" (sent from outside), "message" (from an agent), "reply" (the answer to a call),
"control" (an operator's resume, pause or redrive). Timers are inputs too, but live in the agents
until they fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from holdfast.model.context import Sender
from holdfast.model.event import Event
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Column, Frame, codes, const, floats, integers, rows, sequence
from holdfast.stepping.rows import payload, read_payload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A frame as an inbox gives it back: where it stands, when it came."""

    first: int
    count: int
    stamp: float
    frame: bytes


class Answered(NamedTuple):
    """Which call a reply answers, and what was asked there."""

    call: str
    function: str
    digest: str


@dataclass(slots=True)
class Inputs:
    first: int
    stamp: float
    origin: str
    agents: list[str]
    agent: str | None  # set when all rows are for one class of agents
    keys: list[str]
    events: list[Event]
    event_times: list[float] | None = None
    senders: list[Sender] | None = None
    hops: list[int] | None = None
    asks: bool = False
    commands: list[list[object]] | None = None
    calls: list[Answered] | None = None  # of replies

    @property
    def plain(self) -> bool:
        """Nothing differs from row to row but key and event."""
        return (
            self.agent is not None
            and self.event_times is None
            and self.senders is None
            and self.hops is None
            and not self.asks
            and self.commands is None
            and self.calls is None
        )

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> Inputs:
        def cut(values: list[T] | None) -> list[T] | None:
            return None if values is None else values[start:stop]

        return Inputs(
            first=self.first + start,
            stamp=self.stamp,
            origin=self.origin,
            agents=self.agents[start:stop],
            agent=self.agent,
            keys=self.keys[start:stop],
            events=self.events[start:stop],
            event_times=cut(self.event_times),
            senders=cut(self.senders),
            hops=cut(self.hops),
            asks=self.asks,
            commands=cut(self.commands),
            calls=cut(self.calls),
        )


def event_frame(
    agents: str | Sequence[str],  # one name: all rows are for agents of that class
    keys: Sequence[str],
    events: Sequence[Event],
    codebook: Codebook,
    *,
    source: str,
    seqs: range | Sequence[int],
    event_times: Sequence[float] | None = None,
    previous: Sequence[int] | None = None,
    asks: bool = False,
) -> Frame:
    """Events from outside for one partition."""
    return external_frame(
        agents,
        keys,
        payload(events, codebook),
        source=source,
        seqs=seqs,
        event_times=event_times,
        previous=previous,
        asks=asks,
    )


def external_frame(
    agents: str | Sequence[str],  # one name: all rows are for agents of that class
    keys: Sequence[str],
    packed: dict[str, Column],
    *,
    source: str,
    seqs: range | Sequence[int],
    event_times: Sequence[float] | None = None,
    previous: Sequence[int] | None = None,
    asks: bool = False,
) -> Frame:
    """The same from events that are packed already, as `payload` or `raw_payload` gives them."""
    columns: dict[str, Column] = {
        "origin": const("external"),
        "agent": const(agents) if isinstance(agents, str) else codes(agents),
        "key": rows(keys),
        "source": const(source),
        "seq": numbers(seqs),
        **packed,
    }
    if event_times is not None:
        columns["event_time"] = floats(event_times)
    if previous is not None:
        columns["previous"] = integers(previous)
    if asks:
        columns["asks"] = const(True)
    return Frame(len(keys), columns)


def numbers(seqs: range | Sequence[int]) -> Column:
    if isinstance(seqs, range) and seqs.step == 1:
        return sequence(seqs.start)
    return integers(seqs)


def control_frame(agent: str, key: str, command: Sequence[object]) -> Frame:
    return Frame(
        1,
        {
            "origin": const("control"),
            "agent": const(agent),
            "key": rows([key]),
            "command": rows([list(command)]),
        },
    )


def reply_frame(
    agent: str,
    key: str,
    call_id: str,
    function: str,
    digest: str,
    event: Event,
    codebook: Codebook,
) -> Frame:
    """The answer to a call: what the function returned, or CallFailed."""
    return Frame(
        1,
        {
            "origin": const("reply"),
            "agent": const(agent),
            "key": rows([key]),
            "call": rows([call_id]),
            "function": const(function),
            "arguments": rows([digest]),
            **payload([event], codebook),
        },
    )


def read_inputs(stored: StoredFrame, codebook: Codebook) -> Inputs:
    frame = Frame.decode(stored.frame)
    agents = cast(list[str], frame.values("agent"))
    only = cast("str | None", frame.constant("agent"))
    codebook.need_agents(agents if only is None else (only,))
    origin = cast(str, frame.constant("origin"))
    inputs = Inputs(
        first=stored.first,
        stamp=stored.stamp,
        origin=origin,
        agents=agents,
        agent=only,
        keys=cast(list[str], frame.values("key")),
        events=[],
        event_times=cast("list[float] | None", frame.values("event_time")),
        asks=bool(frame.constant("asks", False)),
    )
    if origin == "control":
        inputs.commands = cast(list[list[object]], frame.values("command"))
        return inputs
    inputs.events = cast(list[Event], read_payload(frame, codebook))
    if origin == "message":
        names = cast(list[str], frame.values("from_agent"))
        keys = cast(list[str], frame.values("from_key"))
        inputs.senders = [Sender(a, k) for a, k in zip(names, keys, strict=True)]
        inputs.hops = cast(list[int], frame.values("hops"))
    if origin == "reply":
        columns = [cast(list[str], frame.values(n)) for n in ("call", "function", "arguments")]
        inputs.calls = [Answered(*row) for row in zip(*columns, strict=True)]
    return inputs


def rows_of(stored: StoredFrame, agent: str, key: str) -> list[int]:
    """Which rows of a frame are for one agent."""
    if key.encode() not in stored.frame:
        return []  # most frames, found without decoding
    frame = Frame.decode(stored.frame)
    agents = cast(list[str], frame.values("agent"))
    keys = cast(list[str], frame.values("key"))
    return [i for i, k in enumerate(keys) if k == key and agents[i] == agent]
