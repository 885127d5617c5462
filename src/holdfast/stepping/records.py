"""Records of agents that changed, made and read by the batch: the states' share of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby, repeat
from operator import attrgetter
from typing import cast

import msgspec

from holdfast.model.agent import Agent
from holdfast.stepping.blocks import Block, records_in
from holdfast.stepping.cell import STATE_BYTES_MAX, Cell, Kind, pack_extras
from holdfast.stepping.commit import Record
from holdfast.stepping.frame import Column, Frame, codes, const, integers, opaque, rows

_pack = msgspec.msgpack.Encoder().encode
_unpack_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_BLOCK = "block."  # and the name of the class
# A Record from a row without a call into Python for each of them.
_record = cast("type[Record]", partial(tuple.__new__, Record))


def records_of(cells: Sequence[Cell], now: float) -> tuple[list[Record], list[Agent]]:
    """What will be stored of each cell, in their order, and what it will be read back as.

    Raises if a state has a wrong type.
    """
    records: list[Record] = []
    agents: list[Agent] = []
    for kind, group in groupby(cells, key=attrgetter("kind")):
        members = list(group)
        packed = _pack([cell.agent or cell.wake() for cell in members])
        agents += cast(list[Agent], kind.codebook.reader_of(kind.schema).rows(packed))
        records += _records_of_kind(kind, members, packed, now)
    return records, agents


def _records_of_kind(kind: Kind, cells: list[Cell], packed: bytes, now: float) -> list[Record]:
    states = list(map(bytes, _unpack_raw(packed)))
    if len(packed) > STATE_BYTES_MAX:
        for cell in cells:
            cell.packed()  # names the one that has grown too large, if there is one
    columns = zip(
        repeat(kind.name),
        [cell.key for cell in cells],
        [cell.version for cell in cells],
        repeat(kind.schema),
        states,
        pack_extras([cell.extras for cell in cells], kind.codebook),
        repeat(now) if kind.expire_after is None else [cell.updated for cell in cells],
        strict=False,
    )
    return list(map(_record, columns))


def delta_frame(records: Sequence[Record], blocks: Sequence[Block] = ()) -> Frame:
    """Changed agents as one frame: rows, and blocks as they are. At most one block per class."""
    columns: dict[str, Column] = {}
    if records:
        agents, keys, versions, schemas, states, extras, updated = zip(*records, strict=True)
        columns = {
            "agent": codes(agents),
            "key": rows(keys),
            "version": integers(versions),
            "schema": codes(schemas),
            "state": rows(states),
            "extras": rows(extras) if any(extras) else const(b""),
            "updated": codes(updated),
        }
    for block in blocks:
        if f"{_BLOCK}{block.agent}" in columns:
            raise ValueError(f"two blocks of {block.agent} in one commit")
        columns[f"{_BLOCK}{block.agent}"] = opaque(block.encoded)
    return Frame(len(records), columns)


def read_delta(frame: Frame) -> list[Record]:
    """Every agent in it, those in blocks too."""
    expanded = [record for block in blocks_in(frame) for record in records_in(block)]
    return rows_in(frame) + expanded


def rows_in(frame: Frame) -> list[Record]:
    if not frame.count:
        return []
    names = ("agent", "key", "version", "schema", "state", "extras", "updated")
    columns = [cast(list[object], frame.values(name)) for name in names]
    return list(map(_record, zip(*columns, strict=True)))


def blocks_in(frame: Frame) -> list[Block]:
    return [Block.decode(encoded) for encoded in encoded_blocks(frame)]


def encoded_blocks(frame: Frame) -> list[bytes]:
    return [column.data for name, column in frame.columns.items() if name.startswith(_BLOCK)]
