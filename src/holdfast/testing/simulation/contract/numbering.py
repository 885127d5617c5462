"""ONE_WRITER, and the numbers of everything: positions, stamps, commits, outputs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.evidence import Accepted, PartitionLog
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition


def check(history: History, report: Report) -> None:
    last = len(history.generations) - 1
    for partition in history.partitions:
        _frames(partition.log, partition.log.first, partition.log.frames, report)
        _frames(partition.log, LANE, partition.log.lane, report)
        _commits(partition, report)
        _outgoing(partition, report)
        _reached(partition, report, partition.generation == last, history.evidence.quiet)


def _frames(
    log: PartitionLog, position: int, frames: Sequence[StoredFrame], report: Report
) -> None:
    stamp = 0.0
    for frame in frames:
        where = f"partition {log.number}: the frame at {frame.first}"
        if frame.first != position:
            report.add(Promise.ORDER, f"{where} should be at {position}", log.number)
        if frame.stamp < stamp:
            text = f"{where} is stamped {frame.stamp}, one before it {stamp}"
            report.add(Promise.ORDER, text, log.number)
        position, stamp = frame.first + frame.count, max(stamp, frame.stamp)


def _commits(partition: Partition, report: Report) -> None:
    log = partition.log
    head, epoch = log.born, 0
    writers: dict[int, str] = {}
    for accepted in log.commits:
        commit = accepted.commit

        def found(promise: Promise, text: str, accepted: Accepted = accepted) -> None:
            which = f"commit {accepted.commit.head.commits} of {accepted.process}"
            where = f"partition {log.number}: {which}"
            report.add(promise, f"{where} {text}", log.number, at=accepted.at)

        if commit.before != head:
            found(Promise.ONE_WRITER, f"follows {commit.before}, but the head was {head}")
        if accepted.epoch < epoch:
            found(Promise.ONE_WRITER, f"is of epoch {accepted.epoch}, after one of {epoch}")
        writer = writers.setdefault(accepted.epoch, accepted.process)
        if writer != accepted.process:
            found(Promise.ONE_WRITER, f"is of epoch {accepted.epoch}, which is {writer}'s")
        if commit.head != commit.before and commit.head.commits != commit.before.commits + 1:
            found(Promise.ONE_WRITER, f"has the number after {commit.before.commits}")
        if not commit.before.position <= commit.head.position <= partition.end:
            covered = f"{commit.before.position} to {commit.head.position}"
            found(Promise.ORDER, f"covers {covered} of an inbox that ends at {partition.end}")
        if not commit.before.urgent <= commit.head.urgent <= len(partition.lane):
            covered = f"{commit.before.urgent} to {commit.head.urgent}"
            found(Promise.ORDER, f"covers {covered} of a lane that ends at {len(partition.lane)}")
        for text in _misnumbered(commit):
            found(Promise.CONTIGUOUS, text)
        head, epoch = commit.head, max(epoch, accepted.epoch)


def _misnumbered(commit: Commit) -> list[str]:
    """Outputs that do not begin where the head says, or do not end there."""
    before, head = commit.before, commit.head
    wrong = []
    for name, run, start, end in (
        ("actions", commit.issued, before.actions_next, head.actions_next),
        ("journal", commit.journalled, before.journal_next, head.journal_next),
    ):
        first, count = (start, 0) if run is None else (run.first, run.count)
        if first != start or start + count != end:
            seen = f"has {name} {first} to {first + count}"
            wrong.append(f"{seen}, its heads say {start} to {end}")
    calls = [call.number for call in commit.calls]
    if calls != list(range(before.calls_next, head.calls_next)):
        says = f"{before.calls_next} to {head.calls_next}"
        wrong.append(f"has calls {calls}, its heads say {says}")
    letters = [letter.id for letter in commit.letters]
    if letters != list(range(before.letters_next, head.letters_next)):
        says = f"{before.letters_next} to {head.letters_next}"
        wrong.append(f"has letters {letters}, its heads say {says}")
    return wrong


def _outgoing(partition: Partition, report: Report) -> None:
    following: dict[int, int] = {}
    for accepted in partition.log.commits:
        commit = accepted.commit
        for out in commit.outgoing:
            expected = following.get(out.destination, 1)
            if out.first != expected:
                text = f"messages to {out.destination} continue at {out.first}, not {expected}"
                where = f"partition {partition.number}: "
                report.add(Promise.MESSAGES, where + text, partition.number, at=accepted.at)
            following[out.destination] = out.first + out.count
        said = {each: following.get(each, 1) for each in commit.sent_next}
        if commit.sent_next != said:
            text = f"partition {partition.number}: sent_next says {commit.sent_next}, not {said}"
            report.add(Promise.MESSAGES, text, partition.number, at=accepted.at)


def _reached(partition: Partition, report: Report, lives: bool, quiet: bool) -> None:
    log = partition.log
    head = log.commits[-1].commit.head if log.commits else log.born
    came = partition.end, len(partition.lane)
    if (head.position, head.urgent) == came or (lives and not quiet):
        return
    text = f"partition {log.number}: folded up to {head.position} of {came[0]}"
    if head.urgent != came[1]:
        text += f", and {head.urgent} of {came[1]} urgent events"
    if lives:
        report.add(Promise.SETTLES, f"{text}, and the run was called quiet", log.number)
    else:
        report.add(Promise.KEPT, f"{text} when it was rescaled", log.number)
