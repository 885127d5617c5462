"""Sends: what goes into an inbox topic, and what is refused before it does."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine.faults import FaultPoints
from holdfast.engine.inheritance import refuses
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.founding import Founded
from holdfast.engine.kafka.records import bundles, following_of, pack_parcels, urgent_following_of
from holdfast.engine.port import Parcel, Taken
from holdfast.errors import Backlog, UsageError
from holdfast.stepping.lane import wholly_urgent


class Intake:
    def __init__(self, fleet: Founded, copies: Copies, faults: FaultPoints) -> None:
        self._fleet = fleet
        self._copies = copies
        self._faults = faults

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float
    ) -> list[Taken | Exception]:
        """One record, so that they are taken together."""
        if partition not in self._fleet.catalog.layout.numbers:
            return [refuses(f"partition {partition}")] * len(parcels)
        self._faults("append.before")
        place = self._copies.inbox_of(partition)
        taken: dict[int, Taken | Exception] = dict.fromkeys(range(len(parcels)), Taken(0, 0, 0.0))
        taken |= self._refused(partition, parcels)
        self._faults("append.inside")
        for bundle in bundles(parcels, [i for i, one in taken.items() if isinstance(one, Taken)]):
            value, headers = pack_parcels([parcels[i] for i in bundle])
            try:
                written = self._fleet.appender.write(*place, value, headers, wait_seconds)
            except UsageError as refusal:
                taken |= dict.fromkeys(bundle, refusal)
                continue
            for index, i in enumerate(bundle):
                frame = parcels[i].frame
                following = following_of(written.offset, index, frame)
                urgent = urgent_following_of(written.offset, index, frame)
                taken[i] = Taken(following, frame.count, written.stamp, urgent)
        self._faults("append.after")
        return list(taken.values())

    def _refused(self, partition: int, parcels: Sequence[Parcel]) -> dict[int, Taken | Exception]:
        """By what has been heard of its owner: the topic itself takes everything."""
        if partition in self._fleet.catalog.closed_intakes:
            late = [i for i, parcel in enumerate(parcels) if parcel.mark is None]
            return dict.fromkeys(late, refuses(f"partition {partition}"))
        owner = self._fleet.owners.told_of(partition)
        if owner is None or not owner.full:
            return {}
        settings = self._fleet.settings
        refusal = Backlog(
            f"{settings.place}: partition {partition}: more than "
            f"{settings.limits.backlog_events_max:,} events wait to be folded, the bound: send "
            "slower, or see `holdfast lag` whether a worker runs"
        )
        bounded = (i for i, parcel in enumerate(parcels) if parcel.external)
        return {i: refusal for i in bounded if not wholly_urgent(parcels[i].frame)}
