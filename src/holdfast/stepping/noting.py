"""What is to be remembered of new actions: those that were withheld, and those of agents that want
to know what becomes of theirs. Noted before any command that may speak of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.stepping.actionids import action_id, undo_id
from holdfast.stepping.commit import Fate, Issued
from holdfast.stepping.frame import Frame
from holdfast.stepping.issued import issued_in

if TYPE_CHECKING:
    from holdfast.stepping.stepper import Stepper


class Noting:
    """Of one fold: where it is in the actions that the interpreter has made."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._done = 0
        self._last: tuple[object, int] | None = None
        self._index = 0

    def new(self) -> Iterator[Fate]:
        stepper = self._stepper
        awaiting, context = stepper.awaiting, stepper.context
        if not awaiting and not context._held_back:
            return
        fleet, actions = stepper.fleet.name, context._effects.actions
        for one in actions[self._done :]:
            agent, key = one.subject.agent_name, one.subject.key
            same = self._last is not None and self._last == (one.subject, one.version)
            self._index = self._index + 1 if same and not one.undoes else 0
            self._last = one.subject, one.version
            id = (
                undo_id(one.undoes)
                if one.undoes
                else action_id(fleet, agent, key, one.version, self._index)
            )
            name = type(one.action).__name__
            if one.withheld:
                yield Fate(id, key, one.now, one.why, "withheld", one.by, name)
            elif agent in awaiting:
                yield Fate(id, key, one.now, "", "issued", "", name)
        self._done = len(actions)

    def compiled(self, issued: Issued | None) -> Iterator[Fate]:
        """Kernels hand their actions over with the commit."""
        stepper = self._stepper
        wanted = stepper.awaiting.intersection(kind.name for kind in stepper.compiled)
        if not wanted or issued is None:
            return
        own = {
            (one.subject.agent_name, one.subject.key, one.version)
            for one in stepper.context._effects.actions
        }
        for row in issued_in(stepper.fleet.name, Frame.decode(issued.frame)):
            if row.agent in wanted and (row.agent, row.key, row.version) not in own:
                name = stepper.codebook.schema_of(row.schema).name
                yield Fate(row.id, row.key, row.now, "", "issued", "", name)
