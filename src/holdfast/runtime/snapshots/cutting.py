"""Parts of a log: frames up to a point, and frames without some of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.errors import DamagedData
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.rows import select


def up_to(
    frames: Iterable[StoredFrame], first: int, stop: int, time: float
) -> Iterator[StoredFrame]:
    """Whole frames, the last cut at a position."""
    for stored in frames:
        if stored.first != first:
            raise DamagedData(
                f"the log goes on at {stored.first}, not at {first}: take a later snapshot"
            )
        if stored.stamp > time or stored.first >= stop:
            return
        first = stored.first + stored.count
        if first > stop:
            yield _part(stored, list(range(stop - stored.first)), stored.first)
            return
        yield stored


def without(frames: Iterable[StoredFrame], left_out: set[int]) -> Iterator[StoredFrame]:
    """The frames without rows at these positions; what follows moves up."""
    moved = 0
    for stored in frames:
        rows = [i for i in range(stored.count) if stored.first + i not in left_out]
        if len(rows) == stored.count:
            yield StoredFrame(stored.first - moved, stored.count, stored.stamp, stored.frame)
        elif rows:
            yield _part(stored, rows, stored.first - moved)
        moved += stored.count - len(rows)


def _part(stored: StoredFrame, rows: list[int], first: int) -> StoredFrame:
    encoded = select(Frame.decode(stored.frame), rows).encode()
    return StoredFrame(first, len(rows), stored.stamp, encoded)
