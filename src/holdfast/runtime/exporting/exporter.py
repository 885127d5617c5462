"""The exporter: from the places of a target on, partition by partition, until nothing is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.port import Engine, View
from holdfast.errors import UsageError, WrongFleet
from holdfast.runtime.exporting.filing import Files
from holdfast.runtime.exporting.ndjson import Lines, OneFile, Stream
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.reading import Gaps, actions, batches, events
from holdfast.runtime.exporting.states import changes, state_batches
from holdfast.runtime.exporting.target import Batch, Kind, Lost, Place, Target

RETRY_SECONDS = 60.0  # so long a target may be away: a database restarts in a few
PAUSE_SECONDS = 0.2

Step = tuple[Iterator[Batch], Place]


def open_target(
    to: str, fleet: str, kind: Kind, payloads: Payloads, reach: FaultPoints = no_faults
) -> Target:
    scheme, colon, rest = to.partition(":")
    if scheme in ("postgres", "postgresql") and rest.startswith("//"):
        from holdfast.runtime.exporting.postgres import Postgres

        return Postgres(to, fleet, kind, payloads, reach)
    if not colon or scheme not in ("parquet", "ndjson") or not rest:
        raise UsageError(
            f"unknown target {to!r}: use parquet:DIR, ndjson:FILE, ndjson:DIR/, ndjson:- or "
            "postgres://USER@HOST/DATABASE"
        )
    path = Path(rest)
    if scheme == "parquet":
        from holdfast.runtime.exporting.parquet import ParquetWriter

        return Files(path, fleet, kind, ParquetWriter(kind, payloads), reach)
    if rest == "-":
        return Stream(sys.stdout.fileno())
    if rest.endswith("/") or path.is_dir():
        return Files(path, fleet, kind, Lines(), reach)
    return OneFile(path, fleet, kind, reach)


class Exporter:
    def __init__(
        self,
        engine: Engine,
        kind: Kind,
        to: str,
        *,
        skip_missing: bool = False,
        note: Callable[[str], None] = lambda text: None,
        reach: FaultPoints = no_faults,
    ) -> None:
        self._engine = engine
        self._kind = kind
        self._payloads = Payloads(engine.catalog.schemas)
        self._skip_missing = skip_missing
        self._note = note
        self._target = open_target(to, engine.catalog.fleet, kind, self._payloads, reach)

    def clear(self) -> None:
        """Forget what an earlier export has written: everything comes again."""
        self._target.clear()

    def run(self, retry_seconds: float = RETRY_SECONDS) -> int:
        """Export what is committed now; how many rows that were.

        A target that goes away is tried again: what it has kept is in its places.
        """
        rows = 0
        deadline = time.monotonic() + retry_seconds
        lost = False
        while True:
            try:
                if lost:
                    self._target.reopen()
                for written in self._pass():
                    rows += written
                    deadline = time.monotonic() + retry_seconds
                return rows
            except Lost as error:
                if time.monotonic() > deadline:
                    raise
                if not lost:
                    self._note(f"{error}; trying for {retry_seconds:g} s")
                lost = True
                time.sleep(PAUSE_SECONDS)

    def _pass(self) -> Iterator[int]:
        """One look at every partition, oldest first: an agent's rows stay in order."""
        places = self._target.places()
        self._check(places)
        for number in range(self._engine.catalog.layout.numbers.stop):
            place = places.get(number)
            for found, after in self._steps(number, place):
                yield self._target.write(found, place, after)
                place = after

    def _steps(self, number: int, place: Place | None) -> Iterator[Step]:
        view = self._engine.view(number)
        fresh = place is None
        start = place or Place(number, view.incarnation())
        gaps = Gaps(self._skip_missing or fresh, self._note)
        if self._kind == "states":
            changed = changes(self._engine, start, fresh, gaps)
            if changed is not None:
                yield state_batches(changed, self._payloads), changed.after
            return
        if self._kind == "events":
            slices = events(view, start, self._payloads, gaps)
        else:
            fleet = self._engine.catalog.fleet
            slices = actions(view, start, fleet, self._payloads, gaps)
        for batch, after in batches(self._kind, slices):
            if len(batch) or after != place:
                yield iter([batch] if len(batch) else []), after

    def _check(self, places: dict[int, Place]) -> None:
        """Refuse to go on with another history than the one whose rows the target has."""
        for number, place in places.items():
            why = another_history(self._engine, self._kind, number, place)
            if why:
                raise WrongFleet(
                    f"the target has {self._kind} of another history of fleet "
                    f"{self._engine.catalog.fleet!r}: {why}; restored or copied data needs a "
                    "target of its own, or --from beginning"
                )

    def close(self) -> None:
        self._target.close()


def another_history(engine: Engine, kind: Kind, number: int, place: Place) -> str:
    """Why what was read up to a place cannot be what this engine has; "" if it can."""
    if number >= engine.catalog.layout.numbers.stop:
        return f"partition {number} does not exist here"
    view = engine.view(number)
    if view.incarnation() != place.incarnation:
        return f"partition {number} is another one of that number"
    head = view.head()
    end = head.actions_next if kind == "actions" else head.position
    if place.position > end or place.fired > head.journal_next:
        return f"partition {number} ends at {end:,}, before {place.position:,}"
    if stamp_before(view, kind, place.position) not in (None, place.stamp):
        return f"what stands before {place.position:,} in partition {number} is not the same"
    return ""


def stamp_before(view: View, kind: Kind, position: int) -> float | None:
    """The time of what stands right before a position, where it is still kept."""
    if position == 0:
        return None
    if kind == "actions":
        issued = view.actions(position - 1, 1)
        return issued[0].now if issued and issued[0].first < position else None
    if view.inbox_first() >= position:
        return None
    found = view.frames(position - 1, 1)
    return found[0].stamp if found and found[0].first < position else None
