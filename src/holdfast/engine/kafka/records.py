"""What stands in the records of our topics.

Inbox: one frame, as producers make them; or several that were appended together, one behind the
other, with a header `frames` that says where each ends and which of them are messages.
Changelog: msgpack, one commit or claim, in as many records of one transaction as it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec

from holdfast.engine.admission import Picked
from holdfast.engine.deaths import Deaths
from holdfast.engine.port import Mark, Parcel
from holdfast.errors import DamagedData, NewerFormat
from holdfast.stepping import fields
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import (
    Answer,
    Call,
    Commit,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Outgoing,
)
from holdfast.stepping.frame import Column, Frame
from holdfast.stepping.lane import LANE, in_lane, partly_urgent, wholly_urgent
from holdfast.stepping.records import blocks_in, rows_in
from holdfast.stepping.rows import select

# Of the changelog: since 2 heads know ground stops, and fates are more than undone; since 3 heads
# know the urgent lane.
FORMAT = 3
PART_BYTES_MAX = 900_000  # of a changelog record: brokers take a million unless told otherwise
BUNDLE_BYTES_MAX = 32 * 1024 * 1024  # of several parcels; one alone may be larger
PICKED_LEAST = 64  # numbers from which on it pays
FRAMES = "frames"
PART = "part"

Header = tuple[str, str | bytes | None]
Headers = dict[str, str | bytes | None] | list[Header] | None  # as the client library has them
_pack = msgspec.msgpack.Encoder().encode


def header(headers: Headers, name: str) -> bytes | None:
    found = dict(headers or ()).get(name)
    return found.encode() if isinstance(found, str) else found


# ---------------------------------------------------------------- inbox


class _Place(NamedTuple):
    """Of one frame among several: its length, and the mark it has if it is a message."""

    length: int
    mark: tuple[str, int] | None


_places = msgspec.msgpack.Decoder(list[_Place]).decode


def pack_parcels(parcels: Sequence[Parcel]) -> tuple[bytes, list[Header]]:
    if len(parcels) == 1 and parcels[0].mark is None:
        return parcels[0].encoded, []
    places = [_Place(len(p.encoded), p.mark) for p in parcels]
    return b"".join(p.encoded for p in parcels), [(FRAMES, _pack(places))]


def bundles(parcels: Sequence[Parcel], wanted: Sequence[int]) -> Iterator[list[int]]:
    """Which of them share a record: all that have events, as long as they fit into one."""
    bundle: list[int] = []
    size = 0
    for i in wanted:
        parcel = parcels[i]
        if not parcel.frame.count:
            continue
        if bundle and (size + len(parcel.encoded) > BUNDLE_BYTES_MAX or len(bundle) >= PARCELS_MAX):
            yield bundle
            bundle, size = [], 0
        bundle.append(i)
        size += len(parcel.encoded)
    if bundle:
        yield bundle


def parts_of(out: Outgoing) -> Iterator[Outgoing]:
    """The same messages in records that every topic takes: a commit may send any number of them."""
    if len(out.frame) <= PART_BYTES_MAX or out.count == 1:
        yield out
        return
    frame, half = Frame.decode(out.frame), out.count // 2
    for rows in (range(half), range(half, out.count)):
        part = select(frame, rows).encode()
        yield from parts_of(Outgoing(out.destination, out.first + rows.start, len(rows), part))


def pack_messages(source: str, out: Outgoing) -> list[Header]:
    """The header of messages that a commit sends: `source` is the incarnation of the sender."""
    return [(FRAMES, _pack([_Place(len(out.frame), (source, out.first))]))]


@dataclass(frozen=True)
class Arrived(Parcel):
    """A parcel as it stands in an inbox topic."""

    stamp: float = 0.0  # when the broker took it
    offset: int = 0
    index: int = 0  # among those of the same record


PARCELS_MAX = 1 << 15  # in a record
_INDEX_BITS = 16


def following_of(offset: int, index: int, frame: Frame) -> int:
    """`Taken.next` of a parcel: which it is, until its position is known."""
    place = (offset << _INDEX_BITS) + index + 1
    return LANE + place if wholly_urgent(frame) else place


def urgent_following_of(offset: int, index: int, frame: Frame) -> int:
    """`Taken.urgent` of it, in the same way."""
    return LANE + (offset << _INDEX_BITS) + index + 1 if partly_urgent(frame) else 0


def offset_in(following: int) -> int:
    place = following - LANE if in_lane(following) else following
    return (place - 1) >> _INDEX_BITS


def unpack_parcels(
    value: bytes | None, headers: Headers, stamp: float, offset: int
) -> list[Arrived]:
    """Raises DamagedData for what is none of ours."""
    if not value:
        raise DamagedData("it is empty")
    packed = header(headers, FRAMES)
    try:
        places = [_Place(len(value), None)] if packed is None else _places(packed)
    except msgspec.MsgspecError as error:
        raise DamagedData(f"its header {FRAMES!r} cannot be read ({error})") from None
    if sum(place.length for place in places) != len(value):
        raise DamagedData("its frames do not end where its header says")
    found, start = [], 0
    for index, place in enumerate(places):
        encoded = value[start : start + place.length]
        start += place.length
        found.append(_arrived(encoded, place.mark, stamp, offset, index))
    return found


def _arrived(
    encoded: bytes, mark: tuple[str, int] | None, stamp: float, offset: int, index: int
) -> Arrived:
    frame = Frame.decode(encoded)
    if not isinstance(frame.constant("origin"), str) or "key" not in frame:
        raise DamagedData("it has no events in it")
    source = frame.constant("source")
    named = isinstance(source, str) and mark is None
    return Arrived(
        frame,
        encoded,
        source=cast(str, source) if named else None,
        seqs=_numbers(frame) if named else range(0),
        mark=Mark(*mark) if mark is not None else None,
        external=False,  # who sent it has been told that it is taken
        stamp=stamp,
        offset=offset,
        index=index,
    )


def _numbers(frame: Frame) -> range | Sequence[int]:
    """The sequence numbers of a frame, in a form that admission need not look at one by one."""
    column = frame.column("seq")
    if column.kind == "sequence":
        first = msgspec.msgpack.decode(column.data, type=int)
        return range(first, first + frame.count)
    if column.kind in ("i64", "ints") and frame.count >= PICKED_LEAST:
        picked = _picked(column)
        if picked is not None:
            return picked
    return cast(list[int], frame.values("seq"))


def _picked(column: Column) -> Picked | None:
    """Ascending numbers that are not far apart, as those of a send that was split by partition.

    With numpy, where there is one: a column has tens of thousands of them.
    """
    try:
        import numpy
    except ImportError:
        return None
    base = 0
    if column.kind == "i64":
        numbers = numpy.frombuffer(column.data, "<i8")
    else:
        base, width, offsets = fields.parts_of_ints(column.data)
        numbers = numpy.frombuffer(offsets, f"<u{width}")
    low, span = int(numbers[0]), int(numbers[-1]) - int(numbers[0]) + 1
    if not len(numbers) <= span <= 8 * len(numbers) or not (numbers[1:] > numbers[:-1]).all():
        return None
    flags = numpy.zeros(span, numpy.uint8)
    flags[numbers - numbers[0]] = 1
    return Picked(base + low, flags.tobytes())


# ---------------------------------------------------------------- changelog


class Claimed(msgspec.Struct, tag="claim", array_like=True, frozen=True):
    """From here on this owner commits. Who finds a later one than its own has lost."""

    epoch: int
    generation: int
    owner: str  # for people
    deaths: Deaths


class Committed(msgspec.Struct, tag="commit", array_like=True, frozen=True):
    """A commit without what its delta says already, and without its messages."""

    epoch: int
    before: Head
    head: Head
    delta: bytes
    sent: list[tuple[int, int, int]]  # destination, first, count of the messages
    sent_next: dict[int, int]
    issued: Issued | None
    answers: list[Answer]
    letters: list[Letter]
    redriven: list[int]
    journalled: Journalled | None
    calls: list[Call]
    closed: list[str]
    fates: list[Fate]
    condemned: str

    @classmethod
    def of(cls, epoch: int, commit: Commit) -> Committed:
        return cls(
            epoch,
            commit.before,
            commit.head,
            commit.delta,
            [(out.destination, out.first, out.count) for out in commit.outgoing],
            commit.sent_next,
            commit.issued,
            commit.answers,
            commit.letters,
            commit.redriven,
            commit.journalled,
            commit.calls,
            commit.closed,
            commit.fates,
            commit.condemned,
        )

    def commit(self) -> Commit:
        frame = Frame.decode(self.delta) if self.delta else None
        blocks: list[Block] = blocks_in(frame) if frame else []
        return Commit(
            before=self.before,
            head=self.head,
            records=rows_in(frame) if frame else [],
            blocks=blocks,
            delta=self.delta,
            outgoing=[Outgoing(to, first, count, b"") for to, first, count in self.sent],
            sent_next=self.sent_next,
            issued=self.issued,
            answers=self.answers,
            letters=self.letters,
            redriven=self.redriven,
            journalled=self.journalled,
            calls=self.calls,
            closed=self.closed,
            fates=self.fates,
            condemned=self.condemned,
        )


Entry = Claimed | Committed
_entry = msgspec.msgpack.Decoder(Entry).decode


def pack_entry(entry: Entry) -> Iterator[tuple[bytes, list[Header]]]:
    """The records that it takes, in order: each says which it is, of how many."""
    packed = _pack(entry)
    count = max(1, -(-len(packed) // PART_BYTES_MAX))
    for number in range(count):
        part = packed[number * PART_BYTES_MAX : (number + 1) * PART_BYTES_MAX]
        yield part, [(PART, _pack([FORMAT, number, count]))]


class Assembly:
    """The records of a changelog, put together again."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, value: bytes | None, headers: Headers) -> Entry | None:
        """The entry that this record completes, if it does."""
        part = header(headers, PART)
        if part is None or value is None:
            raise DamagedData("it is none of ours")
        try:
            format, number, count = msgspec.msgpack.decode(part, type=tuple[int, int, int])
        except msgspec.MsgspecError as error:
            raise DamagedData(f"its header {PART!r} cannot be read ({error})") from None
        if format > FORMAT:
            raise NewerFormat(
                f"it has format {format}, this release reads {FORMAT}: install the newer one"
            )
        if number == 0:
            self._parts = []  # the beginning of one whose rest was cut off by retention
        if number != len(self._parts):
            if not self._parts:
                return None
            raise DamagedData(f"part {number} follows where part {len(self._parts)} should")
        self._parts.append(value)
        if len(self._parts) < count:
            return None
        packed, self._parts = b"".join(self._parts), []
        try:
            return cast(Entry, _entry(packed))
        except msgspec.MsgspecError as error:
            raise DamagedData(f"it cannot be read ({error})") from None
