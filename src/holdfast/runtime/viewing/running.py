"""Who folds views: one runner per view, and a thread that turns them all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError, TheirBug
from holdfast.model.view import AnyView
from holdfast.runtime.repeating import Repeating
from holdfast.runtime.viewing.folding import Folding, Stopped, stopped_by
from holdfast.runtime.viewing.rowfile import Facts, RowFile, make_file
from holdfast.runtime.viewing.shelf import Shelf

LOOK_SECONDS = 0.02  # how late a view notices a commit
INPUTS_PER_TURN = 20_000  # a rebuild and the view that serves take turns

STOPPED = "stopped"  # the fact that tells why a view does not go on

_log = logging.getLogger("holdfast.views")


@dataclass
class Part:
    """The file that serves, or the one that is built."""

    number: int
    file: RowFile
    folding: Folding | None = None  # None: it is of other code, or has stopped

    def close(self) -> None:
        self.file.close()


class Runner:
    """Folds one view: `tick` is called again and again, by one thread."""

    def __init__(self, engine: Engine, view: type[AnyView], folder: Path) -> None:
        self._engine = engine
        self._view = view
        self.name = view.__holdfast__.name
        self._shelf = Shelf(folder, self.name)
        self._serving: Part | None = None
        self._building: Part | None = None
        self._opened = False

    def tick(self) -> bool:
        """Whether there is more to do at once."""
        if not self._opened:
            self._open()
        if self._shelf.wants_rebuild():
            self._build_anew()
            self._shelf.rebuild_begun()
        more = self._serving is not None and self._turn(self._serving)
        building = self._building
        if building is not None and building.folding is not None:
            if self._turn(building):
                return True
            if building.folding is not None:  # it was not stopped
                self._switch(building)
        return more

    def _turn(self, part: Part) -> bool:
        if part.folding is None:
            return False
        try:
            return not part.folding.run(INPUTS_PER_TURN).finished
        except HoldfastError as error:
            self._stop(part, error)
            return False

    def _stop(self, part: Part, error: HoldfastError) -> None:
        reason = stopped_by(error, self.name)
        if reason is None:
            raise error
        part.folding = None
        text = " ".join(str(reason).split())
        part.file.note(STOPPED, text)
        _log.error("%s", text)

    # Files.

    def _open(self) -> None:
        """1 be the only one, 2 let go what no longer counts, 3 open what serves and is built."""
        self._shelf.acquire()
        serving, built = self._shelf.serving(), self._shelf.building()
        for number in self._shelf.numbers():
            if number not in (serving, built):
                self._shelf.discard(number)
        self._serving = None if serving is None else self._part(serving)
        self._building = None if built is None else self._part(built)
        newest = self._building if built is not None else self._serving
        if newest is None or not self._is_ours(newest):
            self._build_anew()
        self._opened = True

    def _part(self, number: int) -> Part | None:
        """None where a file is damaged: it is built anew."""
        try:
            part = Part(number, RowFile(self._shelf.path(number)))
        except TheirBug as error:
            _log.error("view %s is rebuilt: %s", self.name, error)
            return None
        if self._is_ours(part):
            part.file.note(STOPPED, "")
            try:
                part.folding = Folding(self._engine, self._view, part.file)
            except HoldfastError as error:
                self._stop(part, error)
        return part

    def _is_ours(self, part: Part) -> bool:
        return part.file.facts == self._facts()

    def _facts(self) -> Facts:
        definition = self._view.__holdfast__
        fleet = self._engine.catalog.fleet
        return Facts(fleet, self.name, definition.fingerprint, definition.kinds, definition.schema)

    def _build_anew(self) -> None:
        if self._building is not None:
            self._building.close()
            self._building = None
        following = max(self._shelf.numbers(), default=0) + 1
        make_file(self._shelf.path(following), self._facts())
        for number in self._shelf.numbers():
            if (self._shelf.serving() or 0) < number < following:
                self._shelf.discard(number)
        self._building = self._part(following)

    def _switch(self, built: Part) -> None:
        """From now on readers read what was built; the file before goes."""
        self._shelf.serve(built.number)
        before, self._serving, self._building = self._serving, built, None
        if before is not None:
            before.close()
        for number in self._shelf.numbers():
            if number < built.number:
                self._shelf.discard(number)

    def check_free(self) -> None:
        """Raise InUse where another process folds it."""
        self._shelf.acquire()
        self._shelf.release()

    def close(self) -> None:
        for part in (self._serving, self._building):
            if part is not None:
                part.close()
        self._serving = self._building = None
        self._opened = False
        self._shelf.release()


class Views:
    """All views of a fleet, on one thread, until stopped."""

    def __init__(self, engine: Engine, views: Iterable[type[AnyView]], folder: Path) -> None:
        self.folder = folder
        self._runners = [Runner(engine, view, folder) for view in views]
        self._stopping = threading.Event()
        self._repeating = Repeating("views", self._tick, LOOK_SECONDS)

    def _tick(self) -> None:
        """A view that has trouble does not hold up the others."""
        trouble: Exception | None = None
        more = True
        while more and not self._stopping.is_set():
            more = False
            for runner in self._runners:
                try:
                    more = runner.tick() or more
                except Exception as error:
                    trouble = error
        if trouble is not None:
            raise trouble

    def stop(self) -> None:
        self._stopping.set()
        self._repeating.stop()
        for runner in self._runners:
            runner.close()


__all__ = ["STOPPED", "Runner", "Stopped", "Views"]
