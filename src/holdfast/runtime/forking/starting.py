"""Where a fork begins and ends: moments that positions stand for."""

from __future__ import annotations

from holdfast.engine.port import Engine
from holdfast.errors import UsageError


def time_of(engine: Engine, text: str) -> float:
    """When the event at a position came: "PARTITION:NUMBER", or a number if there is but one."""
    partition, colon, number = text.rpartition(":")
    layout = engine.catalog.layout
    known = {*engine.catalog.retired, *layout.numbers}
    if not colon:
        if len(known) > 1:
            raise UsageError(
                f"position {text!r}: there are partitions {layout.first} to "
                f"{layout.numbers.stop - 1}: write PARTITION:NUMBER, as in {layout.first}:{text}"
            )
        partition = str(layout.first)
    if not (partition.isdecimal() and number.isdecimal()) or int(partition) not in known:
        raise UsageError(
            f"position {text!r}: write PARTITION:NUMBER; the partitions are "
            f"{layout.first} to {layout.numbers.stop - 1}"
        )
    view = engine.view(int(partition))
    first, end = view.inbox_first(), view.head().position
    if not first <= int(number) < end:
        raise UsageError(
            f"position {text!r}: partition {partition} has folded and kept {first} to {end - 1}"
            if end > first
            else f"position {text!r}: partition {partition} has no history"
        )
    return view.frames(int(number), 1)[0].stamp
