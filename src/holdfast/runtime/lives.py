"""The lives of actions as readers see them: what became of one, and which are still to be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.issued import find_action, key_of
from holdfast.runtime.reading import ActionPage, IssuedAction, Reading
from holdfast.stepping.commit import Fate
from holdfast.stepping.issued import IssuedRow

# Of several things that became of an action, the first of these says how it stands.
_STATUSES = ("compensated", "acknowledged", "failed", "withheld", "expired", "delivered")
_URGENCY = {"urgent": 0, "normal": 1, "low": 2}


@dataclass(frozen=True, slots=True)
class ActionLife:
    """What became of one action. `issued` is None once the action itself is past retention, and
    for one that was withheld."""

    id: str
    name: str  # of its class
    status: str
    issued: IssuedAction | None
    fates: tuple[Fate, ...]  # in the order in which they came
    expires_at: float | None = None

    def at(self, kind: str) -> float | None:
        """When it was "delivered", "acknowledged", "failed", …; None if it was not."""
        return next((one.now for one in self.fates if one.kind == kind), None)

    @property
    def late(self) -> bool:
        """It was carried out after its time."""
        done = self.at("acknowledged")
        return done is not None and self.expires_at is not None and done > self.expires_at

    @property
    def by(self) -> str:
        """Who has told how it stands."""
        return self._deciding.by if self._deciding else ""

    @property
    def why(self) -> str:
        return self._deciding.why if self._deciding else ""

    @property
    def _deciding(self) -> Fate | None:
        return next((one for one in self.fates if one.kind == self.status), None)


def status_of(fates: Iterable[Fate], expires_at: float | None, now: float) -> str:
    kinds = {one.kind for one in fates}
    if expires_at is not None and now >= expires_at:
        kinds.add("expired")
    return next((each for each in _STATUSES if each in kinds), "issued")


class Lives:
    def __init__(self, engine: Engine, reading: Reading) -> None:
        self._engine = engine
        self._reading = reading

    def fates_of(self, ids: Sequence[str]) -> dict[str, list[Fate]]:
        """By id, from where the agents live now."""
        layout = self._engine.catalog.layout
        by_partition: dict[int, list[str]] = {}
        for id in dict.fromkeys(ids):
            by_partition.setdefault(layout.partition_of(key_of(id)), []).append(id)
        found: dict[str, list[Fate]] = {id: [] for id in ids}
        for number, own in by_partition.items():
            for fate in self._engine.view(number).fates_of(own):
                found[fate.id].append(fate)
        return found

    def of(self, id: str, now: float) -> ActionLife:
        """Looks for the action itself among all: for people, not for a loop."""
        fates = tuple(self.fates_of([id])[id])
        try:
            lived = partitions_of(self._engine.catalog, key_of(id))
            issued: IssuedAction | None = self._reading.issued(find_action(self._engine, lived, id))
        except UsageError:
            if not fates:
                raise
            issued = None
        named = [one.action for one in fates if one.action]
        name = self._reading.name_of(issued) if issued is not None else "".join(named[:1])
        expires_at = None if issued is None else issued.expires_at
        status = status_of(fates, expires_at, now)
        return ActionLife(id, name, status, issued, fates, expires_at)

    def with_status(self, page: Sequence[IssuedAction], now: float) -> list[IssuedAction]:
        known = self.fates_of([each.id for each in page])
        return [
            replace(each, status=status_of(known[each.id], each.expires_at, now)) for each in page
        ]

    def pending(self, after: str | None, most: int, now: float) -> ActionPage:
        """Those that are still to be carried out, the urgent ones of a page first."""

        def pick(rows: list[IssuedRow]) -> list[tuple[int, str | None]]:
            fresh = [
                i
                for i, row in enumerate(rows)
                if (expires_at := self._reading.expires_at(row)) is None or now < expires_at
            ]
            known = self.fates_of([rows[i].id for i in fresh])
            stands = [(i, status_of(known[rows[i].id], None, now)) for i in fresh]
            return [(i, status) for i, status in stands if status in ("issued", "delivered")]

        page = self._reading.actions(after, most, pick)
        page.sort(key=lambda each: _URGENCY.get(each.priority, 1))
        return page

    def withheld(self) -> list[Fate]:
        """Actions that a ground stop has held back, as long as they are remembered."""
        views = self._reading.views().values()
        return [one for view in views for one in view.fates() if one.kind == "withheld"]
