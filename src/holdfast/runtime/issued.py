"""Issued actions as they are stored, and one of them found by its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.model.keys import is_key
from holdfast.stepping.frame import Frame
from holdfast.stepping.outputs import action_id, undo_id
from holdfast.stepping.rows import read_raw_payload

_FRAMES_AT_ONCE = 256


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


def issued_in(fleet: str, frame: Frame) -> Iterator[IssuedRow]:
    names = ("agent", "key", "version", "index", "now")
    columns = [cast(list[Any], frame.values(name)) for name in names]
    undoes = cast("list[str]", frame.values("undoes") or [""] * frame.count)
    why = cast("list[str]", frame.values("why") or [""] * frame.count)
    for agent, key, version, index, now, undone, reason, (schema, row) in zip(
        *columns, undoes, why, read_raw_payload(frame), strict=True
    ):
        id = undo_id(undone) if undone else action_id(fleet, agent, key, version, index)
        yield IssuedRow(agent, key, id, now, undone, reason, schema, row)


def key_of(wanted: str) -> str:
    """The key in the id of an action: FLEET/AGENT/KEY/VERSION/INDEX, or that and /undo."""
    parts = wanted.split("/")
    if len(parts) < 5 or not is_key(parts[2]) or not (parts[3] + parts[4]).isdecimal():
        raise UsageError(f"{wanted!r} is no id of an action: `holdfast actions` shows them")
    return parts[2]


def find_action(engine: Engine, partitions: Sequence[int], wanted: str) -> IssuedRow:
    """The action of this id in the partitions where its agent has lived; UsageError if none is."""
    key = key_of(wanted)
    cut = False
    for number in partitions:
        view, first = engine.view(number), 0
        while batch := view.actions(first, _FRAMES_AT_ONCE):
            cut = cut or (first == 0 and batch[0].first > 0)
            for issued in batch:
                first = issued.first + issued.count
                if key.encode() in issued.frame:
                    for one in issued_in(engine.catalog.fleet, Frame.decode(issued.frame)):
                        if one.id == wanted:
                            return one
        cut = cut or view.head().actions_next > first
    for fate in engine.view(partitions[-1]).fates_of([wanted]):
        if fate.kind == "compensated":
            raise UsageError(f"{wanted} was compensated before: {fate.why}")
    lost = "it is past retention, or from before a restore, or was never issued"
    past = lost if cut else "it was never issued"
    raise UsageError(f"no action {wanted!r} is kept: {past}: see `holdfast actions`")
