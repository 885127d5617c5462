"""Telling the fleet what became of its actions, and stopping all of it: commands of those who carry
actions out and of operators, each a row in the inbox of the partition concerned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import UsageError
from holdfast.model.keys import Layout
from holdfast.runtime.issued import name_of
from holdfast.runtime.routing import Router
from holdfast.runtime.sending import Receipt
from holdfast.stepping.actionids import ActionName
from holdfast.stepping.commit import Fate
from holdfast.stepping.grounding import command_of
from holdfast.stepping.inputs import FLEET_WIDE, control_frame, control_frame_of
from holdfast.stepping.settling import FINAL, SETTLES

IDS_AT_ONCE_MAX = 10_000
WHY_LENGTH_MAX = 500
BY_LENGTH_MAX = 128


def check_why(why: str, what: str) -> str:
    if not why.strip() or not why.isprintable() or len(why) > WHY_LENGTH_MAX:
        raise UsageError(
            f"say why {what}, on one line of at most {WHY_LENGTH_MAX} characters: it is recorded"
        )
    return why


def check_by(by: str | None) -> str:
    if by is not None and (not by.strip() or not by.isprintable() or len(by) > BY_LENGTH_MAX):
        raise UsageError(
            f"by={by[:40]!r}: name who, on one line of at most {BY_LENGTH_MAX} characters"
        )
    return by or ""


class Told(NamedTuple):
    """What somebody says of an action: "acknowledge", "fail" or "deliver"."""

    verb: str
    id: str
    by: str
    why: str


class Settling:
    def __init__(self, engine: Engine, router: Router) -> None:
        self._engine = engine
        self._router = router
        self._agents: set[str] = set()

    def append(
        self, verb: str, ids: Sequence[str], by: str, why: str, timeout: float
    ) -> list[Receipt]:
        return self.append_all([Told(verb, id, by, why) for id in ids], timeout)

    def append_all(self, told: Sequence[Told], timeout: float) -> list[Receipt]:
        """One append for each partition that has some of them."""
        if len(told) > IDS_AT_ONCE_MAX:
            raise UsageError(
                f"{len(told):,} ids at once, {IDS_AT_ONCE_MAX:,} is the most: give them in parts"
            )
        names = [self._checked(each.id) for each in told]
        rows = list(zip(names, told, strict=True))
        receipts = []
        for share in self._router.split([name.key for name in names]) if names else []:
            own = share.of(rows)
            frame = control_frame_of(
                [name.agent for name, _ in own],
                [name.key for name, _ in own],
                [list(each) for _, each in own],
            )
            parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
            taken = self._router.append(share.partition, parcel, timeout)
            receipts.append(Receipt(tuple((number, one.next) for number, one in taken)))
        return receipts

    def _checked(self, id: str) -> ActionName:
        name, fleet = name_of(id), self._engine.catalog.fleet
        if name.fleet != fleet:
            raise UsageError(f"{id} is of fleet {name.fleet!r}, this one is {fleet!r}")
        if name.agent not in self._agents:
            schemas = self._engine.catalog.schemas().values()
            self._agents = {each.name for each in schemas if each.kind == "state"}
            if name.agent not in self._agents:
                raise UsageError(f"{id}: there is no agent {name.agent!r} in fleet {fleet!r}")
        return name

    def ground(
        self, stops: bool, why: str, by: str, timeout: float, wait: Callable[[Receipt], None]
    ) -> None:
        """To every partition, also to those that a rescaling puts in their places meanwhile."""
        told: set[int] = set()
        while missing := sorted(set(self._engine.catalog.layout.numbers) - told):
            receipts = []
            for number in missing:
                key = _key_in(self._engine.catalog.layout, number)
                frame = control_frame(FLEET_WIDE, key, command_of(stops, why, by))
                parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
                taken = self._router.append(number, parcel, timeout)
                told |= {number, *(place for place, _ in taken)}
                receipts.append(Receipt(tuple((place, one.next) for place, one in taken)))
            for receipt in receipts:
                wait(receipt)


def _key_in(layout: Layout, number: int) -> str:
    """Some key that lives there, so that the command goes where its partition's agents go."""
    if number not in layout.numbers:
        return "ground-stop"  # it is refused there, and comes to the partitions of now
    tries = (f"ground-stop-{n}" for n in range(2**20))
    return next(key for key in tries if layout.partition_of(key) == number)


def refusal(verb: str, id: str, fates: Sequence[Fate]) -> str | None:
    """Why the fold did not record it, from what stands; None if it did."""
    kinds = {one.kind: one for one in fates}
    final = next((kinds[kind] for kind in FINAL if kind in kinds), None)
    wanted = SETTLES[verb]
    if wanted in kinds or (verb == "deliver" and final is not None):
        return None
    if final is not None:
        by = f" by {final.by}" if final.by else ""
        why = f": {final.why}" if final.why else ""
        return f"{id} was {final.kind}{by} before{why}"
    name = name_of(id)
    return f"no action {id} was issued: {name.agent}/{name.key} has not come to that version"
