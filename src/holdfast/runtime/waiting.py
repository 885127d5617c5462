"""Waiting, until what was sent is folded, nothing waits any more, or a command is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from holdfast.engine.port import VIEW_SECONDS, Engine, View, waiting_in
from holdfast.errors import AskFailed, TimedOut, UsageError
from holdfast.runtime.calling.bell import has_open_calls
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.reading import Instance, Reading
from holdfast.runtime.sending import Receipt
from holdfast.runtime.world import REAL, World
from holdfast.stepping.commit import Answer
from holdfast.stepping.lane import LANE, in_lane, is_folded

R = TypeVar("R")
SEND_SECONDS = 10.0
LOOK_SECONDS = 0.1  # for one look at a view, however little time is left
_POLL_SECONDS = (0.0005, 0.001, 0.001, 0.002, 0.005, 0.01, 0.02)
_RECORDED = "the command is recorded, and is obeyed when a worker comes to it"


class Progress(NamedTuple):
    """How far a partition is: events in its inbox, events folded."""

    inbox: int
    folded: int

    @property
    def lag(self) -> int:
        return self.inbox - self.folded


class Waiting:
    """What a handle sees of a fleet while it waits. `instance` makes an object of a stored row."""

    def __init__(
        self,
        engine: Engine,
        instance: Instance,
        embedded: Embedded | None,
        world: World = REAL,
    ) -> None:
        self._engine = engine
        self._world = world
        self._instance = instance
        self._embedded = embedded
        self._reading = Reading(engine, instance)

    def positions(self) -> dict[int, Progress]:
        found = {}
        for number, view in self._reading.views().items():
            head = view.head()
            folded = head.position + head.urgent
            found[number] = Progress(folded + max(0, waiting_in(view, head)), folded)
        return found

    def wait_for(self, receipt: Receipt, *, timeout: float = SEND_SECONDS) -> None:
        """Until everything the receipt stands for is folded and committed."""
        deadline = self._world.monotonic() + timeout
        for partition, following in receipt.positions:
            view = self._engine.view(partition, timeout)
            if self._poll(partial(_is_folded, view, following), deadline) is None:
                raise TimedOut(
                    f"partition {partition} has folded up to {view.head().position}, not "
                    f"{_named(view.position_of(following))}, after {timeout:g} s{self._reasons()}"
                )

    def settle(self, *, timeout: float = 60.0) -> None:
        """Until nothing waits: in inboxes, relays and calls, seen twice. Future timers may."""
        deadline = self._world.monotonic() + timeout
        quiet: object = None
        while True:
            seen = self._quiet_at(max(LOOK_SECONDS, deadline - self._world.monotonic()))
            if seen is not None and seen == quiet:
                return
            quiet = seen
            if self._embedded is not None:
                self._embedded.check()
            if self._world.monotonic() > deadline:
                lag = {n: p.lag for n, p in self.positions().items() if p.lag}
                calls = ", calls are open" if has_open_calls(self._engine) else ""
                hidden = self._hidden(self._engine.catalog.layout.numbers)
                behind = f", hidden behind open transactions in {hidden}" if hidden else ""
                text = f"not settled after {timeout:g} s, lag {lag}{calls}{behind}"
                raise TimedOut(f"{text}{self._reasons()}")
            self._world.sleep(0.002)

    def _quiet_at(self, wait_seconds: float = VIEW_SECONDS) -> object:
        """The positions at which nothing waits, or None."""
        views = self._reading.views(wait_seconds)
        heads = {number: view.head() for number, view in views.items()}
        marks = {number: view.marks() for number, view in views.items()}
        if any(waiting_in(view, heads[n]) for n, view in views.items()):
            return None
        if any(view.calls(0, 1) for view in views.values()):
            return None
        for view in views.values():
            source = view.incarnation()
            for destination, following in view.sent_next().items():
                if marks[destination].get(source, 0) != following - 1:
                    return None
        return None if self._hidden(views) else heads

    def _hidden(self, numbers: Iterable[int]) -> list[int]:
        """Partitions in which something may wait that nobody can read yet."""
        return [number for number in numbers if self._engine.hides(number)]

    def _reply_to(self, receipt: Receipt, who: str, timeout: float, deadline: float) -> object:
        """What the agent gave to `ctx.reply` for the one event that was asked."""
        answer = self._answer_to(receipt, who, timeout, deadline)
        return self._instance(answer.schema, answer.row)

    def _answer_to(self, receipt: Receipt, who: str, timeout: float, deadline: float) -> Answer:
        partition, following = receipt.positions[0]
        view = self._engine.view(partition, timeout)
        answer = self._poll(partial(_answer_before, view, following), deadline)
        if answer is None:
            raise TimedOut(f"{who} did not answer within {timeout:g} s{self._reasons()}")
        if answer.status != "reply":
            raise AskFailed(f"{who}: {answer.text}")
        return answer

    def _poll(self, look: Callable[[], R | None], deadline: float) -> R | None:
        attempt = 0
        while True:
            found = look()
            if found:
                return found
            if self._embedded is not None:
                self._embedded.check()
            if self._world.monotonic() > deadline:
                return None
            self._world.sleep(_POLL_SECONDS[min(attempt, len(_POLL_SECONDS) - 1)])
            attempt += 1

    def _reasons(self) -> str:
        if self._embedded is None:
            return ": does a worker run? (`holdfast lag` tells)"
        alarms = "; ".join(f"partition {n}: {text}" for n, text in self._embedded.alarms().items())
        return f": {alarms}" if alarms else ""

    def _told(
        self, receipt: Receipt, who: str, timeout: float, deadline: float, refused: str
    ) -> str:
        """What the fold answers to a command."""
        try:
            return self._answer_to(receipt, who, timeout, deadline).text
        except AskFailed as refusal:
            raise UsageError(f"{refused}: {refusal}") from None
        except TimedOut as late:
            raise TimedOut(f"{late}; {_RECORDED}") from None

    def _wait_until(self, receipt: Receipt, deadline: float) -> None:
        left = max(0.0, deadline - self._world.monotonic())
        try:
            self.wait_for(receipt, timeout=left)
        except TimedOut as late:
            raise TimedOut(
                f"{late}; the command is recorded, and is obeyed by the next worker"
            ) from None


def _named(place: int | None) -> str:
    if place is None:
        return "what is not there"
    return f"the urgent event {place - LANE}" if in_lane(place) else str(place)


def _is_folded(view: View, following: int) -> bool:
    position = view.position_of(following)
    return position is not None and is_folded(view.head(), position)


def _answer_before(view: View, following: int) -> Answer | None:
    position = view.position_of(following)
    return None if position is None else view.answer(position - 1)
