"""Admission: which events of a parcel are new. Pure decisions against a small ledger of rows.

Per source the ledger keeps the highest number seen and a bitmap of the WINDOW numbers below it, in
chunks, so that an append rewrites only the chunks it touches. A number inside the window is known
exactly; one below it can no longer be told apart from a repeat and is refused to the producer.

Sources whose name starts with "~" belong to handles that were given none. A handle never resends
after ANONYMOUS_SECONDS, so its source may be forgotten then; named sources never are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, overload

from holdfast.engine.port import Parcel
from holdfast.errors import OutOfOrder, TooManySources, TooOld, UsageError

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array

CHUNK = 4096
CHUNKS = 32
WINDOW = CHUNK * CHUNKS
ANONYMOUS_SECONDS = 600.0
SEQ_MAX = 2**62


class SourceRow(NamedTuple):
    top: int
    stamp: float


class Ledger(Protocol):
    """The rows that admission reads and writes, in the transaction that appends."""

    def source(self, name: str) -> SourceRow | None: ...
    def put_source(self, name: str, row: SourceRow) -> None: ...
    def source_count(self) -> int: ...
    def forget_idle_anonymous(self, before: float) -> int: ...
    def chunk(self, name: str, number: int) -> int: ...
    def put_chunk(self, name: str, number: int, bits: int) -> None: ...
    def drop_chunks_below(self, name: str, number: int) -> None: ...
    def mark(self, source: str) -> int: ...
    def put_mark(self, source: str, last: int) -> None: ...
    def last_of_key(self, name: str, key: str) -> int: ...
    def put_last_of_key(self, name: str, key: str, seq: int) -> None: ...


Write = Callable[[], None]
Chunks = list[tuple[int, int, Sequence[int]]]  # number, mask of the numbers in it, their rows


class Ascending(Sequence[int]):
    """Numbers that rise, as an array: those of a large send that went to one partition."""

    def __init__(self, first: int, offsets: Array) -> None:
        self._first = first
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return Ascending(self._first, self._offsets[index])
        return self._first + int(self._offsets[index])

    def by_chunk(self) -> Chunks:
        import numpy

        numbers = self._offsets + self._first
        chunks = range(self[0] // CHUNK, self[-1] // CHUNK + 1)
        ends = numpy.searchsorted(numbers, [(n + 1) * CHUNK for n in chunks]).tolist()
        found: Chunks = []
        for number, start, end in zip(chunks, [0, *ends], ends, strict=False):
            if end > start:
                flags = numpy.zeros(CHUNK, bool)
                flags[numbers[start:end] - number * CHUNK] = True
                packed = numpy.packbits(flags, bitorder="little").tobytes()
                mask = int.from_bytes(packed, "little")
                found.append((number, mask, range(start, end)))
        return found


def admit(parcel: Parcel, ledger: Ledger, stamp: float, sources_max: int) -> list[int] | None:
    """Indexes of the rows that are new, in order; None for all of them (the usual case).

    A refusal is raised before the ledger is changed.
    """
    if parcel.mark is not None:
        return _admit_messages(parcel, ledger)
    if parcel.source is None or parcel.frame.count == 0:
        return None
    if len(parcel.seqs) != parcel.frame.count:
        raise UsageError(
            f"{len(parcel.seqs)} sequence numbers for {parcel.frame.count} events: give one each"
        )
    writes: list[Write] = []
    fresh = _admit_numbers(parcel, parcel.source, ledger, stamp, sources_max, writes)
    if "previous" in parcel.frame:
        _check_previous(parcel, parcel.source, ledger, fresh, writes)
    for write in writes:
        write()
    return fresh


def _admit_messages(parcel: Parcel, ledger: Ledger) -> list[int] | None:
    assert parcel.mark is not None
    source, first = parcel.mark
    last = ledger.mark(source)
    count = parcel.frame.count
    if first > last + 1:
        raise OutOfOrder(f"messages from {source} continue at {first}, expected {last + 1}")
    ledger.put_mark(source, max(last, first + count - 1))
    if first == last + 1:
        return None
    return list(range(min(count, last + 1 - first), count))


def _admit_numbers(
    parcel: Parcel,
    name: str,
    ledger: Ledger,
    stamp: float,
    sources_max: int,
    writes: list[Write],
) -> list[int] | None:
    seqs = parcel.seqs
    rising = isinstance(seqs, Ascending) or (isinstance(seqs, range) and seqs.step > 0)
    low, high = (seqs[0], seqs[-1]) if rising else (min(seqs), max(seqs))
    if low < 0 or high > SEQ_MAX:
        raise UsageError(f"sequence number {low if low < 0 else high}: give 0 to {SEQ_MAX}")
    row = ledger.source(name)
    if row is None:
        _make_room(ledger, stamp, sources_max)
        row = SourceRow(-1, 0.0)
    floor = row.top - WINDOW  # what was forgotten before this parcel came
    if low <= floor:
        raise TooOld(
            f"source {name!r} sends number {low}, below its dedupe window which starts at "
            f"{floor + 1}: it cannot be told from a repeat; send it under a new source name"
        )
    stale: set[int] = set()
    for number, mask, members in _by_chunk(seqs):
        known = ledger.chunk(name, number) if row.top >= 0 else 0
        if known & mask:
            stale.update(i for i in members if known >> (seqs[i] % CHUNK) & 1)
        if known | mask != known:
            writes.append(partial(ledger.put_chunk, name, number, known | mask))
    top = max(row.top, high)
    if top // CHUNK != row.top // CHUNK:
        writes.append(partial(ledger.drop_chunks_below, name, (top - WINDOW) // CHUNK))
    if top != row.top or stamp > row.stamp + ANONYMOUS_SECONDS / 10:
        writes.append(partial(ledger.put_source, name, SourceRow(top, stamp)))
    return [i for i in range(len(seqs)) if i not in stale] if stale else None


def _by_chunk(seqs: range | Sequence[int]) -> Chunks:
    if isinstance(seqs, Ascending):
        return seqs.by_chunk()
    if isinstance(seqs, range) and seqs.step == 1:
        return _range_by_chunk(seqs)
    members: dict[int, list[int]] = {}
    flags: dict[int, bytearray] = {}
    if len(set(seqs)) != len(seqs):
        raise UsageError("a sequence number occurs twice in one send")
    for i, seq in enumerate(seqs):
        number, bit = divmod(seq, CHUNK)
        if number not in flags:
            flags[number] = bytearray(b"0" * CHUNK)
            members[number] = []
        flags[number][CHUNK - 1 - bit] = 49  # "1": most significant bit first
        members[number].append(i)
    return [(n, int(flags[n], 2), members[n]) for n in sorted(flags)]


def _range_by_chunk(seqs: range) -> Chunks:
    result: Chunks = []
    at = seqs.start
    while at < seqs.stop:
        number, offset = divmod(at, CHUNK)
        length = min(CHUNK - offset, seqs.stop - at)
        mask = ((1 << length) - 1) << offset
        result.append((number, mask, range(at - seqs.start, at - seqs.start + length)))
        at += length
    return result


def _make_room(ledger: Ledger, stamp: float, sources_max: int) -> None:
    if ledger.source_count() < sources_max:
        return
    # The stamp of a source that was used is renewed at every tenth of that time only.
    if ledger.forget_idle_anonymous(stamp - ANONYMOUS_SECONDS * 1.1):
        return
    raise TooManySources(
        f"{sources_max} sources have sent here, the bound (none is forgotten): reuse source "
        "names, or raise sources_max in the engine URL"
    )


def _check_previous(
    parcel: Parcel, name: str, ledger: Ledger, fresh: list[int] | None, writes: list[Write]
) -> None:
    """An ordered source names the number before, per key: a gap is refused."""
    keys = cast(list[str], parcel.frame.values("key"))
    previous = cast(list[int], parcel.frame.values("previous"))
    here: dict[str, int] = {}
    for i in range(len(keys)) if fresh is None else fresh:
        key, seq = keys[i], parcel.seqs[i]
        if seq == 0:
            raise UsageError(
                f"source {name!r}: an ordered source numbers from 1; 0 means none before"
            )
        last = here.get(key, ledger.last_of_key(name, key))
        if previous[i] != last:
            raise OutOfOrder(
                f"source {name!r} sends {seq} for {key} after {previous[i]}, but the last one "
                f"here is {last}: send what comes after {last}"
            )
        here[key] = seq
        writes.append(partial(ledger.put_last_of_key, name, key, seq))
