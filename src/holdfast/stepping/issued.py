"""Issued actions as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from holdfast.stepping.actionids import action_id, undo_id
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import read_raw_payload
from holdfast.stepping.traces import contexts_in


class IssuedRow(NamedTuple):
    """An action as stored."""

    agent: str
    key: str
    id: str
    now: float
    undoes: str
    why: str
    schema: int
    row: bytes
    by: str = ""
    version: int = 0
    trace: str = ""


def issued_in(fleet: str, frame: Frame) -> Iterator[IssuedRow]:
    names = ("agent", "key", "version", "index", "now")
    columns = [cast(list[Any], frame.values(name)) for name in names]
    undoes = cast("list[str]", frame.values("undoes") or [""] * frame.count)
    why = cast("list[str]", frame.values("why") or [""] * frame.count)
    by = cast("list[str]", frame.values("by") or [""] * frame.count)
    traces = contexts_in(frame)
    rows = zip(*columns, undoes, why, by, read_raw_payload(frame), strict=True)
    for i, each in enumerate(rows):
        agent, key, version, index, now, undone, reason, who, (schema, row) = each
        id = undo_id(undone) if undone else action_id(fleet, agent, key, version, index)
        trace = traces.get(i, "")
        yield IssuedRow(agent, key, id, now, undone, reason, schema, row, who, version, trace)
