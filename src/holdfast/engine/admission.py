"""Admission: which events of a parcel are new. Pure decisions against a small ledger of rows.

Per source the ledger keeps the highest number seen and a bitmap of the WINDOW numbers below it, in
chunks, so that an append rewrites only the chunks it touches. A number inside the window is known
exactly; one below it can no longer be told apart from a repeat and is refused to the producer.

Which sources are known, and how many may be, is in `sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import compress
from typing import Protocol, cast, overload

from holdfast.engine.port import Limits, Parcel, Taken
from holdfast.engine.sources import Sources, known, make_room, renewed
from holdfast.errors import OutOfOrder, TooOld, UsageError
from holdfast.stepping.frame import Frame
from holdfast.stepping.lane import LANE, partly_urgent, wholly_urgent

CHUNK = 4096
CHUNKS = 32
WINDOW = CHUNK * CHUNKS
SEQ_MAX = 2**62
_DIGITS = b"01" + bytes(254)  # flags as the digits of a number


class Ledger(Sources, Protocol):
    """The rows that admission reads and writes, in the transaction that appends."""

    def chunk(self, name: str, number: int) -> int: ...
    def put_chunk(self, name: str, number: int, bits: int) -> None: ...
    def drop_chunks_below(self, name: str, number: int) -> None: ...
    def mark(self, source: str) -> int: ...
    def put_mark(self, source: str, last: int) -> None: ...
    def last_of_key(self, name: str, key: str) -> int: ...
    def put_last_of_key(self, name: str, key: str, seq: int) -> None: ...


Write = Callable[[], None]


class Picked(Sequence[int]):
    """Of the numbers from `first` on those whose flag is 1: a send that was split by partition.

    As many numbers as a send has are looked at by the million, so none of it happens one by one.
    """

    def __init__(self, first: int, flags: bytes) -> None:
        self.first = first
        self.flags = flags
        self._count = flags.count(1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return compress(range(self.first, self.first + len(self.flags)), self.flags)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if at == 0:
            return self.first + self.flags.index(1)
        if at == -1:
            return self.first + self.flags.rindex(1)
        return self._all[at]

    @cached_property
    def _all(self) -> list[int]:
        return list(self)


def admit(parcel: Parcel, ledger: Ledger, stamp: float, limits: Limits) -> list[int] | None:
    """Indexes of the rows that are new, in order; None for all of them (the usual case).

    A refusal is raised before the ledger is changed, apart from idle sources that are forgotten.
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
    fresh = _admit_numbers(parcel, parcel.source, ledger, stamp, limits, writes)
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
    limits: Limits,
    writes: list[Write],
) -> list[int] | None:
    seqs = parcel.seqs
    low, high = _ends(seqs)
    if low < 0 or high > SEQ_MAX:
        raise UsageError(f"sequence number {low if low < 0 else high}: give 0 to {SEQ_MAX}")
    row = known(ledger, name, stamp)
    if row is None:
        make_room(ledger, name, stamp, limits)
    before = -1 if row is None else row.top
    floor = before - WINDOW  # what was forgotten before this parcel came
    if low <= floor:
        raise TooOld(
            f"source {name!r} sends number {low}, below its dedupe window which starts at "
            f"{floor + 1}: it cannot be told from a repeat; send it under a new source name"
        )
    stale: set[int] = set()
    for number, mask, members in _by_chunk(seqs):
        seen = 0 if row is None else ledger.chunk(name, number)
        if seen & mask:
            stale.update(i for i in members if seen >> (seqs[i] % CHUNK) & 1)
        if seen | mask != seen:
            writes.append(partial(ledger.put_chunk, name, number, seen | mask))
    top = max(before, high)
    if row is not None and top // CHUNK != before // CHUNK:
        writes.append(partial(ledger.drop_chunks_below, name, (top - WINDOW) // CHUNK))
    after = renewed(row, top, stamp)
    if after != row:
        writes.append(partial(ledger.put_source, name, after, row))
    return [i for i in range(len(seqs)) if i not in stale] if stale else None


def _ends(seqs: range | Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest; where they ascend without looking at those between."""
    if isinstance(seqs, Picked) or (isinstance(seqs, range) and seqs.step > 0):
        return seqs[0], seqs[-1]
    return min(seqs), max(seqs)


def _by_chunk(seqs: range | Sequence[int]) -> list[tuple[int, int, Sequence[int]]]:
    """(chunk number, mask of the numbers in it, indexes of the rows in it)."""
    if isinstance(seqs, Picked):
        return _picked_by_chunk(seqs)
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


def _range_by_chunk(seqs: range) -> list[tuple[int, int, Sequence[int]]]:
    result: list[tuple[int, int, Sequence[int]]] = []
    at = seqs.start
    while at < seqs.stop:
        number, offset = divmod(at, CHUNK)
        length = min(CHUNK - offset, seqs.stop - at)
        mask = ((1 << length) - 1) << offset
        result.append((number, mask, range(at - seqs.start, at - seqs.start + length)))
        at += length
    return result


def _picked_by_chunk(seqs: Picked) -> list[tuple[int, int, Sequence[int]]]:
    result: list[tuple[int, int, Sequence[int]]] = []
    before = 0
    for number, _, rows in _range_by_chunk(range(seqs.first, seqs.first + len(seqs.flags))):
        flags = seqs.flags[rows[0] : rows[-1] + 1]
        count = flags.count(1)
        if count:
            bits = int(flags[::-1].translate(_DIGITS), 2)  # most significant bit first
            mask = bits << (seqs.first + rows[0]) % CHUNK
            result.append((number, mask, range(before, before + count)))
            before += count
    return result


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


def taken_at(frame: Frame, new: int, following: int, urgent: int, stamp: float) -> Taken:
    """Of the frame that came, and where inbox and lane go on behind what was new of it."""
    if wholly_urgent(frame) and new == frame.count:
        return Taken(urgent, new, stamp)
    repeats_there = new < frame.count and urgent > LANE
    both = partly_urgent(frame) or repeats_there
    return Taken(following, new, stamp, urgent if both else 0)
