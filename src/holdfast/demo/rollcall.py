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
        self._taken = 0

    def begin_partition(self) -> None:
        self._previous = None

    def take(self, row: Row) -> None:
        self._taken += 1
        seq = row.seq
        if row.source != SOURCE or not 1 <= seq <= self._sent.attempted:
            self._fault("wrong", row, "was never sent")
        elif self._present[seq]:
            self._fault("doubled", row, "is in the log again")
        else:
            self._present[seq] = 1
            self._prints[seq] = hash((row.agent, row.key, row.name, row.values))
            if self._previous is not None and seq < self._previous.seq:
                self._out_of_order(self._previous, row)
            self._previous = row

    def _fault(self, fault: str, one: Row | Line, what: str) -> None:
        self._findings.fault("events", fault, f"{_name(one)} {what}")
        self._findings.taint(one.agent if isinstance(one, Row) else "Drone", one.key)

    def _out_of_order(self, previous: Row, row: Row) -> None:
        # One producer that waits for each acknowledgement: its numbers grow in every inbox.
        text = f"{_name(row)} comes after {_name(previous)}"
        self._findings.fault("events", "out of order", text)
        for one in (previous, row):
            self._findings.taint(one.agent, one.key)

    def compare(self, lines: Iterator[Line]) -> None:
        acknowledged, missing = self._sent.acknowledged, 0
        for line in islice(lines, self._sent.attempted):
            seq, key, event, values = line
            if not self._present[seq]:
                if seq <= acknowledged:
                    self._fault("lost", line, "was acknowledged and is not in the log")
                else:
                    missing += 1  # the producer ended before it knew: either is right
            elif self._prints[seq] != hash(("Drone", key, event, values)):
                self._fault("wrong", line, "is in the log with other content")
        self._findings.stored["events"] = self._taken
        self._findings.due["events"] = self._sent.attempted - missing


def _name(one: Row | Line) -> str:
    event = one.event if isinstance(one, Line) else one.name
    serial = f" {one.values[0]}" if one.values else ""
    return f"number {one.seq:,} ({event}{serial} of {one.key})"
