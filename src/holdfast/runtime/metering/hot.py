"""Keys that many events are for, found in samples: the space-saving sketch, with forgetting.

A bounded number of keys is counted. One that is not among them takes the place and the count of the
smallest, so a key with a large share is always among them, and its count is too high by the
smallest at most. Halving all counts now and then lets a load that has passed go.
"""

from __future__ import annotations

from typing import NamedTuple

KEYS_COUNTED_MAX = 64
HOT_KEYS_TOLD_MAX = 10  # per partition
HOT_SHARE_MIN = 0.01  # of the events; below it a key is not told
SAMPLES_MIN = 200  # fewer say nothing about a share of a hundredth
HALVED_AFTER = 4_096  # samples


class Hot(NamedTuple):
    agent: str
    key: str
    share: float


class HotKeys:
    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], float] = {}
        self._surplus: dict[tuple[str, str], float] = {}  # of a count: what it took over
        self._total = 0.0

    def add(self, agent: str, key: str) -> None:
        name = agent, key
        self._total += 1.0
        if name in self._counts:
            self._counts[name] += 1.0
        elif len(self._counts) < KEYS_COUNTED_MAX:
            self._counts[name], self._surplus[name] = 1.0, 0.0
        else:
            smallest = min(self._counts, key=self._counts.__getitem__)
            count = self._counts.pop(smallest)
            del self._surplus[smallest]
            self._counts[name], self._surplus[name] = count + 1.0, count
        if self._total >= HALVED_AFTER:
            self._halve()

    def _halve(self) -> None:
        self._total /= 2.0
        for counts in (self._counts, self._surplus):
            for name in counts:
                counts[name] /= 2.0

    def hottest(self) -> list[Hot]:
        """At least so large a share: what a count took over from others is not counted."""
        if self._total < SAMPLES_MIN:
            return []
        surplus = dict(self._surplus)
        found = [
            Hot(*name, (count - surplus.get(name, count)) / self._total)
            for name, count in list(self._counts.items())
        ]
        found = [each for each in found if each.share >= HOT_SHARE_MIN]
        return sorted(found, key=lambda each: -each.share)[:HOT_KEYS_TOLD_MAX]
