"""`Handle`: what every handle on a fleet can do, with the user's classes or without them.

Reading what needs no class, waiting, an operator's commands and closing live here. `live` adds the
classes a program has, `untyped` does without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from holdfast.engine.port import VIEW_SECONDS, Engine, Parcel, View
from holdfast.errors import AskFailed, Rescaling, TimedOut, UsageError
from holdfast.runtime.calling.bell import has_open_calls
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.issued import find_action, key_of
from holdfast.runtime.reading import (
    ACTIONS_PER_PAGE,
    ActionPage,
    DeadLetter,
    Instance,
    PausedAgent,
    Reading,
    partitions_of,
)
from holdfast.runtime.routing import Router
from holdfast.runtime.sending import Receipt
from holdfast.runtime.world import REAL, World
from holdfast.stepping.commit import Answer
from holdfast.stepping.inputs import control_frame

if TYPE_CHECKING:
    from holdfast.runtime.viewing.reading import StoredView

H = TypeVar("H", bound="Handle")
R = TypeVar("R")
SEND_SECONDS = 10.0
WHY_LENGTH_MAX = 500
LOOK_SECONDS = 0.1  # for one look at a view, however little time is left
_POLL_SECONDS = (0.0005, 0.001, 0.001, 0.002, 0.005, 0.01, 0.02)


class Progress(NamedTuple):
    """How far a partition is: events in its inbox, events folded."""

    inbox: int
    folded: int

    @property
    def lag(self) -> int:
        return self.inbox - self.folded


class Handle:
    """Safe to share between threads. `instance` makes an object of a stored row."""

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
        self._router = Router(engine, world)
        self._reading = Reading(engine, instance)
        self._closed = False
        self._closing = threading.Lock()
        self._views: dict[str, StoredView] = {}

    @property
    def engine(self) -> Engine:
        """What it reads and appends to; closed with the handle."""
        return self._engine

    @property
    def router(self) -> Router:
        return self._router

    # Reading.

    def actions_end(self) -> str:
        """The cursor behind every action that was issued."""
        return self._reading.actions_end()

    def actions(self, *, after: str | None = None, most: int = ACTIONS_PER_PAGE) -> ActionPage:
        """Actions issued after a cursor; `page.cursor` continues behind the last one."""
        return self._reading.actions(after, most)

    def dead_letters(self) -> list[DeadLetter]:
        return self._reading.dead_letters()

    def paused(self) -> list[PausedAgent]:
        """Agents that hold their events back, with the reason and how many they hold."""
        return self._reading.paused()

    def positions(self) -> dict[int, Progress]:
        found = {}
        for number, view in self._reading.views().items():
            folded = view.head().position
            found[number] = Progress(max(folded, view.inbox_next()), folded)
        return found

    def commits(self) -> dict[int, int]:
        """How many commits each partition has: what is read again is the same while this is."""
        return {number: view.head().commits for number, view in self._reading.views().items()}

    def views_folder(self, given: str | None = None) -> Path:
        from holdfast.runtime.viewing.shelf import views_folder

        embedded = None if self._embedded is None else self._embedded.views
        return embedded or views_folder(self._engine, given)

    def stored_view(self, name: str, folder: str | None = None) -> StoredView:
        """A view by its name; opened once, closed with the handle."""
        from holdfast.runtime.viewing.reading import StoredView

        with self._closing:
            if name not in self._views:
                place = self.views_folder(folder)
                self._views[name] = StoredView(self._engine, place, name)
            return self._views[name]

    # Operating. Commands travel through the inbox, in order with the events.

    def redrive(self, letter_id: str) -> Receipt:
        """Give a dead letter's event to its agent again. A letter is redriven once."""
        found = [x for x in self.dead_letters() if x.id == letter_id]
        if not found:
            raise UsageError(f"no dead letter {letter_id!r}: see live.dead_letters()")
        number, local = map(int, letter_id.split("."))
        command = ["redrive", local]
        try:
            return self._control(number, found[0].agent, found[0].key, command, moves=False)
        except Rescaling:
            if number in self._router.layout.numbers:
                raise
            raise UsageError(
                f"dead letter {letter_id!r} has another number since the fleet was rescaled: "
                "see live.dead_letters()"
            ) from None

    def compensate(self, action_id: str, why: str, *, timeout: float = SEND_SECONDS) -> str:
        """Have the declared undo of an action issued, by its agent, once. Returns its id.

        The fold decides: of two who compensate the same action, the second is refused.
        """
        if not why.strip() or not why.isprintable() or len(why) > WHY_LENGTH_MAX:
            raise UsageError(
                f"say why the action is taken back, on one line of at most {WHY_LENGTH_MAX} "
                "characters: it is recorded with the undo"
            )
        deadline = self._world.monotonic() + timeout
        lived = partitions_of(self._engine.catalog, key_of(action_id))
        found = find_action(self._engine, lived, action_id)
        command = ["compensate", action_id, why, found.schema, found.row]
        partition = self._router.partition_of(found.key)
        receipt = self._control(partition, found.agent, found.key, command)
        try:
            answer = self._answer_to(receipt, f"{found.agent}/{found.key}", timeout, deadline)
        except AskFailed as refusal:
            raise UsageError(f"not compensated: {refusal}") from None
        except TimedOut as late:
            raise TimedOut(
                f"{late}; the command is recorded, and is obeyed when a worker comes to it"
            ) from None
        return answer.text

    def _pause(self, agent: str, key: str, reason: str) -> Receipt:
        return self._control(self._router.partition_of(key), agent, key, ["pause", reason])

    def _resume(self, agent: str, key: str) -> Receipt:
        return self._control(self._router.partition_of(key), agent, key, ["resume"])

    def _control(
        self, partition: int, agent: str, key: str, command: list[object], *, moves: bool = True
    ) -> Receipt:
        frame = control_frame(agent, key, command)
        parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
        taken = self._router.append(partition, parcel, SEND_SECONDS, moves=moves)
        return Receipt(tuple((number, one.next) for number, one in taken))

    # Waiting.

    def wait_for(self, receipt: Receipt, *, timeout: float = SEND_SECONDS) -> None:
        """Until everything the receipt stands for is folded and committed."""
        deadline = self._world.monotonic() + timeout
        for partition, following in receipt.positions:
            view = self._engine.view(partition, timeout)
            if self._poll(partial(_is_folded, view, following), deadline) is None:
                place = view.position_of(following)
                wanted = "what is not there" if place is None else place
                raise TimedOut(
                    f"partition {partition} has folded up to {view.head().position}, not {wanted}, "
                    f"after {timeout:g} s{self._reasons()}"
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
        if any(view.inbox_next() != heads[n].position for n, view in views.items()):
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

    # Closing.

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            for view in self._views.values():
                view.close()
            if self._embedded is not None:
                self._embedded.stop()
            self._engine.close()

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_folded(view: View, following: int) -> bool:
    position = view.position_of(following)
    return position is not None and view.head().position >= position


def _answer_before(view: View, following: int) -> Answer | None:
    position = view.position_of(following)
    return None if position is None else view.answer(position - 1)
