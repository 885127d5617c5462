"""Reading views: rows of the file that serves, by name or by class, in any process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, cast

from holdfast.engine.port import Engine
from holdfast.errors import DamagedData, GiveUp, Missing, TimedOut, UsageError
from holdfast.model.keys import check_key
from holdfast.model.schema import RowReader, Schema, UntypedReader
from holdfast.model.view import AnyView, Row, View
from holdfast.runtime.sending import Receipt
from holdfast.runtime.viewing.rowfile import Progress, RowFile
from holdfast.runtime.viewing.running import STOPPED
from holdfast.runtime.viewing.shelf import Shelf, names_in
from holdfast.stepping.lane import in_lane, is_folded

R = TypeVar("R", bound=Row)
T = TypeVar("T")
READ_SECONDS = 10.0
ROWS_AT_ONCE = 1_000_000_000  # all of them
_POLL_SECONDS = 0.002


class Found(NamedTuple):
    """Rows as stored, and what describes them."""

    schema: Schema
    rows: list[tuple[str, bytes]]


class ViewStanding(NamedTuple):
    """How a view does."""

    view: str
    rows: int
    waiting: int  # committed events and actions that it has not folded
    missing: int  # that were past retention when it was built
    doing: str  # folds, nobody folds it, being built, being rebuilt, stopped
    why: str
    runner: int | None


class StoredView:
    """A view by its name, without its class. Safe to share between threads."""

    def __init__(self, engine: Engine, folder: Path, name: str) -> None:
        self._engine = engine
        self._folder = folder
        self.name = name
        self._shelf = Shelf(folder, name)
        self._open: tuple[int, RowFile] | None = None
        self._opening = threading.Lock()

    # What is read is of one commit of the view.

    def row(self, key: str, after: Receipt | None = None, timeout: float = READ_SECONDS) -> Found:
        """With no row in it where there is none."""
        check_key(key)

        def look(file: RowFile) -> Found:
            row = file.row(key)
            return Found(file.facts.schema, [] if row is None else [(key, row)])

        return self._look(look, after, timeout)

    def rows(
        self,
        first: str = "",
        most: int = ROWS_AT_ONCE,
        after: Receipt | None = None,
        timeout: float = READ_SECONDS,
    ) -> Found:
        """From a key on, in the order of keys."""
        return self._look(lambda f: Found(f.facts.schema, f.rows(first, most)), after, timeout)

    def positions(self, timeout: float = READ_SECONDS) -> dict[int, int]:
        """By partition, up to which event everything is in the view."""
        places = self._look(lambda file: file.places(), None, timeout)
        return {
            number: place.position for (kind, number), place in places.items() if kind == "events"
        }

    def standing(self) -> ViewStanding:
        self.check_known()
        runner = self._shelf.runner()
        built = self._shelf.building()
        serving = self._shelf.serving()
        if serving is None:
            progress, waiting, why = Progress(), 0, ""
        else:
            progress, waiting, why = self._look(self._tell, None, 0.0)
        doing = "stopped" if why else "folds" if runner is not None else "nobody folds it"
        if built is not None:
            trouble = self._trouble(built)
            doing = "stopped" if trouble else "being built" if serving is None else "being rebuilt"
            why = trouble or why
        return ViewStanding(self.name, progress.rows, waiting, progress.missing, doing, why, runner)

    def catch_up(self, timeout: float = READ_SECONDS) -> None:
        """Until everything that is committed now is in the view."""
        deadline = time.monotonic() + timeout
        wanted = self._heads()
        self._wait(lambda file: _has_all(file, wanted), deadline, timeout)

    # How.

    def _look(self, look: Callable[[RowFile], T], after: Receipt | None, timeout: float) -> T:
        deadline = time.monotonic() + timeout
        if after is not None:
            wanted = self._behind(after, deadline, timeout)
            self._wait(lambda file: _has_all(file, wanted), deadline, timeout)
        while True:
            file = self._file(deadline, timeout)
            try:
                with file.moment():
                    return look(file)
            except Exception:
                if self._is_current(file):
                    raise  # otherwise it was closed under us: another one serves now

    def _file(self, deadline: float, timeout: float) -> RowFile:
        """The one that serves now; of a view that is built for the first time, when it is."""
        while True:
            with self._opening:
                found = self._current()
            if found is not None:
                return found
            building = self._shelf.building()
            why = "" if building is None else self._trouble(building)
            if why:
                raise GiveUp(f"view {self.name} was never complete: {why}")
            if time.monotonic() > deadline:
                self.check_known()
                raise TimedOut(
                    f"view {self.name} is not complete yet after {timeout:g} s: "
                    "`holdfast view list` tells how far it is"
                )
            time.sleep(_POLL_SECONDS)

    def _current(self) -> RowFile | None:
        while True:
            number = self._shelf.serving()
            if number is None:
                return None
            if self._open is not None and self._open[0] == number:
                return self._open[1]
            try:
                file = RowFile(self._shelf.path(number), read_only=True)
            except DamagedData:
                if self._shelf.serving() == number:
                    raise
                continue  # another one serves since
            if self._open is not None:
                self._open[1].close()
            self._open = number, file
            return file

    def _is_current(self, file: RowFile) -> bool:
        with self._opening:
            return self._open is not None and self._open[1] is file

    def check_known(self) -> None:
        if not self._shelf.exists():
            known = ", ".join(names_in(self._folder)) or "none"
            raise Missing(
                f"no view {self.name!r} is kept in {self._folder}: there is {known}; a view is "
                "made by the fleet that has it in views=, or by `holdfast view run`"
            )

    def _trouble(self, number: int) -> str:
        """Why a file that is built does not go on."""
        try:
            file = RowFile(self._shelf.path(number), read_only=True)
        except DamagedData:
            return ""  # it is gone, or not whole: the runner sees to it
        try:
            with file.moment():
                return file.fact(STOPPED)
        finally:
            file.close()

    def _tell(self, file: RowFile) -> tuple[Progress, int, str]:
        places, heads = file.places(), self._heads()
        waiting = 0
        for (kind, number), (position, fired) in heads.items():
            if kind in file.facts.kinds:
                place = places.get((kind, number))
                waiting += max(0, position - (place.position if place else 0))
                waiting += max(0, fired - (place.fired if place else 0))
        return file.progress(), waiting, file.fact(STOPPED)

    def _heads(self) -> dict[tuple[str, int], tuple[int, int]]:
        found = {}
        for number in range(self._engine.catalog.layout.numbers.stop):
            head = self._engine.view(number).head()
            found["events", number] = (head.position, head.journal_next)
            found["actions", number] = (head.actions_next, 0)
        return found

    def _behind(
        self, receipt: Receipt, deadline: float, timeout: float
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """How far a view must be to have these events and what they issued."""
        wanted: dict[tuple[str, int], tuple[int, int]] = {}
        known = self._engine.catalog.layout.numbers.stop
        for number, following in receipt.positions:
            if number >= known:
                raise UsageError(f"the receipt names partition {number}: it is of another fleet")
            view = self._engine.view(number)
            while True:
                position, head = view.position_of(following), view.head()
                if position is not None and is_folded(head, position):
                    # One of the urgent lane stands in the journal, wherever it was folded.
                    place = (position, 0)
                    if in_lane(position):
                        place = (head.position, head.journal_next)
                    wanted["events", number] = max(place, wanted.get(("events", number), place))
                    wanted["actions", number] = (head.actions_next, 0)
                    break
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"partition {number} has folded up to {head.position}, not yet what the "
                        f"receipt stands for, after {timeout:g} s: does a worker run?"
                    )
                time.sleep(_POLL_SECONDS)
        return wanted

    def _wait(self, ready: Callable[[RowFile], bool], deadline: float, timeout: float) -> None:
        while True:
            is_ready, why = self._look(
                lambda file: (ready(file), file.fact(STOPPED)),
                None,
                max(0.0, deadline - time.monotonic()),
            )
            if is_ready:
                return
            late = time.monotonic() > deadline
            if why and (late or self._shelf.runner() is not None):
                raise GiveUp(f"view {self.name} has stopped: {why}")
            if late:
                folds = (
                    "" if self._shelf.runner() else ": nobody folds it, see `holdfast view list`"
                )
                raise TimedOut(f"view {self.name} has not come so far after {timeout:g} s{folds}")
            time.sleep(_POLL_SECONDS)

    def ask_for_rebuild(self) -> bool:
        """Whether somebody folds it, and so will begin at once."""
        self.check_known()
        self._shelf.ask_for_rebuild()
        return self._shelf.runner() is not None

    def close(self) -> None:
        with self._opening:
            if self._open is not None:
                self._open[1].close()
            self._open = None


def _has_all(file: RowFile, wanted: dict[tuple[str, int], tuple[int, int]]) -> bool:
    places = file.places()
    for (kind, number), (position, fired) in wanted.items():
        if kind in file.facts.kinds:
            place = places.get((kind, number))
            if place is None or place.position < position or place.fired < fired:
                return False
    return True


def values_of(found: Found) -> list[tuple[str, dict[str, object]]]:
    """Rows as JSON has them."""
    reader = UntypedReader(found.schema)
    return [(key, reader.row(row)) for key, row in found.rows]


class ReadModel(Generic[R]):
    """A view as `live.view(ZoneLoad)` gives it. What it returns is committed, and a copy."""

    def __init__(self, view: type[View[R]], stored: StoredView) -> None:
        self._row = cast("type[R]", view.__holdfast__.row)
        self._stored = stored

    def get(
        self, key: str, *, after: Receipt | None = None, timeout: float = READ_SECONDS
    ) -> R | None:
        """The row of a key, or None. With `after`, those events and their actions included."""
        return self._typed(self._stored.row(key, after, timeout)).get(key)

    def rows(self, *, after: Receipt | None = None, timeout: float = READ_SECONDS) -> dict[str, R]:
        """All rows by key, of one moment."""
        return self._typed(self._stored.rows(after=after, timeout=timeout))

    def positions(self) -> dict[int, int]:
        """By partition, up to which event everything is in it."""
        return self._stored.positions()

    def standing(self) -> ViewStanding:
        return self._stored.standing()

    def catch_up(self, *, timeout: float = READ_SECONDS) -> None:
        """Until everything that is committed now is in it."""
        self._stored.catch_up(timeout)

    def rebuild(self) -> None:
        """Have it folded again from the beginning; what there is serves meanwhile."""
        self._stored.ask_for_rebuild()

    def _typed(self, found: Found) -> dict[str, R]:
        """SchemaError while rows of an older class serve that this one cannot read."""
        reader = RowReader(self._row, found.schema)
        return {key: reader.row(row) for key, row in found.rows}


def name_of(view: type[AnyView]) -> str:
    return view.__holdfast__.name
