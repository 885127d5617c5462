"""What those tell who carry actions out: delivered, acknowledged, failed. The fold decides.

An id is believed if it has the form of one, is of this fleet, and its agent has come to that
version: looking for the action itself would mean to search all of them. What stands, stands: of two
that contradict each other the first is recorded. Nobody is answered here: who asks looks at what
is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.event import Event
from holdfast.model.fates import ActionAcknowledged, ActionFailed, expiry_name
from holdfast.stepping.actionids import ActionName, read_action_id
from holdfast.stepping.cell import Held
from holdfast.stepping.commit import Fate

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.cell import Cell

# The verb of the command and the fate that it makes. A command is [verb, id, by, why].
SETTLES = {"deliver": "delivered", "acknowledge": "acknowledged", "fail": "failed"}
FINAL = ("acknowledged", "failed", "withheld")


def settle(fold: CarefulFold, cell: Cell, command: list[object]) -> None:
    verb, id, by, why = map(str, command)
    name = read_action_id(id)
    if name is None or not _is_issued(fold, cell, name):
        return
    known = {one.kind: one for one in fold.fates_of(id)}
    kind = SETTLES[verb]
    if kind in known or any(final in known for final in FINAL):
        return
    action = known["issued"].action if "issued" in known else ""
    fold.fates.add([Fate(id, cell.key, fold.now, why, kind, by, action)])
    if kind == "delivered":
        return
    _cancel_expiry(fold, cell, name)
    event: Event = ActionFailed(id, action, by, why)
    if kind == "acknowledged":
        late = "expired" in known or _is_late(fold, known.get("issued"))
        event = ActionAcknowledged(id, action, by, late)
    if type(event) in cell.kind.routes:
        fold.deliver(cell, Held(event, fold.number, fold.now, None, 0, -1))


def _is_issued(fold: CarefulFold, cell: Cell, name: ActionName) -> bool:
    own = (fold.stepper.fleet.name, cell.agent_name, cell.key)
    # An agent that has expired begins anew with a version from the clock.
    return name[:3] == own and 0 < name.version <= cell.version


def _is_late(fold: CarefulFold, issued: Fate | None) -> bool:
    if issued is None:
        return False
    cls = fold.stepper.fleet.actions.get(issued.action)
    expires = None if cls is None else cls.__holdfast__.expires
    return expires is not None and fold.now > issued.now + expires


def _cancel_expiry(fold: CarefulFold, cell: Cell, name: ActionName) -> None:
    timer = expiry_name(name.version, name.number)
    if name.undoes or cell.extras is None or timer not in cell.extras.timers:
        return
    cell.wake()
    del cell.timers()[timer]
    fold.touch(cell)
