"""What must have come of the load, from what was acknowledged alone; one line per difference.

Three witnesses are asked: the states, the whole inbox as `holdfast export` copies it, and the
actions that a follower saw.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.gateway.drones import FACTOR, HIGH, MODULUS
from bench.gateway.plan import keys_of, planned, source_of

LINES_MAX = 20


def numbers_of(client: int, last: int) -> dict[str, list[int]]:
    """Per drone the numbers that were acknowledged, in order."""
    found: dict[str, list[int]] = {key: [] for key in keys_of(client)}
    for seq in range(1, last + 1):
        found[planned(client, seq).key].append(seq)
    return {key: numbers for key, numbers in found.items() if numbers}


def expected(lasts: Sequence[int]) -> dict[str, list[int]]:
    return {
        key: numbers
        for client, last in enumerate(lasts)
        for key, numbers in numbers_of(client, last).items()
    }


def digest_of(numbers: Sequence[int]) -> int:
    digest = 0
    for number in numbers:
        digest = (digest * FACTOR + number) % MODULUS
    return digest


def judge_states(
    wanted: Mapping[str, Sequence[int]], states: Mapping[str, tuple[int, int]]
) -> list[str]:
    """`states`: per key the count and the digest."""
    lines = [f"{key}: has a state, and no event was sent" for key in states.keys() - wanted]
    for key, numbers in wanted.items():
        count, digest = states.get(key, (0, 0))
        if count != len(numbers):
            lines.append(f"{key}: {count} events folded, {len(numbers)} acknowledged")
        elif digest != digest_of(numbers):
            lines.append(f"{key}: {count} events folded, but others or in another order")
    return lines[:LINES_MAX]


def inbox_of(exported: Path) -> tuple[dict[str, list[int]], list[str]]:
    """Per drone the numbers in the inbox, in order; and what does not belong there."""
    found: dict[str, list[int]] = {}
    lines = []
    for row in _rows(exported):
        key, seq = str(row["key"]), row["seq"]
        client = int(key.split("-")[1])
        if row["source"] != source_of(client) or not isinstance(seq, int):
            lines.append(f"{key}: an event of {row['source']} under {seq}")
        else:
            found.setdefault(key, []).append(seq)
    return found, lines[:LINES_MAX]


def _rows(exported: Path) -> Iterator[dict[str, object]]:
    with exported.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def judge_inbox(
    wanted: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]
) -> list[str]:
    lines = []
    for key in wanted.keys() | found.keys():
        there, sent = list(found.get(key, ())), list(wanted.get(key, ()))
        if there != sent:
            doubled = len(there) - len(set(there))
            lost = len(set(sent) - set(there))
            lines.append(f"{key}: the inbox lacks {lost}, has {doubled} twice, or another order")
    return lines[:LINES_MAX]


def judge_actions(
    wanted: Mapping[str, Sequence[int]], seen: Mapping[str, Sequence[int]]
) -> list[str]:
    lines = []
    for key, numbers in wanted.items():
        client = int(key.split("-")[1])
        due = [seq for seq in numbers if planned(client, seq).alt > HIGH]
        if list(seen.get(key, ())) != due:
            lines.append(f"{key}: actions of {list(seen.get(key, ()))[:9]} instead of {due[:9]}")
    return lines[:LINES_MAX]
