"""The column `trace` of a frame: the contexts of its rows. A frame without any has no such column.

It is stored as runs of rows that have the same context, [first row, row behind the last, context]:
one request or one send has mostly one, and most rows of most frames have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from holdfast.errors import DamagedData
from holdfast.model.tracing import LENGTH, is_context
from holdfast.stepping.frame import Column, Frame, Run, run, runs
from holdfast.stepping.inputs import Inputs

NAME = "trace"


def trace_columns(contexts: str | Sequence[str], count: int) -> dict[str, Column]:
    """Of all rows, or of each of them; "" is none."""
    if isinstance(contexts, str):
        return {NAME: run(contexts, count)} if contexts else {}
    return {NAME: runs(context or None for context in contexts)} if any(contexts) else {}


def has_contexts(inputs: Inputs) -> bool:
    return inputs.frame is not None and NAME in inputs.frame.columns


def runs_of(inputs: Inputs) -> list[Run]:
    """Of the rows that are meant, counted from the first of them."""
    frame = inputs.frame
    if frame is None or not has_contexts(inputs):
        return []
    found = _readable(frame)
    first, last = inputs.start, inputs.stop
    if first == 0 and last == frame.count:
        return found
    return [
        (max(start, first) - first, min(stop, last) - first, context)
        for start, stop, context in found
        if start < last and stop > first
    ]


def _readable(frame: Frame) -> list[Run]:
    """What looks like contexts: one that is none is never worth an event."""
    try:
        found = frame.runs(NAME)
    except DamagedData:
        return []
    fits = all(isinstance(value, str) and len(value) == LENGTH for _, _, value in found)
    return found if fits else []


def contexts_of(inputs: Inputs) -> dict[int, str]:
    """By row; those without are left out."""
    return by_row_of(runs_of(inputs))


def contexts_in(frame: Frame) -> dict[int, str]:
    return by_row_of(_readable(frame)) if NAME in frame.columns else {}


def by_row_of(runs: list[Run]) -> dict[int, str]:
    return {row: cast(str, context) for start, stop, context in runs for row in range(start, stop)}


def check_contexts(frame: Frame) -> None:
    """Of a frame from elsewhere: the column is well-formed, and so is all in it."""
    for _, _, value in frame.runs(NAME) if NAME in frame.columns else ():
        if not is_context(value):
            raise DamagedData(f"column {NAME!r} has {value!r:.80}, which is no trace context")
