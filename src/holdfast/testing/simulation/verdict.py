"""The verdict: all promises, held against the evidence of one run."""

from __future__ import annotations

from holdfast.testing.simulation.contract import (
    calling,
    commanding,
    listing,
    messaging,
    numbering,
    reading,
    sending,
)
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.evidence import Evidence
from holdfast.testing.simulation.findings import Finding, Promise
from holdfast.testing.simulation.history import History
from holdfast.testing.simulation.retelling import retell


def judge(evidence: Evidence) -> list[Finding]:
    """What was broken: nothing, it is hoped. A few findings per promise, in a fixed order."""
    report = Report()
    history = History(evidence)
    numbering.check(history, report)
    sending.check(history, report)
    commanding.check(history, report)
    story = retell(history, report)
    messaging.check(history, story, report)
    calling.check(history, story, report)
    reading.check(history, story, report)
    listing.check(history, report)
    if not evidence.quiet:
        report.add(Promise.SETTLES, f"things still waited when the run ended at {evidence.ended}")
    return report.findings()
