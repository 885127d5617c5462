"""Keys that many events are for, found in samples: the counts of Misra and Gries, with forgetting.

A bounded number of keys is counted. One more than that takes 1 from all of them, and those at 0 go.
So a key with a large share is always there, and its count is never too high; it is too low by at
most one in so many as are counted. Halving all counts now and then lets a load that has passed go.
"""

from __future__ import annotations

from typing import NamedTuple

KEYS_COUNTED_MAX = 256  # so shares are too low by 0.4 % at most
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
        self._total = 0.0

    def add(self, agent: str, key: str) -> None:
        name = agent, key
        counts = self._counts
        self._total += 1.0
        if name in counts:
            counts[name] += 1.0
        elif len(counts) < KEYS_COUNTED_MAX:
            counts[name] = 1.0
        else:
            # What is taken away was added one by one: on average this costs no more than adding.
            self._counts = {each: n - 1.0 for each, n in counts.items() if n > 1.0}
        if self._total >= HALVED_AFTER:
            self._total /= 2.0
            self._counts = {each: n / 2.0 for each, n in self._counts.items()}

    def hottest(self) -> list[Hot]:
        if self._total < SAMPLES_MIN:
            return []
        found = [Hot(*name, n / self._total) for name, n in list(self._counts.items())]
        found = [each for each in found if each.share >= HOT_SHARE_MIN]
        return sorted(found, key=lambda each: -each.share)[:HOT_KEYS_TOLD_MAX]
