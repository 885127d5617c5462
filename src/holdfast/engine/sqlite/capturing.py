"""Capturing a directory while it is used: read transactions that all begin at one moment.

Why the moment is a consistent cut is said in engine/contents.py. The append locks are held for as
long as it takes to begin two transactions per partition; files are opened before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.engine.contents import Facts, Outbox, PartitionContents, of_retired
from holdfast.engine.inheritance import Dedupe, refuses
from holdfast.engine.port import APPEND_SECONDS
from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.engine.sqlite.files import damaged, explained, undone
from holdfast.engine.sqlite.folders import folder_of
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.locks import Turnstile
from holdfast.engine.sqlite.segment import Segment, list_segments, open_segment
from holdfast.engine.sqlite.view import SqliteView
from holdfast.stepping.commit import Call, Fate, Letter, Record
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE


class FixedView(SqliteView):
    """A view in one transaction from `fix` to `close`: commits go on and it does not see them."""

    def fix(self) -> None:
        with explained(self._path):
            self._connection.execute("BEGIN")
        self.head()  # the first read is what fixes it

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        with self._lock, explained(self._path):
            yield


class CapturedPartition:
    facts: Facts

    def __init__(self, folder: Path, number: int, slots: range, inbox: SqliteInbox) -> None:
        self._folder = folder / "inbox"
        self._number = number
        self._slots = slots
        self._view = FixedView(folder, inbox)
        self._segments: list[Segment] = []
        with undone(self._view.close):
            self._turnstile = Turnstile(folder, "append")

    def open_segments(self) -> None:
        """All that hold events from our position on: open files outlive their names.

        Commits move the position on meanwhile, so what is opened early is never too little.
        """
        names = list_segments(self._folder)
        known = {segment.name for segment in self._segments}
        if not known:
            position = self._view.head().position
            names = names[max((i for i, n in enumerate(names) if n.first <= position), default=0) :]
        for name in names:
            if name not in known and (not known or name > max(known)):
                segment = open_segment(self._folder, name)
                if segment is not None:  # otherwise all in it is folded, and past retention
                    self._segments.append(segment)

    def lock(self) -> None:
        self._turnstile.acquire(APPEND_SECONDS)

    def unlock(self) -> None:
        self._turnstile.release()

    def fix(self) -> None:
        """While it is locked. A segment that was begun a moment ago is opened here."""
        self.open_segments()
        self._view.fix()
        for segment in self._segments:
            with explained(segment.path):
                segment.connection.execute("BEGIN")
                segment.head()

    # At leisure.

    def describe(self) -> None:
        view, newest = self._view, self._segments[-1]
        with explained(newest.path):
            inbox, marks = newest.head(), newest.ledger.marks()
        if inbox.closed:
            raise refuses(str(self._folder.parent))
        head = view.head()
        if inbox.incarnation != view.incarnation() or inbox.next < head.position:
            raise damaged(self._folder, "it does not belong to the state beside it")
        if (first := self._segments[0].name.first) > head.position:
            raise damaged(self._folder, f"events {head.position} to {first} are missing")
        self.facts = Facts(
            self._number,
            self._slots,
            inbox.incarnation,
            head,
            view.generation(),
            inbox.next,
            inbox.stamp,
            view.sent_next(),
            marks,
            inbox.urgent,
        )

    def records(self) -> Iterator[Record]:
        return self._view.records()

    def letters(self) -> list[tuple[Letter, bool]]:
        return self._view.letters()

    def calls(self) -> list[Call]:
        return self._view.calls(0, 2**62)

    def fates(self) -> list[Fate]:
        return self._view.fates()

    def outbox(self) -> Outbox:
        return self._view.outbox()

    def frames(self) -> Iterator[StoredFrame]:
        position = self.facts.head.position
        for segment in self._segments:
            with explained(segment.path):
                for stored in segment.frames(position, segment.head().next):
                    position = stored.first + stored.count
                    yield stored
        if position != self.facts.next:
            raise damaged(self._folder, f"events {position} to {self.facts.next} are missing")
        newest, urgent = self._segments[-1], LANE + self.facts.head.urgent
        with explained(newest.path):
            yield from newest.lane(urgent, LANE + self.facts.urgent)

    def dedupe(self) -> Dedupe:
        newest = self._segments[-1]
        with explained(newest.path):
            newest.ledger.check()
            return newest.ledger.dedupe()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
        self._view.close()
        self._turnstile.close()


class SqliteContents:
    def __init__(self, root: Path, catalog: SqliteCatalog, captured: list[CapturedPartition]):
        self.fleet = catalog.fleet
        self.layout = catalog.layout
        self._captured = captured
        self.partitions: list[PartitionContents] = list(captured)
        self.schemas = catalog.schemas()
        self.retired: list[Facts] = []

    def close(self) -> None:
        for partition in self._captured:
            partition.close()


def capture(root: Path, catalog: SqliteCatalog, inboxes: dict[int, SqliteInbox]) -> SqliteContents:
    """1 open, 2 lock all, in the order everybody takes them, 3 fix, 4 unlock, 5 describe."""
    layout = catalog.layout
    captured: list[CapturedPartition] = []
    try:
        for number, slots in layout.slots_by_number.items():
            folder = folder_of(root, number)
            with explained(folder):
                captured.append(CapturedPartition(folder, number, slots, inboxes[number]))
            captured[-1].open_segments()
        with ExitStack() as locks:
            for partition in captured:
                partition.lock()
                locks.callback(partition.unlock)
            for partition in captured:
                partition.fix()
        for partition in captured:
            partition.describe()
        if catalog.layout != layout:
            raise refuses(str(root))
        # Schemas after the cut: whatever is in it was registered before.
        contents = SqliteContents(root, catalog, captured)
        for number, slots in sorted(catalog.retired.items()):
            contents.retired.append(_retired(root, number, slots, inboxes[number]))
        return contents
    except BaseException:
        for partition in captured:
            partition.close()
        raise


def _retired(root: Path, number: int, slots: range, inbox: SqliteInbox) -> Facts:
    view = SqliteView(folder_of(root, number), inbox)
    try:
        return of_retired(number, slots, view.incarnation(), view.head())
    finally:
        view.close()
