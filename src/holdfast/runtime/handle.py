"""`Handle`: what every handle on a fleet can do, with the user's classes or without them.

Reading what needs no class, commands and closing live here; `waiting` is below it. `live` adds the
classes a program has, `untyped` does without them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import Rescaling, UsageError
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.issued import find_action, key_of
from holdfast.runtime.lives import ActionLife, Lives
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.reading import ACTIONS_PER_PAGE, ActionPage, DeadLetter, Instance, PausedAgent
from holdfast.runtime.routing import Router
from holdfast.runtime.sending import Receipt
from holdfast.runtime.settling import Settling, Told, check_by, check_why, refusal
from holdfast.runtime.waiting import SEND_SECONDS, Waiting
from holdfast.runtime.world import REAL, World
from holdfast.stepping.commit import Fate
from holdfast.stepping.grounding import Ground, read_ground
from holdfast.stepping.inputs import control_frame
from holdfast.stepping.overriding import override_command

if TYPE_CHECKING:
    from holdfast.runtime.viewing.reading import StoredView

H = TypeVar("H", bound="Handle")


class Handle(Waiting):
    """Safe to share between threads. `instance` makes an object of a stored row."""

    def __init__(
        self,
        engine: Engine,
        instance: Instance,
        embedded: Embedded | None,
        world: World = REAL,
        views: str | None = None,
    ) -> None:
        """`views` is where they are kept, if not in the usual place."""
        super().__init__(engine, instance, embedded, world)
        self._views_at = views
        self._router = Router(engine, world)
        self._lives = Lives(engine, self._reading)
        self._settling = Settling(engine, self._router)
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

    def actions(
        self,
        *,
        after: str | None = None,
        most: int = ACTIONS_PER_PAGE,
        pending: bool = False,
        status: bool = False,
    ) -> ActionPage:
        """Actions issued after a cursor; `page.cursor` continues behind the last one.

        With `pending`, for those who carry actions out: without the expired ones and those whose
        fate is known, the urgent ones of the page first. With `status`, each says how it stands.
        """
        if pending:
            return self._lives.pending(after, most, self._world.wall())
        page = self._reading.actions(after, most)
        if status:
            page[:] = self._lives.with_status(page, self._world.wall())
        return page

    def action(self, action_id: str) -> ActionLife:
        """What became of one action. It is looked for among all: for people, not for a loop."""
        return self._lives.of(action_id, self._world.wall())

    def withheld(self) -> list[Fate]:
        """The actions that ground stops have held back: they are not among `actions`."""
        return self._lives.withheld()

    def grounded(self) -> dict[int, Ground]:
        """The ground stop in force, by partition; empty if there is none."""
        heads = {number: view.head() for number, view in self._reading.views().items()}
        found = {number: read_ground(head.ground_stop) for number, head in heads.items()}
        return {n: ground for n, ground in found.items() if ground is not None and ground.in_force}

    def dead_letters(self) -> list[DeadLetter]:
        return self._reading.dead_letters()

    def paused(self) -> list[PausedAgent]:
        """Agents that hold their events back, with the reason and how many they hold."""
        return self._reading.paused()

    def commits(self) -> dict[int, int]:
        """How many commits each partition has: what is read again is the same while this is."""
        return {number: view.head().commits for number, view in self._reading.views().items()}

    def metrics(self) -> bytes:
        """All that is measured of this fleet, in the text format of Prometheus."""
        from holdfast.runtime.metering.exposition import exposition  # most programs never ask

        return exposition(self)

    def own_samples(self) -> Sequence[Sample]:
        """What this process tells of itself, if it folds."""
        return self._embedded.samples() if self._embedded is not None else ()

    def views_folder(self, given: str | None = None) -> Path:
        from holdfast.runtime.viewing.shelf import views_folder

        embedded = None if self._embedded is None else self._embedded.views
        return embedded or views_folder(self._engine, given or self._views_at)

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

    def acknowledge(
        self,
        action_id: str | Sequence[str],
        *,
        by: str | None = None,
        timeout: float = SEND_SECONDS,
    ) -> dict[str, str]:
        """An action was carried out, or many: then it is one append per partition.

        The fold decides, and again is a no-op. Returns those that were refused, with what stands;
        a single one that is refused raises UsageError instead.
        """
        return self._settle("acknowledge", action_id, check_by(by), "", timeout)

    def fail(
        self,
        action_id: str | Sequence[str],
        why: str,
        *,
        by: str | None = None,
        timeout: float = SEND_SECONDS,
    ) -> dict[str, str]:
        """The same for actions that cannot be carried out."""
        check_why(why, "it cannot be carried out")
        return self._settle("fail", action_id, check_by(by), why, timeout)

    def delivered(
        self,
        action_id: str | Sequence[str],
        *,
        by: str | None = None,
        timeout: float = SEND_SECONDS,
    ) -> dict[str, str]:
        """Actions have come to whoever carries them out; that is no promise that he will."""
        return self._settle("deliver", action_id, check_by(by), "", timeout)

    def record(self, told: Sequence[Told], *, timeout: float = SEND_SECONDS) -> None:
        """What many have said of actions, each in its own name; returns when it is durable.

        The fold decides when it comes to it: whoever has to know asks `action`.
        """
        self._settling.append_all(told, timeout)

    def _settle(
        self, verb: str, wanted: str | Sequence[str], by: str, why: str, timeout: float
    ) -> dict[str, str]:
        deadline = self._world.monotonic() + timeout
        ids = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
        for receipt in self._settling.append(verb, ids, by, why, timeout):
            self._wait_until(receipt, deadline)
        known = self._lives.fates_of(ids)
        reasons = {id: refusal(verb, id, known[id]) for id in ids}
        refused = {id: reason for id, reason in reasons.items() if reason is not None}
        if isinstance(wanted, str) and refused:
            raise UsageError(refused[wanted])
        return refused

    def ground_stop(self, why: str, *, by: str | None = None, timeout: float = 60.0) -> None:
        """From now on the fleet issues no actions but those declared `during_ground_stop=True`.

        Agents with a handler for `GroundStop` are told. Returns when it is in force everywhere.
        """
        self._ground(True, check_why(why, "the fleet is stopped"), check_by(by), timeout)

    def lift_ground_stop(self, why: str, *, by: str | None = None, timeout: float = 60.0) -> None:
        """Let the fleet issue actions again. What was withheld stays so: agents are told."""
        self._ground(False, check_why(why, "the stop is lifted"), check_by(by), timeout)

    def _ground(self, stops: bool, why: str, by: str, timeout: float) -> None:
        deadline = self._world.monotonic() + timeout
        wait = partial(self._wait_until, deadline=deadline)
        self._settling.ground(stops, why, by, timeout, wait)

    def _override(
        self,
        agent: str,
        key: str,
        schema: int,
        row: bytes,
        why: str,
        by: str,
        hold: bool,
        timeout: float,
    ) -> str:
        deadline = self._world.monotonic() + timeout
        command = override_command(why, by, schema, row, hold)
        receipt = self._control(self._router.partition_of(key), agent, key, command)
        return self._told(receipt, f"{agent}/{key}", timeout, deadline, "not issued")

    def compensate(self, action_id: str, why: str, *, timeout: float = SEND_SECONDS) -> str:
        """Have the declared undo of an action issued, by its agent, once. Returns its id.

        The fold decides: of two who compensate the same action, the second is refused.
        """
        check_why(why, "the action is taken back")
        deadline = self._world.monotonic() + timeout
        lived = partitions_of(self._engine.catalog, key_of(action_id))
        found = find_action(self._engine, lived, action_id)
        command = ["compensate", action_id, why, found.schema, found.row]
        partition = self._router.partition_of(found.key)
        receipt = self._control(partition, found.agent, found.key, command)
        who = f"{found.agent}/{found.key}"
        return self._told(receipt, who, timeout, deadline, "not compensated")

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
