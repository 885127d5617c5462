"""The run of deltas in a state file, as its owner remembers it: which of them to move to the base.

Point reads look into every delta, so their number and bytes are bounded, and the oldest are moved.
Of these only the agents are written that no later delta has: a busy fleet changes the same agents
again and again, so that most of what is old is gone by itself. Of many large deltas the older half
is moved; of many small ones, which come from a quiet fleet that minds a pause, a few at a time.

Blocks are another matter: to move them, whole buckets of the base are written, mostly all of them.
So they wait until the deltas are about as large as that, or very many, and are moved together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Commit, Record

DELTA_BYTES_MAX = 4 * 1024 * 1024
DELTAS_MAX = 256
DELTAS_AT_ONCE = 32
BASE_BYTES_PER_DELTA = 64 * 1024  # of blocks: so many more deltas may wait

_NAME = itemgetter(0, 1)  # agent and key of a record


class Delta(NamedTuple):
    id: int
    records: list[Record]
    size: int


class Part(NamedTuple):
    """The oldest deltas, to be moved in one transaction, and what is in them, from old to new."""

    last_id: int
    deltas: int
    size: int
    items: Callable[[], Iterable[Record | Block]]


class DeltaRun:
    def __init__(self) -> None:
        self._own: deque[Delta] = deque()
        self._inherited = 0  # deltas that have to be read again: those of an earlier owner, blocks
        self.count = 0
        self._size = 0
        self._base: Mapping[str, int] = {}  # bytes of blocks in the base, by class
        self._changed: set[str] = set()  # those of the classes that the deltas change

    def start(self, count: int, size: int, base: Mapping[str, int]) -> None:
        """After a claim: so many deltas are in the file, and so many bytes of blocks."""
        self._own.clear()
        self._inherited = self.count = count
        self._size = size
        self._base = base
        self._changed = set(base) if count else set()

    def add(self, commit: Commit) -> None:
        if not commit.delta:
            return
        self.count += 1
        self._size += len(commit.delta)
        self._changed |= {block.agent for block in commit.blocks}
        if self._base:
            self._changed |= {record.agent for record in commit.records} & self._base.keys()
        if self._inherited or self._changed:
            self._inherited = self.count  # what changes blocks is moved as a whole
            self._own.clear()
        else:
            self._own.append(Delta(commit.head.commits, commit.records, len(commit.delta)))

    @property
    def full(self) -> bool:
        base = sum(self._base.get(agent, 0) for agent in self._changed)
        most = max(DELTAS_MAX, base // BASE_BYTES_PER_DELTA)
        return self._size > max(DELTA_BYTES_MAX, base) or self.count > most

    def next_part(self, read_all: Callable[[], Iterable[Record | Block]]) -> Part:
        if self._inherited:
            return Part(2**62, self.count, self._size, read_all)
        most = self._oldest()
        part, rest = list(islice(self._own, most)), islice(self._own, most, None)
        newest: dict[tuple[str, str], Record] = {}
        for delta in part:
            newest.update(zip(map(_NAME, delta.records), delta.records, strict=True))
        for delta in rest:
            for name in newest.keys() & set(map(_NAME, delta.records)):
                del newest[name]
            if not newest:
                break
        return Part(part[-1].id, most, sum(delta.size for delta in part), newest.values)

    def _oldest(self) -> int:
        """How many of the oldest go: enough to halve the bytes, or a few."""
        if self._size <= DELTA_BYTES_MAX:
            return min(self.count, DELTAS_AT_ONCE)
        left, most = self._size, 0
        for delta in self._own:
            left -= delta.size
            most += 1
            if left <= DELTA_BYTES_MAX // 2:
                break
        return most

    def moved(self, part: Part, base: Mapping[str, int]) -> None:
        for _ in range(min(part.deltas, len(self._own))):
            self._own.popleft()
        self._inherited = 0
        self.count -= part.deltas
        self._size -= part.size
        self._base = base
        self._changed.clear()
