"""The run of deltas in a state file, as its owner remembers it: which of them to move to the base.

Point reads look into every delta, so their number and bytes are bounded, and the oldest are moved.
Of these only the agents are written that no later delta has: a busy fleet changes the same agents
again and again, so that most of what is old is gone by itself. Of many large deltas the older half
is moved; of many small ones, which come from a quiet fleet that minds a pause, a few at a time.

Blocks are another matter: to move them, whole buckets of the base are written, mostly all of them.
So they wait until the deltas are about as large as that, or very many. Then the buckets are swept:
some are made anew after each commit, and with the last of them the deltas go that were there when
it began. Meanwhile the base is newer than the oldest deltas, and that is no harm: whoever reads
lays all of them over it, from old to new, so the newest change of an agent wins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from holdfast.stepping.blocks import BUCKETS, Block, buckets_in
from holdfast.stepping.commit import Commit, Record

DELTA_BYTES_MAX = 4 * 1024 * 1024
SWEPT_DELTA_BYTES_MAX = 16 * 1024 * 1024  # with blocks, which point reads need not take apart
SWEEP_BYTES_MIN = 32 * 1024  # of buckets made anew in one step, about
DELTAS_MAX = 256
DELTAS_AT_ONCE = 32
BASE_BYTES_PER_DELTA = 64 * 1024  # of blocks: so many more deltas may wait

_NAME = itemgetter(0, 1)  # agent and key of a record


class Delta(NamedTuple):
    id: int
    records: list[Record]
    size: int


class Part(NamedTuple):
    """One transaction: `deltas` of the oldest go, and what is in them, from old to new, is moved;
    or `places` of blocks are made anew, and deltas go only with the last of a sweep."""

    last_id: int
    deltas: int
    size: int
    items: Callable[[], Iterable[Record | Block]] = tuple
    places: Sequence[tuple[str, int]] = ()  # class and bucket


class Sweep(NamedTuple):
    """The deltas that were there when it began, and the places left to be made anew."""

    last_id: int
    deltas: int
    size: int
    left: deque[tuple[str, int]]


class DeltaRun:
    def __init__(self) -> None:
        self._own: deque[Delta] = deque()
        self._unread = 0  # deltas that have to be read again: those of an earlier owner, blocks
        self.count = 0
        self._size = 0
        self._base: Mapping[str, int] = {}  # bytes of blocks in the base, by class
        self._changed: set[str] = set()  # classes with blocks that the deltas change
        self._dirty: dict[str, int] = {}  # buckets changed by blocks since the last sweep began
        self._obscure = False  # some deltas change blocks in a way that `_dirty` does not tell
        self._sweep: Sweep | None = None
        self._last_id = 0
        self._since_step = 0  # bytes that came since the last step of a sweep

    def start(self, count: int, size: int, base: Mapping[str, int]) -> None:
        """After a claim: so many deltas are in the file, and so many bytes of blocks."""
        self._own.clear()
        self._unread = self.count = count
        self._size = size
        self._base = base
        self._changed = set(base) if count else set()
        self._dirty.clear()
        self._obscure = count > 0
        self._sweep = None

    def add(self, commit: Commit) -> None:
        if not commit.delta:
            return
        self.count += 1
        self._size += len(commit.delta)
        self._since_step = len(commit.delta) + (self._since_step if self._sweep else 0)
        self._last_id = commit.head.commits
        self._changed |= {block.agent for block in commit.blocks}
        if self._base:
            self._changed |= {record.agent for record in commit.records} & self._base.keys()
        if self._unread or self._changed:
            self._note_blocks(commit)
        else:
            self._own.append(Delta(commit.head.commits, commit.records, len(commit.delta)))

    def _note_blocks(self, commit: Commit) -> None:
        self._unread = self.count
        if self._own or commit.records:  # rows among them have to be read again
            self.obscure()
        self._own.clear()
        for block in commit.blocks:
            self._dirty[block.agent] = self._dirty.get(block.agent, 0) | block.buckets

    def obscure(self) -> None:
        """No sweep, but everything at once: somebody else's deltas, rows, a class in no columns."""
        self._obscure = True
        self._sweep = None

    @property
    def full(self) -> bool:
        base = sum(self._base.get(agent, 0) for agent in self._changed)
        most = max(DELTAS_MAX, base // BASE_BYTES_PER_DELTA)
        swept = self._changed and not self._obscure
        size = max(SWEPT_DELTA_BYTES_MAX if swept else DELTA_BYTES_MAX, base)
        return self._sweep is not None or self._size > size or self.count > most

    def next_part(self, read_all: Callable[[], Iterable[Record | Block]]) -> Part:
        if self._unread:
            everything = Part(2**62, self.count, self._size, read_all)
            return everything if self._obscure else self._next_step()
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

    def _next_step(self) -> Part:
        """So large that the sweep outruns the deltas that come meanwhile."""
        if self._sweep is None:
            places = ((agent, b) for agent, mask in self._dirty.items() for b in buckets_in(mask))
            self._sweep = Sweep(self._last_id, self.count, self._size, deque(places))
            self._dirty.clear()
        last_id, deltas, size, left = self._sweep
        bucket_bytes = max(sum(self._base.values()), self._size) // BUCKETS + 1
        most = max(SWEEP_BYTES_MIN, 2 * self._since_step) // bucket_bytes + 1
        if most < len(left):
            return Part(last_id, 0, 0, places=tuple(islice(left, most)))
        return Part(last_id, deltas, size, places=tuple(left))

    def moved(self, part: Part, base: Mapping[str, int]) -> None:
        self._base = base
        self._since_step = 0
        self.count -= part.deltas
        self._size -= part.size
        if self._sweep is not None:
            for _ in part.places:
                self._sweep.left.popleft()
            if self._sweep.left:
                return
            self._sweep = None
            self._changed = set(self._dirty)
        else:
            self._obscure = False
            self._changed.clear()
            self._dirty.clear()
        self._unread = self.count if self._changed else 0
        for _ in range(min(part.deltas, len(self._own))):
            self._own.popleft()
