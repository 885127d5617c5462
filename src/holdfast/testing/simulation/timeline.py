"""A failing run told to a person: what is broken, how to see it again, what happened before."""

from __future__ import annotations

from holdfast.testing.simulation.findings import Finding, Promise
from holdfast.testing.simulation.run import Run
from holdfast.testing.simulation.universe import Line

LINES_MAX = 60


def tell(run: Run, findings: list[Finding], command: str) -> str:
    """Plain text, the reproducing command first."""
    parts = [f"seed {run.seed} breaks a promise; see it again with: {command}"]
    parts += [f"  {finding}" for finding in findings[:5]]
    if findings[0].promise is Promise.FOLD:
        parts.append("  the usual cause is a handler that is not deterministic: try holdfast check")
    if len(findings) > 5:
        parts.append(f"  and {len(findings) - 5} more findings")
    parts.append(
        f"the smallest run of this seed that shows it: {run.operations} operations, "
        f"{len(run.struck)} faults"
    )
    parts += [str(line) for line in _relevant(run.trace, findings[0])]
    return "\n".join(parts)


def _relevant(trace: list[Line], finding: Finding) -> list[Line]:
    """Faults, and what concerns the partition of the finding, up to shortly after it."""
    lines = [
        line
        for line in trace
        if line.fault or line.partition is None or finding.partition in (None, line.partition)
    ]
    if finding.at is not None:
        before = [line for line in lines if line.at <= finding.at]
        after = [line for line in lines if line.at > finding.at]
        lines = before + after[:5]
    if len(lines) <= LINES_MAX:
        return lines
    left_out = len(lines) - LINES_MAX
    return [Line(lines[0].at, "…", f"{left_out} lines left out"), *lines[-LINES_MAX:]]
