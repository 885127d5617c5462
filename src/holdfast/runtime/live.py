"""`Live`: the handle through which a program sends to a fleet and reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.model import view as views
from holdfast.model.agent import Agent
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import check_key, shortened
from holdfast.model.view import View, check_view
from holdfast.runtime.columns import need_numpy
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.handle import Handle
from holdfast.runtime.heap import keep_freed_memory
from holdfast.runtime.reading import HistoryEntry
from holdfast.runtime.schemas import agree, states_in_use
from holdfast.runtime.sending import Receipt, Row, Sending
from holdfast.runtime.settling import check_by, check_why
from holdfast.runtime.tracing.contexts import TraceGiven
from holdfast.runtime.waiting import SEND_SECONDS
from holdfast.runtime.world import REAL, World

if TYPE_CHECKING:
    from holdfast.runtime.prepared import Keys
    from holdfast.runtime.viewing.reading import ReadModel

A = TypeVar("A", bound=Agent)
R = TypeVar("R", bound=views.Row)
# Spelled as the standard library's own stubs do it: `live.state(Drone, key).battery` type-checks
# where the caller knows that the agent exists, and `is None` where it does not.
MaybeNone: TypeAlias = Any


class Live(Handle):
    """Made by `fleet.open(url)` or `fleet.connect(url)`; safe to share between threads."""

    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        embedded: Embedded | None = None,
        world: World = REAL,
        views: str | None = None,
    ) -> None:
        self._fleet = fleet
        self._codebook, _ = agree(fleet, engine.catalog, states_in_use(engine))
        super().__init__(engine, self._object, embedded, world, views)
        self._sending = Sending(fleet, self._codebook, self._router)

    def _object(self, schema_id: int, row: bytes) -> object:
        if not self._codebook.knows(schema_id):
            self._codebook.learn(self._engine.catalog.schemas())
        return self._codebook.reader_of(schema_id).row(row)

    # Sending.

    def send(
        self,
        agent: type[Agent],
        key: str,
        event: Event,
        *,
        source: str | None = None,
        seq: int | None = None,
        previous: int | None = None,
        event_time: float | None = None,
        timeout: float = SEND_SECONDS,
        trace: str | None = None,
    ) -> Receipt:
        """Returns when the event is durable. The same (source, seq) again is a no-op.

        `previous` makes the source ordered: it names the number sent before for this key, and a
        gap is refused. `trace` is a W3C traceparent; that of the current OpenTelemetry span, if
        there is one, unless given.
        """
        return self._sending.send(
            [(agent, key, event)],
            source,
            seq,
            timeout,
            event_time=event_time,
            previous=previous,
            trace=trace,
        )

    def send_many(
        self,
        rows: Sequence[Row],
        *,
        source: str | None = None,
        first_seq: int | None = None,
        timeout: float = SEND_SECONDS,
        trace: TraceGiven = None,
    ) -> Receipt:
        """Many events, numbered on from `first_seq`; atomic per partition; safe to repeat.

        `trace` is as in `send`, or one for each of them.
        """
        if not hasattr(rows, "__len__"):
            raise UsageError("send_many takes a list of rows: write list(…)")
        return self._sending.send(rows, source, first_seq, timeout, trace=trace)

    def keys(self, agent: type[Agent], names: Iterable[str]) -> Keys:
        """Keys for `send_columns`, checked and routed once. `keys[indexes]` are those of some rows,
        by a numpy array of integers, a list or a slice. From now on this process keeps memory that
        it frees, up to 64 MiB, for the next send."""
        need_numpy()
        from holdfast.runtime.prepared import prepare_keys

        keep_freed_memory()
        self._sending.name_of(agent)
        return prepare_keys(agent, names)

    def send_columns(
        self,
        agent: type[Agent],
        event: type[Event],
        keys: Keys,
        more: Mapping[str, object] | None = None,
        /,
        *,
        source: str | None = None,
        first_seq: int | None = None,
        event_time: object = None,
        timeout: float = SEND_SECONDS,
        trace: TraceGiven = None,
        **columns: object,
    ) -> Receipt:
        """Many events of one class, `lat=array, lon=array, …`, without an object for each.

        A column is an array or a sequence with one value per key, or one value for all. What is
        left out has its default. Columns that are named like an option go into the dict `more`.
        Otherwise as `send_many`.
        """
        if more is not None and not isinstance(more, Mapping):
            raise UsageError(f"{shortened(more)} has no name: columns go by name, as lat=array")
        if twice := columns.keys() & (more or {}).keys():
            raise UsageError(f"column {min(twice)!r} is given twice: leave one out")
        given = {**(more or {}), **columns}
        return self._sending.send_columns(
            agent, event, keys, given, source, first_seq, timeout, event_time, trace
        )

    def ask(
        self,
        agent: type[Agent],
        key: str,
        event: Event,
        *,
        timeout: float = 5.0,
        trace: str | None = None,
    ) -> Event:
        """Send, and wait for what the handler gives to `ctx.reply`."""
        deadline = self._world.monotonic() + timeout
        rows = [(agent, key, event)]
        receipt = self._sending.send(rows, None, None, timeout, asks=True, trace=trace)
        return cast(Event, self._reply_to(receipt, f"{agent.__name__}/{key}", timeout, deadline))

    # Reading.

    def state(
        self,
        agent: type[A],
        key: str,
        *,
        after: Receipt | None = None,
        timeout: float = SEND_SECONDS,
        at: float | datetime | None = None,
        snapshots: str | None = None,
    ) -> A | MaybeNone:
        """The committed state, or None if there is none. With `after`, those events included.

        With `at` (seconds since 1970, or a datetime), as it was then: the recorded history is
        folded again, with the handlers of this program. Where retention has cut it off, from a
        snapshot on: of the store with the URL `snapshots`, or beside the data.
        """
        check_key(key)
        name = self._sending.name_of(agent)
        if after is not None:
            self.wait_for(after, timeout=timeout)
        if at is None:
            record = self._reading.record(name, key)
        else:
            from holdfast.runtime.replaying.moments import state_at  # a worker needs none of it

            code = self._fleet, self._codebook
            record = state_at(lambda: code, self._engine, name, key, at, snapshots)
        return None if record is None else cast(A, self._object(record.schema, record.state))

    def states(self, agent: type[A]) -> Iterator[tuple[str, A]]:
        """Every agent of a class with its key, partition by partition."""
        name = self._sending.name_of(agent)
        for view in self._reading.views().values():
            for record in view.records(name):
                yield record.key, cast(A, self._object(record.schema, record.state))

    def history(self, agent: type[Agent], key: str) -> list[HistoryEntry]:
        """The inputs of one agent that retention has kept, in the order it took them."""
        check_key(key)
        return list(self._reading.history(self._sending.name_of(agent), key))

    def view(self, view: type[View[R]]) -> ReadModel[R]:
        """A view of this fleet, or one that is run apart, to read its rows."""
        from holdfast.runtime.viewing.reading import ReadModel  # a worker needs none of it

        check_view(view)
        return ReadModel(view, self.stored_view(view.__holdfast__.name))

    # Operating.

    def pause(self, agent: type[Agent], key: str, reason: str = "by an operator") -> Receipt:
        """Hold this agent's events until `resume`; nothing is lost."""
        return self._pause(self._sending.name_of(agent), key, reason)

    def resume(self, agent: type[Agent], key: str) -> Receipt:
        return self._resume(self._sending.name_of(agent), key)

    def override(
        self,
        agent: type[Agent],
        key: str,
        action: Action,
        *,
        why: str,
        by: str | None = None,
        hold: bool = False,
        timeout: float = SEND_SECONDS,
    ) -> str:
        """Have an action issued for this agent now, because an operator says so. Returns its id.

        With `hold` the agent is paused with it, so that nothing of its own comes behind; `resume`
        lets it go on.
        """
        check_why(why, "the agent is overridden")
        if not isinstance(action, Action):
            raise UsageError(f"override takes an Action, not {type(action).__name__}")
        name, cls = self._sending.name_of(agent), type(action)
        self._codebook.pack([action], cls)
        packed = self._codebook.id_of(cls), self._codebook.pack_one(action)
        return self._override(name, key, *packed, why, check_by(by), hold, timeout)
