"""READS, for lists: all agents of a class, all that are paused, all dead letters, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.stepping.commit import Record
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import extras_of
from holdfast.testing.simulation.evidence import Accepted, Listing, PartitionLog
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History


def check(history: History, report: Report) -> None:
    logs = {partition.number: partition.log for partition in history.partitions}
    for listing in history.evidence.listings:
        listed = [logs[number] for number in listing.partitions]
        if any(accepted.at == listing.at for log in listed for accepted in log.commits):
            continue  # it may have come before or after
        expected = sorted(name for log in listed for name in _names(log, listing))
        if sorted(listing.names) != expected:
            what = f"{listing.what} {listing.agent}".strip()
            text = f"{listing.client} listed {what} as {sorted(listing.names)}, expected {expected}"
            report.add(Promise.READS, text, None, None, listing.at)


def _names(log: PartitionLog, listing: Listing) -> Iterator[str]:
    commits = [accepted for accepted in log.commits if accepted.at < listing.at]
    if listing.what == "letters":
        yield from _letters(log, commits)
        return
    records: dict[tuple[str, str], Record] = {(r.agent, r.key): r for r in log.inherited}
    records |= {(r.agent, r.key): r for accepted in commits for r in accepted.commit.changed}
    for (agent, key), record in records.items():
        extras = extras_of(record.extras)
        if record.gone:
            continue
        if listing.what == "states" and agent == listing.agent:
            yield key
        if listing.what == "paused" and extras.paused:
            yield f"{agent}/{key} holds {len(extras.held)}: {extras.paused}"


def _letters(log: PartitionLog, commits: list[Accepted]) -> Iterator[str]:
    """Numbered on from 1, inherited ones first; a letter that was redriven is still there."""
    redriven = {number for accepted in commits for number in accepted.commit.redriven}
    head = commits[-1].commit.head if commits else log.born
    for number in range(1, head.letters_next):
        yield f"{log.number}.{number}{' redriven' if number in redriven else ''}"
