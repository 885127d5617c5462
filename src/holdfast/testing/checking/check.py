"""A whole check: the code is read, a recording folded in two processes, claims are put to the test.

Findings and broken claims fail a check. Notes do not: a handler that raises for a made-up event
may be right to, since dead letters are legal.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.testing.checking.comparing import Divergence, compare
from holdfast.testing.checking.doubling import Broken
from holdfast.testing.checking.findings import Finding, shown
from holdfast.testing.checking.folding import Failure
from holdfast.testing.checking.limiting import STEP_SECONDS
from holdfast.testing.checking.recording import stored_recording
from holdfast.testing.checking.running import Processes, claims, temporary_folder
from holdfast.testing.checking.static import read_fleet

DEFAULT_EVENTS = 1_000


class Problem(NamedTuple):
    """One line of a report. `level` is "finding" or "note"."""

    level: str
    kind: str  # code, divergence, idempotence, failure, other
    text: str
    data: dict[str, object]


class Report(NamedTuple):
    problems: list[Problem]
    summary: str

    @property
    def clean(self) -> bool:
        return not any(each.level == "finding" for each in self.problems)


def check(
    reference: str,
    *,
    url: str | None,
    events: int | None,
    seed: int,
    step_seconds: float = STEP_SECONDS,
) -> Report:
    """`url` names stored data to fold; without one, events are made up from the seed."""
    fleet = load_fleet(reference)
    findings, unreadable = read_fleet(fleet)
    problems = [_code(each) for each in findings]
    problems += [
        _note(f"the source of {each} is not to be had, so not read") for each in unreadable
    ]
    with temporary_folder() as folder:
        processes = Processes(reference, seed, Path(folder), step_seconds)
        problems += _recorded(processes, fleet, url, events)
        compared = compare(processes)
        claimed = claims(fleet)
        doubled = processes.run("twice") if claimed else None
    problems += [_divergence(each, findings) for each in compared.divergences]
    problems += [_unfinished(each) for each in compared.stopped]
    if doubled is not None:
        problems += [_broken(each) for each in doubled.broken]
        if not doubled.doubled:
            problems.append(_note(f"no event reached {', '.join(claimed)}: nothing was doubled"))
    problems += _failures(compared.failures)
    handlers = sum(len(each.__holdfast__.handlers) for each in fleet.agents.values())
    summary = f"{handlers} handlers read, {compared.inputs:,} inputs folded in two processes"
    if doubled is not None:
        summary += f", {doubled.doubled:,} of them twice in a row"
    return Report(problems, summary)


def _recorded(
    processes: Processes, fleet: FleetModel, url: str | None, events: int | None
) -> list[Problem]:
    """Make the recording; notes about what it lacks."""
    if url is None:
        processes.record(DEFAULT_EVENTS if events is None else events)
        return []
    recording = stored_recording(fleet, url, events)
    recording.write(processes.recording)
    processes.use(recording.events + recording.inherited)
    notes = []
    if recording.cut:
        notes.append(_note("retention has removed the first events: agents begin with defaults"))
    if not recording.events:
        notes.append(_note(f"{url}: nothing is folded there yet, so nothing was compared"))
    return notes


# ---------------------------------------------------------------- lines of the report


def _note(text: str) -> Problem:
    return Problem("note", "other", text, {})


def _unfinished(where: str) -> Problem:
    """What was not folded was not compared: that is not clean."""
    return Problem("finding", "other", f"folding ended early {where}; the rest is unchecked", {})


def _code(finding: Finding) -> Problem:
    return Problem("finding", "code", str(finding), finding._asdict())


def _divergence(each: Divergence, findings: list[Finding]) -> Problem:
    where = f"{_place(each.place)}: {each.handler}: " if each.handler else ""
    at = f"event {each.number}"
    if each.partition:
        at += f" of partition {each.partition}"
    at += f" ({each.subject}, {_cut(each.event)})" if each.subject else ""
    if each.difference is None:
        said = "two runs differed here once, and not again: look for clocks and randomness"
    else:
        of = "" if each.difference.agent in ("", each.subject) else f"{each.difference.agent} "
        one, other = (_cut(repr(value)) for value in each.difference.values)
        said = f"two runs differ, {of}{each.difference.what}: {one} and {other}"
    hints = [f for f in findings if f.subject.partition(" ")[0] == each.handler]
    hint = f"; probably because of {hints[0].place}: {hints[0].what}" if hints else ""
    if each.batch and not hints:
        hint = "; only if one commit has both this and earlier events: one list in two fields?"
    data = {
        "event": each.number,
        "partition": each.partition,
        "agent": each.subject,
        "input": each.event,
        "handler": each.handler,
        "what": None if each.difference is None else each.difference.what,
        "values": None if each.difference is None else list(each.difference.values),
        "hint": hints[0].place if hints else None,
    }
    return Problem("finding", "divergence", f"{where}{at}: {said}{hint}", data)


def _broken(each: Broken) -> Problem:
    found = each.difference
    one, other = (_cut(repr(value)) for value in found.values)
    if found.what == "actions" or found.what.startswith("messages"):
        said = f"the second delivery adds to its {found.what.partition(' ')[0]} {other}"
    else:
        said = f"{found.what} is {one} after the first delivery and {other} after the second"
    text = (
        f"{_place(each.place)}: {each.handler}: is declared idempotent, but for {each.subject}, "
        f"{_cut(each.event)}, {said}; make it so, or remove idempotent=True"
    )
    data: dict[str, object] = {
        "handler": each.handler,
        "agent": each.subject,
        "input": each.event,
        "what": found.what,
        "values": list(found.values),
    }
    return Problem("finding", "idempotence", text, data)


def _failures(failures: list[Failure]) -> list[Problem]:
    """One note per handler and kind of error, by its first event."""
    first: dict[tuple[str, str], Failure] = {}
    counts: dict[tuple[str, str], int] = {}
    for each in failures:
        at = (each.handler, each.error.partition(":")[0])
        first.setdefault(at, each)
        counts[at] = counts.get(at, 0) + 1
    return [
        Problem(
            "note",
            "failure",
            f"{each.handler} raised {_cut(each.error)} for {counts[at]} of the events, first for "
            f"event {each.number} ({each.subject}, {_cut(each.event)})",
            {
                "handler": each.handler,
                "error": each.error,
                "count": counts[at],
                "event": each.number,
                "agent": each.subject,
                "input": each.event,
            },
        )
        for at, each in first.items()
    ]


def _place(place: str) -> str:
    file, _, line = place.rpartition(":")
    return f"{shown(file)}:{line}"


def _cut(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
