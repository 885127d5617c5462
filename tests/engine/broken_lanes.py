"""Engines with one thing wrong in their urgent lane, made from the memory engine."""

import dataclasses

from holdfast.engine.memory import MemoryPartition
from holdfast.engine.port import Parcel, Taken
from holdfast.engine.stamping import Instant
from holdfast.stepping.frame import Frame
from holdfast.stepping.lane import LANE, URGENT
from tests.engine.broken import Sound


class Laneless(Sound):
    """Urgent rows wait among the others."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        others = {name: one for name, one in parcel.frame.columns.items() if name != URGENT}
        frame = Frame(parcel.frame.count, others)
        plain = dataclasses.replace(parcel, frame=frame, encoded=frame.encode())
        return super()._append_one(part, plain, now)


class HalfPlaced(Sound):
    """Says of a mixed parcel where its rows of the inbox went."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        found = super()._append_one(part, parcel, now)
        return found._replace(urgent=0) if isinstance(found, Taken) else found


class Narrow(Sound):
    """A full inbox refuses what is urgent, too."""

    def _check_backlog(self, part: MemoryPartition, frame: Frame) -> None:
        super()._check_backlog(part, frame)
        super()._check_backlog(part, Frame(frame.count, {}))


class Sweeping(Sound):
    """Retention takes what waits in the lane along."""

    def maintain(self) -> None:
        super().maintain()
        for part in self._partitions:
            part.lane = part.lane[-1:]


class Recounting(Sound):
    """Counts the lane by the rows it still has."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        part.lane = [each for each in part.lane if each.first >= LANE + part.committed.urgent]
        part.urgent = len(part.lane)
        return super()._append_one(part, parcel, now)
