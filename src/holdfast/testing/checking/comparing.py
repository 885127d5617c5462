"""Comparing two processes that fold the same inputs, and finding the first event they differ at.

One folds each input in a commit of its own, the other in batches. Where the other has a commit,
both digests must be equal. After the last equal one, both fold again with whole pictures: the other
one by one too, and, if that hides the difference, in one batch that is halved until it is smallest.
"""

from __future__ import annotations

import msgspec

from holdfast.testing.checking.folding import Detail, Failure, Fold, Mark, Window
from holdfast.testing.checking.running import Processes
from holdfast.testing.pictures import Difference, Picture, difference


class Divergence(msgspec.Struct):
    """The first event after which two runs are not the same."""

    partition: int
    number: int  # of the input, from 1, timers among them
    subject: str
    event: str
    handler: str
    place: str
    difference: Difference | None  # None: it did not show again
    batch: bool = False  # only when the events before it share a commit with it


class Comparison(msgspec.Struct):
    divergences: list[Divergence] = []
    failures: list[Failure] = []
    stopped: list[str] = []
    inputs: int = 0


def compare(processes: Processes) -> Comparison:
    """Every inbox of the recording, folded both ways."""
    found = Comparison()
    alone, batches = processes.both()
    for one, other in zip(alone, batches, strict=True):
        found.inputs += one.marks[-1].number if one.marks else 0
        found.failures += one.failures
        found.stopped += [each.stopped for each in (one, other) if each.stopped]
        window = _first_window(one, other)
        if window is not None:
            found.divergences.append(_narrowed(processes, window))
    return found


def _first_window(one: Fold, other: Fold) -> Window | None:
    """From the last commit where both were equal to the first where they are not."""
    by_number = {mark.number: mark for mark in one.marks}
    equal = Mark(0, other.first, 0)
    for mark in other.marks:
        same = by_number.get(mark.number)
        if same is None or same.digest != mark.digest or same.position != mark.position:
            if same is None and (one.stopped or other.stopped):
                return None
            return Window(one.partition, equal.number, mark.number, equal.position)
        equal = mark
    return None


def _narrowed(processes: Processes, window: Window) -> Divergence:
    alone, batches = processes.both(window)
    details = alone[0].details
    for one, other in zip(details, batches[0].details, strict=False):
        found = difference(one.picture, other.picture)
        if found is not None:
            return _divergence(window, one, found)
    return _in_batches(processes, window, details)


def _in_batches(processes: Processes, window: Window, details: list[Detail]) -> Divergence:
    """Only a batch shows it: the smallest one that does ends with the event."""
    # A timer fires in front of an input, so a batch ends with an input.
    ends = [i for i, each in enumerate(details) if not _fired(each)]
    low, high = 0, len(ends)
    best: tuple[Detail, Difference] | None = None
    while low < high:
        middle = (low + high) // 2
        found = _batch_difference(processes, window, details[: ends[middle] + 1])
        if found is None:
            low = middle + 1
        else:
            best, high = (details[ends[middle]], found), middle
    if best is None:
        last = details[-1] if details else Detail(window.to, "", "", "", "", Picture())
        return _divergence(window, last, None)
    return msgspec.structs.replace(_divergence(window, *best), batch=True)


def _batch_difference(
    processes: Processes, window: Window, details: list[Detail]
) -> Difference | None:
    """Between these inputs in one batch and one by one."""
    batch_to = window.position + sum(not _fired(each) for each in details)
    batch = msgspec.structs.replace(window, batch_to=batch_to)
    whole, parts = Picture(), Picture()
    for each in processes.run("batches", window=batch).folds[0].details:
        whole.add(each.picture)
    for each in details:
        parts.add(each.picture)
    return difference(parts, whole)


def _fired(detail: Detail) -> bool:
    return "timers that fired" in detail.picture.outputs


def _divergence(window: Window, at: Detail, found: Difference | None) -> Divergence:
    return Divergence(
        window.partition, at.number, at.subject, at.event, at.handler, at.place, found
    )
