"""The run of deltas in a state file, as its owner remembers it: which of them to move to the base.

Point reads look into every delta, so their number and bytes are bounded. Few large deltas come
from busy producers: they are moved together, in a transaction of their own, because they mostly
change the same agents. Many small ones come from a quiet fleet, which minds every pause and every
sync: each commit takes the oldest two along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from holdfast.engine.sqlite.checks import check_of
from holdfast.stepping.commit import Commit, Record

DELTA_BYTES_MAX = 4 * 1024 * 1024
DELTAS_MAX = 256
DELTAS_PER_COMMIT = 2

Rows = list[tuple[object, ...]]
_NAME = itemgetter(0, 1)  # agent and key of a record


class Delta(NamedTuple):
    id: int
    records: list[Record]
    size: int


class Part(NamedTuple):
    """The oldest deltas, to be moved in one transaction: the newest image of each agent in them."""

    last_id: int
    deltas: int
    size: int
    records: Iterable[Record]


NOTHING = Part(-1, 0, 0, ())


class Moving(NamedTuple):
    """Images on their way from deltas to the base, encoded before the transaction begins."""

    part: Part
    rows: Rows
    gone: Rows

    @classmethod
    def of(cls, part: Part) -> Moving:
        rows: Rows = [(*r, check_of(*r)) for r in part.records if not r.gone]
        return cls(part, rows, [(r.agent, r.key) for r in part.records if r.gone])


class DeltaRun:
    def __init__(self) -> None:
        self._own: deque[Delta] = deque()
        self._inherited = 0  # deltas that an earlier owner wrote; we have not read them
        self.count = 0
        self._size = 0

    def start(self, count: int, size: int) -> None:
        """After a claim: so many deltas are in the file."""
        self._own.clear()
        self._inherited = self.count = count
        self._size = size

    def add(self, commit: Commit) -> None:
        if commit.delta:
            self._own.append(Delta(commit.head.commits, commit.records, len(commit.delta)))
            self.count += 1
            self._size += len(commit.delta)

    @property
    def full(self) -> bool:
        """All of them should be moved now: they are large, or an earlier owner's."""
        return self._size > DELTA_BYTES_MAX or (bool(self._inherited) and self.count > DELTAS_MAX)

    def all(self, read_all: Callable[[], list[Record]]) -> Part:
        if self._inherited:
            return Part(2**62, self.count, self._size, read_all())
        return self._oldest(self.count)

    def few(self) -> Part:
        """What the next commit takes along: nothing, as long as there are not many."""
        many = self.count >= DELTAS_MAX and not self._inherited
        return self._oldest(DELTAS_PER_COMMIT if many else 0)

    def _oldest(self, most: int) -> Part:
        part = list(islice(self._own, most))
        if not part:
            return NOTHING
        newest: dict[tuple[str, str], Record] = {}
        for delta in part:
            newest.update(zip(map(_NAME, delta.records), delta.records, strict=True))
        return Part(part[-1].id, len(part), sum(delta.size for delta in part), newest.values())

    def moved(self, part: Part) -> None:
        for _ in range(min(part.deltas, len(self._own))):
            self._own.popleft()
        if part.deltas:
            self._inherited = 0
        self.count -= part.deltas
        self._size -= part.size
