"""Where the events behind a snapshot come from: the archive of a store, or a directory at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from holdfast.engine.port import Engine, View
from holdfast.errors import UsageError
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.replaying.history import EVENTS_AT_ONCE, History
from holdfast.stepping.commit import CommitNote, Journalled
from holdfast.stepping.inputs import StoredFrame


class Log(Protocol):
    def layout(self) -> Layout | None: ...  # of today
    def schemas(self) -> dict[int, Schema]: ...
    def frames(self, incarnation: str, first: int) -> Iterator[StoredFrame]: ...
    def journal(self, incarnation: str, first: int) -> Iterator[Journalled]: ...
    def notes(self, incarnation: str, first: int) -> Iterator[CommitNote]: ...
    def folded(self, incarnation: str) -> int:
        """All timers that fired before this position are in the journal."""


class NoLog:
    def layout(self) -> Layout | None:
        return None

    def schemas(self) -> dict[int, Schema]:
        return {}

    def frames(self, incarnation: str, first: int) -> Iterator[StoredFrame]:
        return iter(())

    def journal(self, incarnation: str, first: int) -> Iterator[Journalled]:
        return iter(())

    def notes(self, incarnation: str, first: int) -> Iterator[CommitNote]:
        return iter(())

    def folded(self, incarnation: str) -> int:
        return 0


class ArchiveLog(NoLog):
    """The archive has no notes of commits: their cuts matter to nobody but `updated` of agents."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def layout(self) -> Layout:
        return self._archive.catalog().layout

    def schemas(self) -> dict[int, Schema]:
        return self._archive.catalog().schemas

    def frames(self, incarnation: str, first: int) -> Iterator[StoredFrame]:
        return self._archive.frames(incarnation, first)

    def journal(self, incarnation: str, first: int) -> Iterator[Journalled]:
        return self._archive.journal(incarnation, first)

    def folded(self, incarnation: str) -> int:
        return self._archive.folded(incarnation)


class DirectoryLog:
    """The data that the snapshot was taken of, as far as retention has kept it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        numbers = [*engine.catalog.retired, *engine.catalog.layout.numbers]
        views = {engine.view(n).incarnation(): n for n in numbers}
        self._histories = {name: History(engine, n) for name, n in views.items()}

    def layout(self) -> Layout:
        return self._engine.catalog.layout

    def _history(self, incarnation: str) -> History:
        if incarnation not in self._histories:
            raise UsageError(
                "the snapshot was taken of other data than that of --engine: name its directory, "
                "or a store with its archive"
            )
        return self._histories[incarnation]

    def schemas(self) -> dict[int, Schema]:
        return self._engine.catalog.schemas()

    def frames(self, incarnation: str, first: int) -> Iterator[StoredFrame]:
        view: View = self._history(incarnation).view
        while batch := view.frames(first, EVENTS_AT_ONCE):
            _check_kept(first, batch[0].first)
            yield from batch
            first = batch[-1].first + batch[-1].count
        _check_kept(first, view.inbox_first())  # nothing behind `first` may be all that is kept

    def journal(self, incarnation: str, first: int) -> Iterator[Journalled]:
        return self._history(incarnation).journal(first)

    def notes(self, incarnation: str, first: int) -> Iterator[CommitNote]:
        return self._history(incarnation).notes(first)

    def folded(self, incarnation: str) -> int:
        return self._history(incarnation).end.position


def _check_kept(first: int, kept: int) -> None:
    if kept > first:
        raise UsageError(f"events before position {kept} are past retention: take a later snapshot")
