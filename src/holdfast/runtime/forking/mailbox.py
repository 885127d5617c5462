"""The mailbox of a partition in a fork: messages and replies on their way to it.

One that production had too waits for the place of its twin. Others are strays: they have a time of
arrival instead, and are taken from the next round on. Messages from one agent to another keep their
order in any mixture of the two.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.calls import CallFailed, digest_of
from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.runtime.forking.recorded import Asked, Recorded, Twin
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Commit
from holdfast.stepping.inputs import Answered, Inputs, StoredFrame, read_inputs

MESSAGE_SECONDS = 0.01  # how long a message takes that production did not send
Pair = tuple[str, str, str, str]  # sender and receiver


class Parcel(NamedTuple):
    """Messages of one step from one partition to another, numbered from `first`."""

    source: int
    destination: int
    first: int
    size: int
    frame: bytes


class Message(NamedTuple):
    """Strays are ordered from left to right: by arrival, then by who sent them."""

    arrival: float
    source: int
    number: int
    twin: Twin
    event: Event
    hops: int

    @property
    def receiver(self) -> tuple[str, str]:
        return self.twin.agent, self.twin.key


class Reply(NamedTuple):
    """An answer to a call. As a stray it is ordered as messages are."""

    arrival: float
    source: int
    number: int
    agent: str
    key: str
    answered: Answered
    event: Event

    @property
    def receiver(self) -> tuple[str, str]:
        return self.agent, self.key


Stray = Message | Reply


@dataclass(slots=True)
class _Mark:
    """The mailbox where a round began: copies of what is small, notes of what was done."""

    waiting: dict[Twin, list[Message]]
    strays: list[Stray]
    last: dict[Pair, tuple[float, bool]]
    unclaimed: dict[Asked, list[Event]]
    places: list[tuple[Twin, float]] = field(default_factory=list)
    calls: list[tuple[str, Call | None]] = field(default_factory=list)  # closed; None: made


class Mailbox:
    def __init__(
        self, recorded: Recorded, codebook: Codebook, strays: Iterable[Stray], calls_fail: bool
    ) -> None:
        self.fresh: list[Stray] = []  # strays of this round
        self.strays = sorted(strays)  # a heap
        self.called: dict[str, Call] = {}  # open calls that were made in the fork
        self._recorded = recorded
        self._codebook = codebook
        self._calls_fail = calls_fail
        self._waiting: dict[Twin, list[Message]] = {}
        self._last: dict[Pair, tuple[float, bool]] = {}  # when the last one arrives: as a stray?
        self._unclaimed: dict[Asked, list[Event]] = {}  # recorded replies without a call
        self._since = -math.inf
        self._mark = _Mark({}, [], {}, {})

    # Rounds.

    def begin(self, since: float, now: float) -> None:
        self._since = since
        # Whatever comes next comes behind what came before this time anyway.
        self._last = {pair: last for pair, last in self._last.items() if last[0] >= now}
        self._mark = _Mark(
            {twin: list(messages) for twin, messages in self._waiting.items()},
            list(self.strays),
            dict(self._last),
            {asked: list(events) for asked, events in self._unclaimed.items()},
        )

    def keep(self) -> list[Stray]:
        """The strays of the round take their place; what they are."""
        fresh, self.fresh = self.fresh, []
        for stray in fresh:
            heapq.heappush(self.strays, stray)
        return fresh

    def roll_back(self) -> None:
        mark = self._mark
        self.fresh = []
        self._waiting, self.strays = mark.waiting, mark.strays
        self._last, self._unclaimed = mark.last, mark.unclaimed
        for twin, stamp in reversed(mark.places):
            self._recorded.give_back(twin, stamp)
        for id, call in reversed(mark.calls):
            if call is None:
                del self.called[id]
            else:
                self.called[id] = call

    # Messages.

    def receive(self, parcel: Parcel) -> None:
        stored = StoredFrame(0, parcel.size, 0.0, parcel.frame)
        inputs = read_inputs(stored, self._codebook)
        assert inputs.senders is not None
        assert inputs.event_times is not None
        assert inputs.hops is not None
        chosen = self._recorded.chosen
        for i, event in enumerate(inputs.events):
            sender, now = inputs.senders[i], inputs.event_times[i]
            name = type(event).__name__
            twin = Twin(sender.agent, sender.key, inputs.agents[i], inputs.keys[i], name, now)
            if chosen is None or chosen(twin.agent, twin.key):
                self._place(twin, parcel.source, parcel.first + i, event, inputs.hops[i])

    def _place(self, twin: Twin, source: int, number: int, event: Event, hops: int) -> None:
        pair = twin[:4]
        last, stray = self._last.get(pair, (-math.inf, False))
        place = self._recorded.place_of(twin, source)
        if place is not None and (place > last or (place == last and not stray)):
            self._mark.places.append((twin, self._recorded.take(twin)))
            self._last[pair] = (place, False)
            message = Message(place, source, number, twin, event, hops)
            self._waiting.setdefault(twin, []).append(message)
            return
        arrival = max(twin.now + MESSAGE_SECONDS, last)
        if arrival <= self._since:  # by clocks that disagree
            arrival = self._since + MESSAGE_SECONDS
        self._last[pair] = (arrival, True)
        self.fresh.append(Message(arrival, source, number, twin, event, hops))

    def take(self, twin: Twin) -> Message | None:
        """The message for a place, if it is there."""
        messages = self._waiting.get(twin)
        if not messages:
            return None
        message = messages.pop(0)
        if not messages:
            del self._waiting[twin]
        return message

    def give_up(self, twin: Twin) -> None:
        """A place is passed without its message."""
        if twin in self._recorded.expected:  # else somebody waits for an earlier one like it
            self._mark.places.append((twin, self._recorded.take(twin)))

    # Strays.

    @property
    def next_arrival(self) -> float:
        return self.strays[0].arrival if self.strays else math.inf

    def take_stray(self) -> Stray:
        return heapq.heappop(self.strays)

    # Replies.

    def keep_for_later(self, asked: Asked, event: Event) -> None:
        """A recorded reply that no open call of the candidate asks for, so far."""
        self._unclaimed.setdefault(asked, []).append(event)

    def note_calls(self, commit: Commit) -> None:
        """Calls that were made and closed. Some are answered by what was recorded earlier."""
        for call in commit.calls:
            self.called[call.id] = call
            self._mark.calls.append((call.id, None))
            digest = digest_of(call.function, call.arguments)
            early = self._unclaimed.get((call.agent, call.key, call.function, digest))
            if early:
                arrival, event = call.now + MESSAGE_SECONDS, early.pop(0)
            elif self._calls_fail:
                attempts = call.retries + 1
                arrival = call.now + call.timeout * attempts
                error = "no reply was recorded for it"
                event = CallFailed(call.id, call.function, "timeout", error, attempts)
            else:
                continue
            answered = Answered(call.id, call.function, digest)
            reply = Reply(arrival, -1, call.number, call.agent, call.key, answered, event)
            self.fresh.append(reply)
        for id in commit.closed:
            if id in self.called:
                self._mark.calls.append((id, self.called.pop(id)))


def inputs_of(messages: list[Message], first: int, stamp: float) -> Inputs:
    agents = [message.twin.agent for message in messages]
    return Inputs(
        first=first,
        stamp=stamp,
        origin="message",
        agents=agents,
        agent=agents[0] if len(set(agents)) == 1 else None,
        keys=[message.twin.key for message in messages],
        events=[message.event for message in messages],
        event_times=[message.twin.now for message in messages],
        senders=[Sender(message.twin.sender, message.twin.sender_key) for message in messages],
        hops=[message.hops for message in messages],
    )


def input_of(reply: Reply, first: int, stamp: float) -> Inputs:
    event = reply.event
    if isinstance(event, CallFailed):  # it names the call it answers
        id = reply.answered.call
        event = CallFailed(id, event.function, event.reason, event.error, event.attempts)
    return Inputs(
        first=first,
        stamp=stamp,
        origin="reply",
        agents=[reply.agent],
        agent=reply.agent,
        keys=[reply.key],
        events=[event],
        calls=[reply.answered],
    )
