"""The roll call: every event that was sent is in the log once, unchanged and in its order.

Compares the stored events from outside with the script, which is computed again for it. What became
of the events later is not looked at here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice

from holdfast.demo.directory import Sent
from holdfast.demo.evidence import Row
from holdfast.demo.findings import Findings
from holdfast.demo.script import Line

SOURCE = "radio"


class RollCall:
    def __init__(self, sent: Sent, findings: Findings) -> None:
        self._sent = sent
        self._findings = findings
        # One byte and one number per event, so that long demos can be audited too.
        self._present = bytearray(sent.attempted + 1)
        self._prints = array("q", bytes(8 * (sent.attempted + 1)))
        self._previous: Row | None = None

    def begin_partition(self) -> None:
        self._previous = None

    def take(self, row: Row) -> None:
        findings = self._findings
        findings.stored["events"] += 1
        if row.source != SOURCE or not 1 <= row.seq <= self._sent.attempted:
            findings.fault("events", "wrong", f"{_name(row)} was never sent")
            findings.taint(row.agent, row.key)
        elif self._present[row.seq]:
            findings.fault("events", "doubled", f"{_name(row)} is in the log again")
            findings.taint(row.agent, row.key)
        else:
            self._present[row.seq] = 1
            self._prints[row.seq] = hash((row.agent, row.key, row.name, row.values))
            if self._previous is not None and row.seq < self._previous.seq:
                self._out_of_order(self._previous, row)
            self._previous = row

    def _out_of_order(self, previous: Row, row: Row) -> None:
        # One producer that waits for each acknowledgement: its numbers grow in every inbox.
        text = f"{_name(row)} comes after {_name(previous)}"
        self._findings.fault("events", "out of order", text)
        for one in (previous, row):
            self._findings.taint(one.agent, one.key)

    def compare(self, lines: Iterator[Line]) -> None:
        findings = self._findings
        for line in islice(lines, self._sent.attempted):
            present = self._present[line.seq]
            if present or line.seq <= self._sent.acknowledged:
                findings.due["events"] += 1
            if not present and line.seq <= self._sent.acknowledged:
                text = f"{_name(line)} was acknowledged and is not in the log"
                findings.fault("events", "lost", text)
                findings.taint("Drone", line.key)
            elif present and self._prints[line.seq] != hash(("Drone", *line[1:])):
                text = f"{_name(line)} is in the log with other content"
                findings.fault("events", "wrong", text)
                findings.taint("Drone", line.key)


def _name(one: Row | Line) -> str:
    event = one.event if isinstance(one, Line) else one.name
    serial = f" {one.values[0]}" if one.values else ""
    return f"number {one.seq:,} ({event}{serial} of {one.key})"
