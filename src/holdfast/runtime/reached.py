"""How far several appends have gone together."""

from __future__ import annotations

from holdfast.stepping.lane import in_lane


class Reached:
    """The furthest of several receipts: of each partition one place in the inbox, and one in the
    urgent lane."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, bool], int] = {}

    def add(self, partition: int, following: int) -> None:
        place = (partition, in_lane(following))
        self._places[place] = max(following, self._places.get(place, 0))

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        return tuple((number, self._places[number, lane]) for number, lane in sorted(self._places))
