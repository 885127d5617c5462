"""Broken variants of calls: what agents remember, what engines keep, what the caller does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.engine import inheritance
from holdfast.engine.memory import MemoryEngine, MemoryPartition
from holdfast.errors import HoldfastError
from holdfast.model.context import Context
from holdfast.model.effects import Effects, Mark
from holdfast.runtime.calling.answers import Answer, Answers
from holdfast.runtime.calling.caller import Caller
from holdfast.runtime.calling.lane import Work
from holdfast.stepping import records
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Cell, Extras, pack_extras
from holdfast.stepping.commit import Commit, Record
from holdfast.testing.simulation.findings import Promise as P
from tests.simulation.variants import Patch, variants

BROKEN, found_by = variants()


@found_by(P.CALLS, P.FOLD)
def a_second_reply_is_accepted(patch: Patch) -> None:
    """A reply is taken although its call is closed."""
    close = CarefulFold._close

    def always(self: CarefulFold, cell: Cell, answered: Any, event: Any) -> bool:
        known = cell.extras is not None or cell.saved is not None
        return close(self, cell, answered, event) or known

    patch.setattr(CarefulFold, "_close", always)


@found_by(P.SETTLES)
def a_call_is_lost_on_commit(patch: Patch) -> None:
    """Of several calls in one commit the last one is not stored."""
    write = MemoryEngine._write

    def forgetful(self: MemoryEngine, part: MemoryPartition, commit: Commit) -> None:
        kept = commit.calls[:1] if len(commit.calls) > 1 else commit.calls
        write(self, part, dataclasses.replace(commit, calls=kept))

    patch.setattr(MemoryEngine, "_write", forgetful)


@found_by(P.CALLS, P.FOLD, P.CONTIGUOUS, seed=4)
def a_failed_event_leaves_its_calls(patch: Patch) -> None:
    """An event that failed is undone, but what it called is run."""
    rewind = Effects.rewind

    def keep_calls(self: Effects, mark: Mark) -> None:
        made = self.calls[mark[5] :]
        rewind(self, mark)
        if any(mark):  # at the start of a batch all of it is undone
            self.calls += made

    patch.setattr(Effects, "rewind", keep_calls)


@found_by(P.CALLS, P.SETTLES, seed=7)
def open_calls_are_forgotten_at_rescale(patch: Patch) -> None:
    """New partitions do not know which calls are open in the old ones."""
    patch.setattr(inheritance, "calls_of", lambda slots, parents: [])


@found_by(P.FOLD, P.CALLS, P.SETTLES, seed=7)
def an_agent_forgets_its_calls_at_rescale(patch: Patch) -> None:
    """An agent that moves to a new partition takes no reply any more."""
    moved = inheritance.moved

    def without_calls(record: Record) -> Record:
        record = moved(record)
        parts = msgspec.msgpack.decode(record.extras) if record.extras else []
        return record._replace(extras=msgspec.msgpack.encode(parts[:3])) if parts[3:] else record

    patch.setattr(inheritance, "moved", without_calls)


@found_by(P.FOLD, P.CALLS)
def open_calls_live_in_memory_only(patch: Patch) -> None:
    """A successor does not know the calls of its agents."""

    def without_calls(some: list[Extras | None], codebook: Any) -> list[bytes]:
        return pack_extras(
            [each and Extras(each.paused, each.held, each.timers) for each in some], codebook
        )

    patch.setattr(records, "pack_extras", without_calls)


@found_by(P.SETTLES)
def a_closed_call_stays_in_the_table(patch: Patch) -> None:
    """The reply is taken, but the call is not struck off."""
    write = MemoryEngine._write

    def keeps(self: MemoryEngine, part: MemoryPartition, commit: Commit) -> None:
        write(self, part, dataclasses.replace(commit, closed=[]))

    patch.setattr(MemoryEngine, "_write", keeps)


@found_by(P.CALLS, P.FOLD)
def ids_of_calls_are_not_stable(patch: Patch) -> None:
    """An id comes from a counter of the process, so that another fold gives out another one."""
    call: Callable[..., str] = Context.call
    made = 0

    def counted(self: Context, *arguments: Any, **options: Any) -> str:
        nonlocal made
        made += 1
        self._next_serial()
        self._serial += made % 1_000
        return call(self, *arguments, **options)

    patch.setattr(Context, "call", counted)


@found_by(P.TIMERS, P.FOLD, P.SETTLES)
def an_agent_expires_with_open_calls(patch: Patch) -> None:
    """An agent that waits for a reply is forgotten meanwhile."""
    patch.setattr(Extras, "__bool__", lambda self: bool(self.paused or self.held or self.timers))


@found_by(P.SETTLES)
def a_new_caller_overlooks_open_calls(patch: Patch) -> None:
    """A caller begins with what is called from now on."""
    init = Caller.__init__

    def late(self: Caller, fleet: Any, engine: Any, *others: Any) -> None:
        init(self, fleet, engine, *others)
        for number in engine.catalog.layout.numbers:
            self._seen[number] = engine.view(number).head().calls_next - 1

    patch.setattr(Caller, "__init__", late)


@found_by(P.SETTLES, seed=19)
def a_refused_reply_is_forgotten(patch: Patch) -> None:
    """A reply that an inbox does not take at once is not tried again."""
    append = Answers._append

    def careless(
        self: Answers, number: int, answers: list[Answer]
    ) -> tuple[list[Work], HoldfastError | None]:
        append(self, number, answers)
        for answer in answers:
            self._waiting.pop(answer.work.call.id, None)
        return [answer.work for answer in answers], None

    patch.setattr(Answers, "_append", careless)
