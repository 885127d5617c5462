"""Blocks: many agents of one class as columns, which nobody takes apart on the way to the disk.

A block is an encoded frame with one row per agent:

    agent, schema               constants
    key                         kind "names"; every key occurs once
    version, updated            i64; f64 or a constant
    cols.<schema>[.<field>]     the states, as the payloads of frames
    timers                      a constant: [[name, [event schema ids]], …]
    t.<k>.due, t.<k>.period     of timer k: f64, 0.0 where it is not set; or a constant
    t.<k>.event                 codes: the schema id of its event
    t.<k>.<schema>[.<field>]    its payload, in every row; of no meaning where it is another's
    buckets                     opaque: 64 bits that say which buckets the keys are in

A block holds only agents that have nothing beside their state but such timers. Any other is a
Record. Nothing here needs numpy: arrays come in as anything that has a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import msgspec

from holdfast.errors import DamagedData
from holdfast.model.keys import slot_of
from holdfast.stepping.frame import Column, Frame, const, opaque
from holdfast.stepping.names import row_of
from holdfast.stepping.record import Record
from holdfast.stepping.rows import read_raw_payload

if TYPE_CHECKING:
    from array import array

    from holdfast.stepping.arrays import Array

    Numbers = Array | array[int] | array[float] | bytes  # anything with a buffer
BUCKETS = 64
SLOTS_PER_BUCKET = 16
EVERY_BUCKET = (1 << BUCKETS) - 1

P = TypeVar("P", bound=Hashable)
_pack = msgspec.msgpack.Encoder().encode
# A Record from a row without a call into Python for each of them.
_record = cast("type[Record]", partial(tuple.__new__, Record))


@dataclass(frozen=True, slots=True)
class Block:
    agent: str
    schema: int  # of the states
    count: int
    buckets: int  # that the keys are in, one bit for each
    encoded: bytes

    @classmethod
    def of(cls, frame: Frame, encoded: bytes) -> Block:
        agent, schema = frame.constant("agent"), frame.constant("schema")
        if not isinstance(agent, str) or not isinstance(schema, int):
            raise DamagedData("a block does not say whose agents it holds")
        buckets = int.from_bytes(frame.opaque("buckets"), "little")
        return cls(agent, schema, frame.count, buckets, encoded)

    @classmethod
    def decode(cls, encoded: bytes) -> Block:
        return cls.of(Frame.decode(encoded), encoded)

    @property
    def frame(self) -> Frame:
        """Decoded anew at every look."""
        return Frame.decode(self.encoded)

    def __repr__(self) -> str:
        return f"Block({self.agent}, {self.count} agents)"


class TimerColumns(NamedTuple):
    """One timer of all agents of a block, set or not."""

    name: str
    schemas: Sequence[int]  # of the events it may bring
    due: Numbers | float  # f64 per row, or the same in all; 0.0 where it is not set
    period: Numbers | float  # 0.0 where it does not repeat
    event: Numbers | None  # u8 per row: which of `schemas`; None: the first in all
    payloads: Mapping[int, Mapping[str, Column]]  # by schema id, as `payload_columns` makes them


def make_block(
    agent: str,
    schema: int,
    keys: Column,
    versions: Numbers,
    updated: Numbers | float,
    payload: Mapping[str, Column],
    timers: Sequence[TimerColumns] = (),
    *,
    buckets: int,
) -> Block:
    """A block from columns: `keys` of kind "names", `payload` as `payload_columns` makes it.

    `versions` is i64, `updated` f64. `buckets` may have more bits than there are keys for.
    """
    version = _numbers("i64", versions)
    columns = {
        "agent": const(agent),
        "schema": const(schema),
        "key": keys,
        "version": version,
        "updated": _numbers("f64", updated),
        **{name: column for name, column in payload.items() if name.startswith("cols.")},
        "timers": const([[timer.name, list(timer.schemas)] for timer in timers]),
    }
    for place, timer in enumerate(timers):
        columns |= _timer_columns(place, timer)
    columns["buckets"] = opaque(buckets.to_bytes(8, "little"))
    frame = Frame(len(version.data) // 8, columns)
    return Block(agent, schema, frame.count, buckets, frame.encode())


def _timer_columns(place: int, timer: TimerColumns) -> dict[str, Column]:
    prefix = f"t.{place}."
    event = const(timer.schemas[0] if timer.schemas else 0)  # some timers are only cancelled
    if timer.event is not None:
        event = Column("codes", _pack([list(timer.schemas), _bytes_of(timer.event, 1)]))
    columns = {
        f"{prefix}due": _numbers("f64", timer.due),
        f"{prefix}period": _numbers("f64", timer.period),
        f"{prefix}event": event,
    }
    for payload in timer.payloads.values():
        for name, column in payload.items():
            if name.startswith("cols."):
                columns[prefix + name.removeprefix("cols.")] = column
    return columns


def _numbers(kind: str, values: Numbers | float) -> Column:
    return const(values) if isinstance(values, float) else Column(kind, _bytes_of(values, 8))


def _bytes_of(values: Numbers, width: int) -> bytes:
    view = memoryview(cast(bytes, values))
    if view.itemsize != width and not isinstance(values, bytes):
        raise ValueError(f"a column of {view.itemsize} bytes per row, expected {width}")
    return view.tobytes()


def timer_frame(frame: Frame, place: int, schema: int) -> Frame:
    """The payloads of one timer's events of one class as a frame with a row per agent."""
    prefix = f"t.{place}.{schema}"
    columns = {
        "cols." + name.removeprefix(f"t.{place}."): column
        for name, column in frame.columns.items()
        if name == prefix or name.startswith(f"{prefix}.")
    }
    return Frame(frame.count, {"schema": const(schema), **columns})


