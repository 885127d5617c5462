"""Samples and histograms, and the text format of Prometheus that they become."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
EVENTS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0)


class Sample(NamedTuple):
    """One value of one family; of a histogram the sum, with how many stand in each bucket."""

    name: str
    labels: Labels
    value: float
    bounds: tuple[float, ...] = ()  # upper ones of the buckets
    counts: tuple[int, ...] = ()  # one more: the last is of those above all bounds


def gauge(name: str, value: float, **labels: object) -> Sample:
    return Sample(name, tuple((each, str(text)) for each, text in labels.items()), float(value))


class Histogram:
    """Counts by upper bounds; those above the last one are counted too."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def sample(self, name: str, **labels: object) -> Sample:
        """While another thread adds to it: what is told is consistent but for the very last."""
        own = gauge(name, self.sum, **labels)
        return own._replace(bounds=tuple(self.bounds), counts=tuple(self.counts))


class Family(NamedTuple):
    name: str
    kind: str  # counter, gauge or histogram
    labels: str  # those beside fleet and region
    help: str


def exposed(
    families: Sequence[Family], samples: Iterable[Sample], common: Mapping[str, str]
) -> bytes:
    """The text format, family by family. Samples of a name that no family has are left out."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    shared = tuple(common.items())
    lines: list[str] = []
    for family in families:
        found = by_name.get(family.name)
        if not found:
            continue
        lines.append(f"# HELP {family.name} {_help(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in sorted(found):
            lines += _lines(sample, shared)
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _lines(sample: Sample, shared: Labels) -> list[str]:
    labels = (*shared, *sample.labels)
    if not sample.counts:
        return [f"{sample.name}{_braces(labels)} {_number(sample.value)}"]
    lines, reached = [], 0
    for bound, count in zip((*sample.bounds, math.inf), sample.counts, strict=True):
        reached += count
        within = (*labels, ("le", _number(bound)))
        lines.append(f"{sample.name}_bucket{_braces(within)} {reached}")
    lines.append(f"{sample.name}_sum{_braces(labels)} {_number(sample.value)}")
    lines.append(f"{sample.name}_count{_braces(labels)} {reached}")
    return lines


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels if text) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
