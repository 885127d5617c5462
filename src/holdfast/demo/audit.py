"""The audit of a demo: `python -m holdfast.demo.audit DIR`.

It trusts no counter of the run. From the settings it computes again what was sent; it reads every
stored event, timer, message, action and state; it computes by rules of its own (oracle.py) what
must follow from the stored inputs; and it counts every difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from holdfast.demo.comparison import Comparison
from holdfast.demo.directory import DemoDirectory, Kill
from holdfast.demo.evidence import Evidence, Row
from holdfast.demo.findings import Findings
from holdfast.demo.rollcall import RollCall
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import open_engine
from holdfast.errors import HoldfastError, UsageError

COLUMNS_MAX = 80


def audit(directory: DemoDirectory) -> Findings:
    manifest, sent = directory.manifest(), directory.sent()
    findings = Findings()
    with _opened(directory) as engine:
        schemas = engine.catalog.schemas()
        live = engine.catalog.layout.numbers
        numbers = range(live.stop)  # retired ones too: an agent's inputs begin there
        partitions = [Evidence(number, engine.view(number), schemas) for number in numbers]
        roll_call = RollCall(sent, findings)
        comparison = Comparison(findings)
        for evidence in partitions:
            _walk(evidence, roll_call, comparison, findings)
            if evidence.number in live:  # a retired one's letters have moved on
                for letter in evidence.dead_letters():
                    findings.fault("events", "in dead letters", letter)
        roll_call.compare(manifest.script().lines())
        comparison.compare(partitions)
    if manifest.kill is not None:
        _check_recovery(manifest.kill, findings)
    return findings


@contextmanager
def _opened(directory: DemoDirectory) -> Iterator[SqliteEngine]:
    engine = open_engine(directory.url, None)
    try:
        if not isinstance(engine, SqliteEngine):
            raise UsageError(f"{directory.url}: a demo's data is in a directory: name that")
        yield engine
    finally:
        engine.close()


def _walk(
    evidence: Evidence, roll_call: RollCall, comparison: Comparison, findings: Findings
) -> None:
    """Every stored input of one partition, once, in order."""
    first, folded = evidence.view.inbox_first(), evidence.head.position
    if first:
        raise UsageError(
            f"partition {evidence.number}: retention has removed the events before position "
            f"{first:,}: what they did cannot be audited any more"
        )
    roll_call.begin_partition()
    comparison.begin_partition()
    for entry in evidence.inputs():
        if not isinstance(entry, Row):
            comparison.fire(entry)
            continue
        if not entry.sender:
            roll_call.take(entry)
        comparison.take(entry, folded=entry.position < folded)
    comparison.end_partition()
    where = f"partition {evidence.number}"
    if evidence.inbox_next > folded:
        waiting = evidence.inbox_next - folded
        findings.fault("events", "not folded yet", f"{where} from position {folded:,} on", waiting)
    if evidence.hole_positions:
        text = f"{where} has positions without an event"
        findings.fault("events", "missing", text, evidence.hole_positions)


def _check_recovery(kill: Kill, findings: Findings) -> None:
    what = f"kill -9 of process {kill.process} at {kill.at:.1f} s"
    for partition in kill.partitions:
        seconds = kill.recovery_seconds.get(partition)
        if seconds is None:
            findings.fault("partitions", "never recovered", f"partition {partition} after {what}")
        else:
            findings.notes.append(f"{what}: partition {partition} went on after {seconds:.2f} s")


def report(directory: DemoDirectory, console: Console) -> bool:
    """Audit, print, and say whether nothing bad was found."""
    directory.manifest()  # a directory without a demo is refused before anything is printed
    place = escape(str(directory.path))
    console.print(f"\n[bold]Audit[/] of {place}: its log, states and outputs\n")
    with console.status("  reading every stored event, and computing what must follow"):
        findings = audit(directory)
    findings.show(console)
    return findings.passed


def quiet_console() -> Console:
    """80 columns at most, and colours only where they mean something."""
    console = Console(highlight=False)
    console.width = min(COLUMNS_MAX, console.width)
    return console


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m holdfast.demo.audit DIR", file=sys.stderr)
        return 2
    try:
        return 0 if report(DemoDirectory(Path(sys.argv[1])), quiet_console()) else 1
    except UsageError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
