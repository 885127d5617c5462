"""Inputs: what one stored inbox frame holds for the stepper, decoded to columns of objects.

Origins: "external" (sent from outside), "message" (from an agent), "reply" (the answer to a call),
"control" (commands: see commanding.py). Timers are inputs too, but live in the agents
until they fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar, cast

from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Column, Frame, codes, const, floats, integers, rows, sequence
from holdfast.stepping.lane import AT_ONCE, urgent_among, urgent_columns
from holdfast.stepping.rows import distinct_schemas, payload, read_payload

T = TypeVar("T")
FLEET_WIDE = ""  # the agent of a command that is for all of a partition


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


class Inputs:
    """What one frame holds, or a part of it.

    Of a frame, `frame` has the columns, and `start` and `stop` say which rows are meant. Lists are
    made when they are asked for: whoever works on columns never asks.
    """

    def __init__(
        self,
        first: int,
        stamp: float,
        origin: str,
        agents: list[str],
        agent: str | None,  # set when all rows are for one class of agents
        keys: list[str],
        events: list[Event],
        event_times: list[float] | None = None,
        senders: list[Sender] | None = None,
        hops: list[int] | None = None,
        asks: bool = False,
        commands: list[list[object]] | None = None,
        calls: list[Answered] | None = None,  # of replies
    ) -> None:
        rows = _Given(agents, keys, events, event_times, senders, hops, commands, calls)
        self._set(first, stamp, origin, agent, asks, rows, 0, len(keys))

    def _set(
        self,
        first: int,
        stamp: float,
        origin: str,
        agent: str | None,
        asks: bool,
        rows: _Rows,
        start: int,
        stop: int,
    ) -> Inputs:
        self.first = first
        self.stamp = stamp
        self.origin = origin
        self.agent = agent
        self.asks = asks
        self._rows = rows
        self.start = start
        self.stop = stop
        return self

    @classmethod
    def of_frame(cls, stored: StoredFrame, frame: Frame, codebook: Codebook) -> Inputs:
        origin = cast(str, frame.constant("origin"))
        agent = cast("str | None", frame.constant("agent"))
        asks = bool(frame.constant("asks", False))
        rows = _Framed(frame, origin, codebook)
        new = cls.__new__(cls)
        return new._set(stored.first, stored.stamp, origin, agent, asks, rows, 0, frame.count)

    @property
    def frame(self) -> Frame | None:
        return self._rows.frame

    @property
    def refused(self) -> str:
        """Why these may not run: found when the inbox was read, too late to tell who sent them."""
        frame = self._rows.frame
        return "" if frame is None else cast(str, frame.constant("refused", ""))

    @property
    def all_events(self) -> list[Event]:
        """Of the whole frame, where this is a part of one."""
        return self._rows.events

    @cached_property
    def agents(self) -> list[str]:
        return self._cut(self._rows.agents)

    @cached_property
    def keys(self) -> list[str]:
        return self._cut(self._rows.keys)

    @cached_property
    def events(self) -> list[Event]:
        return self._cut(self._rows.events)

    @cached_property
    def event_times(self) -> list[float] | None:
        return self._cut_some(self._rows.event_times)

    @cached_property
    def senders(self) -> list[Sender] | None:
        return self._cut_some(self._rows.senders)

    @cached_property
    def hops(self) -> list[int] | None:
        return self._cut_some(self._rows.hops)

    @cached_property
    def commands(self) -> list[list[object]] | None:
        return self._cut_some(self._rows.commands)

    @cached_property
    def calls(self) -> list[Answered] | None:
        return self._cut_some(self._rows.calls)

    @property
    def plain(self) -> bool:
        """Nothing differs from row to row but key and event."""
        return self.agent is not None and not self.asks and self._rows.plain

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Inputs:
        stop = max(start, min(stop, len(self)))
        return self._view(self.first + start, self.start + start, self.start + stop)

    def at(self, first: int) -> Inputs:
        """The same rows at another position."""
        return self._view(first, self.start, self.stop)

    def with_commands(self, commands: list[list[object]]) -> Inputs:
        return Inputs(
            self.first,
            self.stamp,
            self.origin,
            self.agents,
            self.agent,
            self.keys,
            [],
            commands=commands,
        )

    def _view(self, first: int, start: int, stop: int) -> Inputs:
        new = Inputs.__new__(Inputs)
        return new._set(
            first, self.stamp, self.origin, self.agent, self.asks, self._rows, start, stop
        )

    def _cut(self, values: list[T]) -> list[T]:
        whole = self.start == 0 and self.stop == len(values)
        return values if whole else values[self.start : self.stop]

    def _cut_some(self, values: list[T] | None) -> list[T] | None:
        return None if values is None else self._cut(values)


@dataclass(frozen=True, slots=True)
class _Given:
    """Rows that are lists already."""

    agents: list[str]
    keys: list[str]
    events: list[Event]
    event_times: list[float] | None
    senders: list[Sender] | None
    hops: list[int] | None
    commands: list[list[object]] | None
    calls: list[Answered] | None
    frame: None = None

    @property
    def plain(self) -> bool:
        varying = (self.event_times, self.senders, self.hops, self.commands, self.calls)
        return all(values is None for values in varying)


class _Framed:
    """Rows of a frame, each column made into a list once, for all parts."""

    def __init__(self, frame: Frame, origin: str, codebook: Codebook) -> None:
        self.frame = frame
        self._origin = origin
        self._codebook = codebook

    @property
    def plain(self) -> bool:
        return self._origin == "external" and "event_time" not in self.frame

    @cached_property
    def agents(self) -> list[str]:
        return cast(list[str], self.frame.values("agent"))

    @cached_property
    def keys(self) -> list[str]:
        return cast(list[str], self.frame.values("key"))

    @cached_property
    def events(self) -> list[Event]:
        if self._origin == "control":
            return []
        return cast(list[Event], read_payload(self.frame, self._codebook))

    @cached_property
    def event_times(self) -> list[float] | None:
        return cast("list[float] | None", self.frame.values("event_time"))

    @cached_property
    def senders(self) -> list[Sender] | None:
        if self._origin != "message":
            return None
        names = cast(list[str], self.frame.values("from_agent"))
        keys = cast(list[str], self.frame.values("from_key"))
        return [Sender(a, k) for a, k in zip(names, keys, strict=True)]

    @cached_property
    def hops(self) -> list[int] | None:
        if self._origin != "message":
            return None
        return cast(list[int], self.frame.values("hops"))

    @cached_property
    def commands(self) -> list[list[object]] | None:
        if self._origin != "control":
            return None
        return cast(list[list[object]], self.frame.values("command"))

    @cached_property
    def calls(self) -> list[Answered] | None:
        if self._origin != "reply":
            return None
        names = ("call", "function", "arguments")
        columns = [cast(list[str], self.frame.values(name)) for name in names]
        return [Answered(*row) for row in zip(*columns, strict=True)]


_Rows: TypeAlias = _Given | _Framed


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
        urgent=urgent_among(events),
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
    urgent: Sequence[bool] = (),
) -> Frame:
    """The same from events that are packed already, as `payload` or `raw_payload` gives them."""
    columns: dict[str, Column] = {
        "origin": const("external"),
        "agent": const(agents) if isinstance(agents, str) else codes(agents),
        "key": rows(keys),
        "source": const(source),
        "seq": numbers(seqs),
        **packed,
        **urgent_columns(urgent),
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
    return control_frame_of([agent], [key], [command])


def control_frame_of(
    agents: Sequence[str], keys: Sequence[str], commands: Sequence[Sequence[object]]
) -> Frame:
    """Several commands, which are taken together."""
    return Frame(
        len(keys),
        {
            "origin": const("control"),
            "agent": const(agents[0]) if len(set(agents)) == 1 else codes(agents),
            "key": rows(keys),
            "command": rows([list(command) for command in commands]),
            **urgent_columns([command[0] in AT_ONCE for command in commands]),
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
    """UnknownSchema for what this program has no class for: now, not when it is folded."""
    frame = Frame.decode(stored.frame)
    inputs = Inputs.of_frame(stored, frame, codebook)
    if inputs.agent != FLEET_WIDE:
        codebook.need_agents(inputs.agents if inputs.agent is None else (inputs.agent,))
    if inputs.origin != "control":
        for schema_id in distinct_schemas(frame):
            codebook.reader_of(schema_id)
    return inputs


def rows_of(stored: StoredFrame, agent: str, key: str) -> list[int]:
    """Which rows of a frame are for one agent."""
    if key.encode() not in stored.frame:
        return []  # most frames, found without decoding
    frame = Frame.decode(stored.frame)
    only = frame.constant("agent")
    if only is not None and only != agent:
        return []
    keys = cast(list[str], frame.values("key"))
    agents = cast(list[str], frame.values("agent"))
    return [i for i, k in enumerate(keys) if k == key and agents[i] == agent]
