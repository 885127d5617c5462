"""The states a power loss may leave, at every place in a record: all the plain ones, then chance.

Plain are: nothing of what is uncertain survived; all of it; all but one change; one change alone;
per file its first changes only; the last write torn. Chance adds any subset with any tear. Disks
with equal files are one state, and looked at again only where more had been promised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.crashes.disk import (
    LOST,
    SECTOR,
    WHOLE,
    ZEROS,
    Disk,
    Fates,
    File,
    Folder,
    Image,
    Make,
    Operation,
    Rename,
    Unlink,
    Write,
)
from tests.crashes.script import Run

CHANGES_MAX = 12  # of one file, taken one by one: the rest are old marks written over since


class CrashState(NamedTuple):
    ordinal: int
    position: int  # so many operations were done
    kind: str
    image: Image


def crash_states(run: Run, wanted: int, seed: int, seen: set[bytes]) -> Iterator[CrashState]:
    """About `wanted` distinct states not `seen` yet, spread over the whole record."""
    disk = run.start.copy()
    looked: set[tuple[bytes, object]] = set()
    known = len(seen)
    share = random.Random(seed).random()  # so that short runs do not all begin at the same place
    each = wanted / sum(map(_weight, run.operations))
    ends = {step.end for step in run.steps}
    for position in range(len(run.operations) + 1):
        if position:
            disk.apply(run.operations[position - 1])
            share += each * _weight(run.operations[position - 1])
        promised = run.at(position).identity
        chance = random.Random(f"{seed} {position}")
        due = int(share) - (len(seen) - known)
        if position in ends:  # just acknowledged: at least the hardest case
            due = max(1, due)
        for kind, fates in _some(disk, due, chance):
            if due <= 0:
                break
            image = disk.image(fates)
            digest = image.digest()
            if (digest, promised) not in looked:
                looked.add((digest, promised))
                due -= digest not in seen or position in ends
                seen.add(digest)
                yield CrashState(len(looked), position, kind, image)


def _weight(operation: Operation) -> float:
    """What happens to names matters most, what happens to files without their name yet least."""
    if isinstance(operation, Unlink | Rename | Make) and ".new-" not in operation.path:
        return 15.0 if isinstance(operation, Unlink) else 5.0  # several unlinks: in any order
    return 0.3 if ".new" in operation.path else 1.0


def _some(disk: Disk, wanted: int, chance: random.Random) -> Iterator[tuple[str, Fates]]:
    uncertain = disk.uncertain()
    yield "all lost", {node: (LOST,) * len(node.changes) for node in uncertain}
    yield "all kept", {}
    plain = list(_plain(uncertain))
    chance.shuffle(plain)
    yield from plain
    if uncertain:
        for _ in range(3 * wanted):
            yield "by chance", {node: _by_chance(node, chance) for node in uncertain}


def _plain(uncertain: list[File | Folder]) -> Iterator[tuple[str, Fates]]:
    nothing = {node: (LOST,) * len(node.changes) for node in uncertain}
    for node in uncertain:
        count = len(node.changes)
        most = count if isinstance(node, Folder) else CHANGES_MAX
        for i in range(max(0, count - most), count):
            yield "all but one", {node: _one(count, i, LOST, WHOLE)}
            yield "one alone", {**nothing, node: _one(count, i, WHOLE, LOST)}
            yield "the first ones", {node: (WHOLE,) * i + (LOST,) * (count - i)}
        for cut in _cuts(node):
            yield "torn", {node: _one(count, count - 1, cut, WHOLE)}
            yield "torn, alone", {**nothing, node: _one(count, count - 1, cut, WHOLE)}


def _one(count: int, index: int, fate: int, others: int) -> tuple[int, ...]:
    return (*(others,) * index, fate, *(others,) * (count - index - 1))


def _cuts(node: File | Folder) -> list[int]:
    """Where the last write of a file may end. A sector is written whole or not at all."""
    last = node.changes[-1]
    if not isinstance(last, Write):
        return []
    ends = range(SECTOR - last.offset % SECTOR, len(last.data), SECTOR)
    return [ZEROS, *sorted({ends[0], ends[len(ends) // 2], ends[-1]})] if ends else [ZEROS]


def _by_chance(node: File | Folder, chance: random.Random) -> tuple[int, ...]:
    likely = chance.choice((0.1, 0.5, 0.9))
    fates = []
    for change in node.changes:
        fate = WHOLE if chance.random() < likely else LOST
        if isinstance(change, Write) and chance.random() < 0.15:
            ends = range(SECTOR - change.offset % SECTOR, len(change.data), SECTOR)
            fate = chance.choice(ends) if ends else ZEROS
        fates.append(fate)
    return tuple(fates)
