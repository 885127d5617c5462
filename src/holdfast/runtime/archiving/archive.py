"""`Archive`: reads back what a shipper has copied, and says in one line what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from holdfast.blob.port import Blob
from holdfast.errors import DamagedData, HoldfastError, Missing
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.runtime.archiving.objects import (
    SEAL,
    Kind,
    Picture,
    Run,
    Shipment,
    decode,
    first_of,
    folder_of,
    is_merged,
    picture_name,
)
from holdfast.stepping.commit import Journalled
from holdfast.stepping.inputs import StoredFrame

KINDS: tuple[Kind, Kind] = ("log", "journal")
_WORDS = {"log": "events", "journal": "journal rows"}


class Reach(NamedTuple):
    """What the archive has of one log or journal: numbers from `first` up to, not with, `next`."""

    first: int
    next: int
    last: Shipment  # the object that reaches `next`


class Catalogued(NamedTuple):
    fleet: str
    layout: Layout
    retired: dict[int, range]
    incarnations: dict[int, str]
    schemas: dict[int, Schema]


class Archive:
    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    # The fleet.

    def catalog(self) -> Catalogued:
        """The newest: its schemas and layout are at least as new as every event here."""
        _, picture = self.picture()
        if picture is None:
            raise Missing(f"{self.blob.url}: there is no log archive: correct the URL")
        slots = tuple(range(first, stop) for first, stop in picture.slots)
        return Catalogued(
            picture.fleet,
            Layout(slots, picture.first),
            {number: range(first, stop) for number, (first, stop) in picture.retired.items()},
            picture.incarnations,
            {id: Schema.from_json(json.loads(text)) for id, text in picture.schemas.items()},
        )

    def picture(self) -> tuple[int, Picture | None]:
        """The newest one with its number; (0, None) where there is none."""
        names = list(self.blob.list("catalog"))
        if not names:
            return 0, None
        number = first_of(names[-1])
        return number, decode(names[-1], self.blob.get(picture_name(number)), Picture)

    def incarnations(self) -> list[str]:
        """Of every partition that has anything here."""
        names = [name for kind in KINDS for name in self.blob.list(kind)]
        return sorted({name.split("/")[1] for name in names})

    # Inboxes and journals.

    def frames(self, incarnation: str, first: int) -> Iterator[StoredFrame]:
        """Inbox frames from the one that holds `first` on, as `View.frames` gave them."""
        for run in self._runs("log", incarnation, first):
            yield StoredFrame(run.first, run.count, run.stamp, run.frame)

    def journal(self, incarnation: str, first: int) -> Iterator[Journalled]:
        for run in self._runs("journal", incarnation, first):
            yield Journalled(run.first, run.count, run.frame)

    def _runs(self, kind: Kind, incarnation: str, first: int) -> Iterator[Run]:
        for position, shipment in self.walk(kind, incarnation, first):
            yield from (run for run in shipment.runs if run.next > position)

    def walk(self, kind: Kind, incarnation: str, first: int) -> Iterator[tuple[int, Shipment]]:
        """From `first` to the end: each position reached, with the object that holds it."""
        names = self._names(kind, incarnation)
        self._check_kept(kind, incarnation, first, names)
        position = first
        while names:
            while (shipment := self._holding(names, position)) is None:
                before, names = names, self._names(kind, incarnation)
                if _nearest(names, position) == _nearest(before, position):  # it went nowhere
                    self._check_kept(kind, incarnation, position, names)
                    self._check_end(kind, incarnation, position, names)
                    return
            self._check_whole(kind, incarnation, shipment)
            yield position, shipment
            position = shipment.next

    def _holding(self, names: dict[int, str], position: int) -> Shipment | None:
        name = _nearest(names, position)
        if name is None:
            return None
        try:
            shipment = self.shipment(name)
        except Missing:
            return None
        return shipment if shipment.next > position else None

    def _check_kept(self, kind: Kind, incarnation: str, first: int, names: dict[int, str]) -> None:
        if names and first < min(names):
            raise Missing(
                f"{self.blob.url}: {_WORDS[kind]} of {incarnation} are archived from {min(names)} "
                f"on, not from {first}: begin with a snapshot that reaches that far"
            )

    def _check_end(
        self, kind: Kind, incarnation: str, position: int, names: dict[int, str]
    ) -> None:
        last = max(names, default=0)
        if last >= position and names:
            raise DamagedData(
                f"{self.blob.url}: {_WORDS[kind]} of {incarnation} from {position} on are missing, "
                f"later ones from {last} on are there: put back the object from a copy of the store"
            )

    def _check_whole(self, kind: Kind, incarnation: str, shipment: Shipment) -> None:
        if shipment.gap:
            raise Missing(
                f"{self.blob.url}: {_WORDS[kind]} {shipment.first} to {shipment.next} of "
                f"{incarnation} are missing: {shipment.gap}; begin with a later snapshot"
            )

    def shipment(self, name: str) -> Shipment:
        """One object, if it is what its name says."""
        shipment = decode(name, self.blob.get(name), Shipment)
        place = f"{shipment.kind}/{shipment.incarnation}"
        reached = shipment.first
        for run in shipment.runs:
            if run.first != reached:
                raise SEAL.damaged(name, f"{reached} is missing in it")
            reached = run.next
        fits = first_of(name) == shipment.first and name.rpartition("/")[0] == place
        if not fits or (shipment.runs and reached != shipment.next):
            raise SEAL.damaged(name, f"it holds {place} {shipment.first} to {shipment.next}")
        return shipment

    def _names(self, kind: Kind, incarnation: str) -> dict[int, str]:
        """By the first number in each; of two that begin together the merged one, listed last."""
        names = list(self.blob.list(folder_of(kind, incarnation)))
        return {first_of(name): name for name in names}

    def reach(self, kind: Kind, incarnation: str) -> Reach | None:
        """From where to where the archive goes, by its last objects; None if it has nothing."""
        names = self._names(kind, incarnation)
        try:
            return self._reach(names) if names else None
        except Missing:
            if names == self._names(kind, incarnation):
                raise
            return self.reach(kind, incarnation)  # it was merged with others since

    def _reach(self, names: dict[int, str]) -> Reach:
        merged = [start for start, name in names.items() if is_merged(name)]
        last = self.shipment(names[max(merged)]) if merged else None
        later = [start for start in names if last is None or start >= last.next]
        if later:
            last = self.shipment(names[max(later)])
        assert last is not None
        return Reach(min(names), last.next, last)

    def folded(self, incarnation: str) -> int:
        """All timers that fired before this position are in the archived journal."""
        reach = self.reach("log", incarnation)
        return 0 if reach is None else reach.last.folded

    def forget(self, kind: Kind, incarnation: str, before: int) -> None:
        """Remove the objects in which everything is before a number, oldest first."""
        names = sorted(self._names(kind, incarnation).items())
        for (_, name), (following, _) in pairwise(names):
            if following > before:
                break
            self.blob.delete(name)

    def problems(self) -> Iterator[str]:
        """One line for everything that cannot be read: reads all of it."""
        for incarnation in self.incarnations():
            for kind in KINDS:
                try:
                    names = self._names(kind, incarnation)
                    for _ in self.walk(kind, incarnation, min(names, default=0)):
                        pass
                except HoldfastError as problem:
                    yield str(problem)


def _nearest(names: dict[int, str], position: int) -> str | None:
    """The object that holds a position, if any does."""
    start = max((start for start in names if start <= position), default=None)
    return None if start is None else names[start]
