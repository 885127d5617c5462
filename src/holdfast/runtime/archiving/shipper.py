"""The shipper: copies what is new in inboxes and journals into the archive. `tick()` ships once.

A plain loop object like the worker: engine, store and clock are handed in. It reads through views,
so it neither waits for anybody nor makes anybody wait. It keeps no notes: after a kill the archive
itself says where to go on.

What is lost with the disk is what was appended since the last tick began, so with a tick every
half of `seconds` and puts that take less than the other half, it is less than `seconds`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.blob.port import Blob
from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError, TryAgain, WrongFleet
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.objects import Picture, Shipment, encode, picture_name
from holdfast.runtime.archiving.stream import Line

ALARM_SECONDS = 60.0  # how often trouble that stays is told again
PATIENCE_SECONDS = 1.0  # of one request to the store: the next tick tries again anyway

_log = logging.getLogger("holdfast.archive")
_Work = tuple[Line, list[Shipment]]
_Result = HoldfastError | None
Each = Callable[[Callable[[_Work], _Result], list[_Work]], Iterable[_Result]]


@runtime_checkable
class HoldsBack(Protocol):
    """An engine whose retention can wait for the archive."""

    def keep_from(self, partition: int, position: int | None) -> None: ...


class Lag(NamedTuple):
    """What would be lost with the disk now."""

    events: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.events:,} events of the last {self.seconds:,.0f} s are not archived"


class Shipper:
    def __init__(
        self,
        engine: Engine,
        blob: Blob,
        clock: Callable[[], float] = time.time,
        each: Each = map,
    ) -> None:
        self._engine = engine
        self._archive = Archive(blob)
        self._clock = clock
        self._each = each
        self._lines: dict[int, Line] = {}
        self._finished: set[int] = set()  # retired partitions that are wholly archived
        self._picture: Picture | None = None
        self._trouble = ""
        self._told = 0.0

    def prepare(self) -> None:
        """Find out whether this store can be used, before anything depends on it.

        Raises what trying again would not change. A store that does not answer is another matter:
        the fleet runs, and `tick` says how much waits.
        """
        try:
            for trouble in self._find_ends():
                raise trouble
        except TryAgain as trouble:
            self._note(str(trouble))

    def tick(self) -> bool:
        """Ship what is new, at most one object per inbox and journal. True if more waits.

        1 read what is new, 2 read the catalog, so that it knows the schemas of what was read,
        3 put the catalog if it has changed, 4 put what is new, 5 tell retention.
        """
        try:
            more = self._tick()
        except HoldfastError as trouble:
            self._note(str(trouble))
            return False
        self._note("")
        return more

    def _tick(self) -> bool:
        """Every partition, also if another one has trouble; then the first trouble is raised."""
        troubles = self._find_ends()
        work: list[_Work] = []
        for line in self._lines.values():
            try:
                shipments = line.collect(self._clock())
                work += [(line, shipments)] if shipments else []
            except HoldfastError as trouble:
                troubles.append(trouble)
        if work:
            self._ship_catalog()
            results = self._each(self._ship, work)
            troubles += [result for result in results if result is not None]
        self._finish_retired()
        if troubles:
            raise troubles[0]
        return any(line.full for line, _ in work)

    def _ship(self, work: _Work) -> HoldfastError | None:
        line, shipments = work
        for shipment in shipments:
            if shipment.gap:
                _log.error(
                    "partition %d: %s %d to %d are lost for the archive: %s",
                    *(line.number, shipment.kind, shipment.first, shipment.next, shipment.gap),
                )
        try:
            line.ship(shipments)
        except HoldfastError as trouble:
            return trouble
        self._hold_back(line)
        return None

    def _hold_back(self, line: Line) -> None:
        if isinstance(self._engine, HoldsBack):
            self._engine.keep_from(line.number, line.log.next)

    # Where the archive ends.

    def _find_ends(self) -> list[HoldfastError]:
        self._check_fleet()
        troubles: list[HoldfastError] = []
        catalog = self._engine.catalog
        for number in (*catalog.retired, *catalog.layout.numbers):
            if number in self._lines or number in self._finished:
                continue
            try:
                line = Line(number, self._engine.view(number), catalog.fleet, self._archive)
                line.find_ends()
                self._hold_back(line)
                self._lines[number] = line
            except HoldfastError as trouble:
                troubles.append(trouble)
        return troubles

    def _check_fleet(self) -> None:
        if self._picture is not None:
            return
        _, picture = self._archive.picture()
        catalog = self._engine.catalog
        if picture is not None and picture.fleet != catalog.fleet:
            raise WrongFleet(
                f"{self._archive.blob.url}: is the archive of fleet {picture.fleet!r}, not "
                f"{catalog.fleet!r}: archive to another place"
            )
        for number in catalog.layout.numbers if picture is not None else ():
            known = picture.incarnations.get(number) if picture else None
            if known not in (None, self._engine.view(number).incarnation()):
                raise WrongFleet(
                    f"{self._archive.blob.url}: is the archive of another directory of fleet "
                    f"{catalog.fleet!r}: archive to another place"
                )
        self._picture = picture

    def _finish_retired(self) -> None:
        """Nothing comes to them any more."""
        for number in self._lines.keys() & self._engine.catalog.retired.keys():
            if not self._lines[number].waits:
                del self._lines[number]
                self._finished.add(number)

    # The catalog.

    def _ship_catalog(self) -> None:
        picture = self._look()
        while picture != self._picture:
            number, newest = self._archive.picture()
            if newest == picture:
                self._picture = newest
            elif self._archive.blob.put_if_absent(picture_name(number + 1), encode(picture)):
                self._picture = picture

    def _look(self) -> Picture:
        catalog = self._engine.catalog
        layout, retired = catalog.layout, catalog.retired
        numbers = (*retired, *layout.numbers)
        known = self._picture.incarnations if self._picture else {}
        return Picture(
            catalog.fleet,
            layout.first,
            [(slots.start, slots.stop) for slots in layout.partitions],
            {number: (slots.start, slots.stop) for number, slots in retired.items()},
            {n: known.get(n) or self._engine.view(n).incarnation() for n in numbers},
            {
                id: json.dumps(schema.to_json(), sort_keys=True)
                for id, schema in catalog.schemas().items()
            },
        )

    # Trouble.

    @property
    def trouble(self) -> str:
        return self._trouble

    def lag(self) -> Lag:
        """Of the partitions whose end in the archive is known."""
        logs = [line.log for line in self._lines.values()]
        stamps = [log.oldest_stamp() for log in logs]
        oldest = min((stamp for stamp in stamps if stamp is not None), default=None)
        seconds = 0.0 if oldest is None else max(0.0, self._clock() - oldest)
        return Lag(sum(log.waiting() for log in logs), seconds)

    def _lag_in_words(self) -> str:
        try:
            return str(self.lag()) if self._lines else "how much is archived is not known yet"
        except HoldfastError:
            return "how much is archived cannot be read"

    def _note(self, trouble: str) -> None:
        """Told when it comes, when it goes, and now and then while it stays."""
        now = self._clock()
        if trouble and (not self._trouble or not 0 <= now - self._told < ALARM_SECONDS):
            _log.error("%s: %s; trying again", trouble, self._lag_in_words())
            self._told = now
        elif self._trouble and not trouble:
            _log.warning("the archive goes on: %s", self._lag_in_words())
        self._trouble = trouble