def timers_of(frame: Frame) -> list[tuple[str, list[int]]]:
    """Name and event schema ids of each timer that the agents of a block may have set."""
    found = cast(list[list[object]], frame.constant("timers", []))
    return [(cast(str, name), cast(list[int], schemas)) for name, schemas in found]


# Taking one apart.


def keys_in(block: Block) -> list[str]:
    return _keys(block.frame)


def _keys(frame: Frame) -> list[str]:
    return cast(list[str], _values(frame, "key"))


def _values(frame: Frame, name: str) -> list[object]:
    found = frame.values(name)
    if found is None:
        raise DamagedData(f"a block lacks its column {name!r}")
    return found


def records_in(block: Block) -> list[Record]:
    """Its agents as Records, each as the interpreted agent would be stored."""
    frame = block.frame
    return _records(block, frame, _keys(frame))


def _records(block: Block, frame: Frame, keys: list[str]) -> list[Record]:
    columns = zip(
        repeat(block.agent),
        keys,
        _values(frame, "version"),
        repeat(block.schema),
        [state for _, state in read_raw_payload(frame)],
        _extras(frame),
        _values(frame, "updated"),
        strict=False,
    )
    return list(map(_record, columns))


def _extras(frame: Frame) -> list[bytes]:
    """As `pack_extras` makes them."""
    by_name = sorted(enumerate(timers_of(frame)), key=lambda each: each[1][0])
    timers = [
        _timer_rows(frame, place, name, schemas)
        for place, (name, schemas) in by_name
        if any(_values(frame, f"t.{place}.due"))
    ]
    if not timers:
        return [b""] * frame.count
    return [
        _pack(("", (), [timer for timer in own if timer])) if any(own) else b""
        for own in zip(*timers, strict=True)
    ]


def _timer_rows(
    frame: Frame, place: int, name: str, schemas: list[int]
) -> list[tuple[object, ...]]:
    """One timer of every agent, empty where it is not set."""
    each = (_values(frame, f"t.{place}.{part}") for part in ("due", "period", "event"))
    payloads = {id: read_raw_payload(timer_frame(frame, place, id)) for id in schemas}
    return [
        (name, due, period, id, msgspec.Raw(payloads[cast(int, id)][at][1])) if due else ()
        for at, (due, period, id) in enumerate(zip(*each, strict=True))
    ]


def newest_of(items: Iterable[Record | Block]) -> dict[tuple[str, str], Record]:
    """The newest image of each agent, by class and key, of what is ordered from old to new."""
    newest: dict[tuple[str, str], Record] = {}
    for item in items:
        for record in records_in(item) if isinstance(item, Block) else (item,):
            newest[record.agent, record.key] = record
    return newest


# Cutting one.


def bucket_of(key: str) -> int:
    return slot_of(key) // SLOTS_PER_BUCKET


def mask_of(buckets: Iterable[int]) -> int:
    mask = 0
    for bucket in buckets:
        mask |= 1 << bucket
    return mask


def buckets_in(mask: int) -> set[int]:
    return {bucket for bucket in range(BUCKETS) if mask >> bucket & 1}


def split_block(block: Block, part_of: Callable[[str], P]) -> dict[P, Block]:
    """A block for each of the parts its keys are in; a predicate makes two, True and False."""
    frame = block.frame
    rows: dict[P, list[int]] = {}
    for at, key in enumerate(_keys(frame)):
        rows.setdefault(part_of(key), []).append(at)
    if len(rows) == 1:
        return dict.fromkeys(rows, block)
    return {part: _block(_select(frame, own)) for part, own in rows.items()}


def _select(frame: Frame, rows: Sequence[int]) -> Frame:
    columns = {name: frame.cut(name, frame.count, rows) for name in frame.columns}
    picked = Frame(len(rows), columns)
    mask = mask_of(map(bucket_of, _keys(picked)))
    picked.columns["buckets"] = opaque(mask.to_bytes(8, "little"))
    return picked


def _block(frame: Frame) -> Block:
    return Block.of(frame, frame.encode())


def _key_column(frame: Frame) -> Column:
    if frame.column("key").kind != "names":
        raise DamagedData("a block lacks the names of its agents")
    return frame.columns["key"]


def record_in(block: Block, key: str) -> Record | None:
    """One agent of it, without a look at the others."""
    frame = block.frame
    at = row_of(_key_column(frame), key)
    if at is None:
        return None
    others = frame.columns.keys() - {"key"}
    columns = {name: frame.cut(name, frame.count, [at]) for name in others}
    return _records(block, Frame(1, columns), [key])[0]
