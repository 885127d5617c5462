"""A partition's contents as named rows, which a later snapshot can compare one by one, and back.

Agents, dead letters, open calls, fates of actions, dedupe windows and the numbers of ordered
sources are rows. A row has a name that is its own in the partition, a slot it belongs to, and a
body. What waits (inbox frames, the outbox) has no names: it comes and goes as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.engine.contents import PartitionContents
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sources import SourceRow
from holdfast.model.keys import slot_of
from holdfast.stepping.commit import Call, Fate, Letter, Record

_pack = msgspec.msgpack.Encoder().encode
_name = msgspec.msgpack.Decoder(tuple[str, str | int, str | int]).decode
_record = msgspec.msgpack.Decoder(tuple[int, int, bytes, bytes, float]).decode
_letter = msgspec.msgpack.Decoder(tuple[Letter, bool]).decode
_call = msgspec.msgpack.Decoder(Call).decode
_undone = msgspec.msgpack.Decoder(tuple[str, float, str]).decode
_fate = msgspec.msgpack.Decoder(tuple[str, float, str, str, str]).decode
_source = msgspec.msgpack.Decoder(tuple[int, float]).decode
_number = msgspec.msgpack.Decoder(int).decode


class Row(NamedTuple):
    slot: int
    name: bytes
    body: bytes | None  # None: a row that was there before is gone


class Read(NamedTuple):
    """Rows of one partition, read back."""

    records: list[Record]
    letters: list[tuple[Letter, bool]]
    calls: list[Call]
    fates: list[Fate]
    dedupe: Dedupe


def rows_of(partition: PartitionContents) -> Iterator[Row]:
    lowest = partition.facts.slots.start
    for record in partition.records():
        name = _pack(("agent", record.agent, record.key))
        yield Row(slot_of(record.key), name, _pack(record[2:]))
    for letter, redriven in partition.letters():
        yield Row(lowest, _pack(("letter", letter.id, 0)), _pack((letter, redriven)))
    for call in partition.calls():
        yield Row(slot_of(call.key), _pack(("call", call.number, 0)), _pack(call))
    for one in partition.fates():
        yield _row_of(one)
    sources, windows, ordered = partition.dedupe()
    for source, row in sources.items():
        yield Row(lowest, _pack(("source", source, 0)), _pack(row))
    for (source, number), bits in windows.items():
        packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        yield Row(lowest, _pack(("window", source, number)), packed)
    for (source, key), last in ordered.items():
        yield Row(slot_of(key), _pack(("ordered", source, key)), _pack(last))


def _row_of(one: Fate) -> Row:
    body = (one.key, one.now, one.why)
    if one.kind == "compensated":  # as releases wrote it that knew no other
        return Row(slot_of(one.key), _pack(("undone", one.id, 0)), _pack(body))
    name = _pack(("fate", one.id, one.kind))
    return Row(slot_of(one.key), name, _pack((*body, one.by, one.action)))


def read_rows(rows: Iterable[tuple[bytes, bytes]]) -> Read:
    """ValueError says which row is none of ours."""
    read = Read([], [], [], [], Dedupe({}, {}, {}))
    try:
        for packed, body in rows:
            _read_row(read, _name(packed), body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a row cannot be read: {error}") from None
    read.calls.sort()
    read.fates.sort(key=lambda one: one.now)
    read.letters.sort(key=lambda each: each[0].id)
    return read


def _read_row(read: Read, name: tuple[str, str | int, str | int], body: bytes) -> None:
    match name:
        case ("agent", str(agent), str(key)):
            read.records.append(Record(agent, key, *_record(body)))
        case ("letter", int(), _):
            read.letters.append(_letter(body))
        case ("call", int(), _):
            read.calls.append(_call(body))
        case ("undone", str(action), _):
            read.fates.append(Fate(action, *_undone(body)))
        case ("fate", str(action), str(kind)):
            key, now, why, by, name_of_class = _fate(body)
            read.fates.append(Fate(action, key, now, why, kind, by, name_of_class))
        case ("source", str(source), _):
            read.dedupe.sources[source] = SourceRow(*_source(body))
        case ("window", str(source), int(number)):
            read.dedupe.chunks[source, number] = int.from_bytes(body, "little")
        case ("ordered", str(source), str(key)):
            read.dedupe.last_by_key[source, key] = _number(body)
        case _:
            raise ValueError(f"a row is of a kind we do not know: {name[0]}")
