"""An issued action, found by its id."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.model.keys import shortened
from holdfast.stepping.actionids import ActionName, read_action_id
from holdfast.stepping.frame import Frame
from holdfast.stepping.issued import IssuedRow, issued_in

_FRAMES_AT_ONCE = 256


def key_of(wanted: str) -> str:
    """The key in the id of an action."""
    return name_of(wanted).key


def name_of(wanted: str) -> ActionName:
    found = read_action_id(wanted)
    if found is None:
        shown = shortened(wanted)
        raise UsageError(f"{shown} is no id of an action: `holdfast actions` shows them")
    return found


def find_action(engine: Engine, partitions: Sequence[int], wanted: str) -> IssuedRow:
    """The action of this id in the partitions where its agent has lived; UsageError if none is."""
    key = key_of(wanted)
    cut = False
    for number in partitions:
        view, first = engine.view(number), 0
        while batch := view.actions(first, _FRAMES_AT_ONCE):
            cut = cut or (first == 0 and batch[0].first > 0)
            for issued in batch:
                first = issued.first + issued.count
                if key.encode() in issued.frame:
                    for one in issued_in(engine.catalog.fleet, Frame.decode(issued.frame)):
                        if one.id == wanted:
                            return one
        cut = cut or view.head().actions_next > first
    for fate in engine.view(partitions[-1]).fates_of([wanted]):
        if fate.kind == "compensated":
            raise UsageError(f"{wanted} was compensated before: {fate.why}")
    lost = "it is past retention, or from before a restore, or was never issued"
    past = lost if cut else "it was never issued"
    raise UsageError(f"no action {wanted!r} is kept: {past}: see `holdfast actions`")
