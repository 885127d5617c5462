"""`fork`: the recorded past of a fleet under other code, and what comes out differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.options import engine_option
from holdfast.cli.output import fields_of, moment, print_table, text_of
from holdfast.cli.times import Place, parse_place
from holdfast.errors import UsageError
from holdfast.runtime.forking.report import ActionRow, FirstDifference, Report, moved_text

ROWS_SHOWN = 15


@click.command()
@click.argument("candidate")
@engine_option
@click.option("--from", "start", metavar="WHERE", help="TIME, POSITION or SNAPSHOT to begin at.")
@click.option("--until", metavar="WHERE", help="TIME or POSITION to end at. Default: now.")
@click.option("--agents", default="", metavar="LIST", help="Only these: 'Drone/d-1,Drone/t*'.")
@click.option("--baseline", metavar="FILE", help="Compare with a fork of this code instead.")
@click.option(
    "--kpi", "kpis", multiple=True, metavar="MODULE:FUNCTION", help="A figure to compare."
)
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option("--html", "html_file", metavar="FILE", help="Write the report as one page.")
@click.option(
    "--fail-above",
    multiple=True,
    metavar="N|N%",
    help="Exit with 1 if more decisions differ than this, in number or percent.",
)
@click.option("--calls-fail", is_flag=True, help="Calls without a recorded reply time out.")
@click.option(
    "--snapshots", "store", metavar="URL", help="Where snapshots are; beside the data unless given."
)
@click.option("--jobs", type=click.IntRange(min=0), default=0, help="Processes; 0: one per core.")
def fork(
    candidate: str,
    url: str,
    start: str | None,
    until: str | None,
    agents: str,
    baseline: str | None,
    kpis: Sequence[str],
    json_file: str | None,
    html_file: str | None,
    fail_above: Sequence[str],
    calls_fail: bool,
    store: str | None,
    jobs: int,
) -> None:
    """Fold the recorded past with CANDIDATE (fleet.py, fleet.py:name or module:name).

    Events from outside are taken as recorded; agents, messages and timers are the candidate's. What
    differs from production is shown. Production is only read and may go on meanwhile.
    """
    import msgspec

    from holdfast.runtime.forking.fork import Options
    from holdfast.runtime.forking.page import page_of
    from holdfast.runtime.forking.study import Question, study

    bounds = [_bound(each) for each in fail_above]
    end = math.inf if until is None else _time(url, until)
    options = Options(until=end, agents=agents, jobs=jobs, calls_fail=calls_fail)
    name = start if start is not None and _is_name(start) else None
    begin = _time(url, start) if start is not None and name is None else None
    report = study(Question(candidate, url, options, kpis, baseline, name, begin, store))
    if json_file is not None:
        Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if html_file is not None:
        Path(html_file).write_text(page_of(report), "utf-8")
    show(report)
    for text, share, most in bounds:
        if (report.percent if share else report.different) > most:
            click.echo(f"more than --fail-above {text}")
            click.get_current_context().exit(1)


def _bound(text: str) -> tuple[str, bool, float]:
    number = text.strip().removesuffix("%")
    try:
        most = float(number)
    except ValueError:
        most = math.nan
    if not most >= 0.0:
        raise UsageError(f"--fail-above {text!r}: write a number, as in 10, or a share, as in 0.5%")
    return text, text.strip().endswith("%"), most


def _time(url: str, text: str) -> float:
    """A time, or the time at which a position was taken."""
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.forking.starting import time_of

    place = parse_place(text)
    if not isinstance(place, Place):
        return place
    engine = open_engine(url, None)
    try:
        return time_of(engine, place.partition, place.position)
    finally:
        engine.close()


def _is_name(text: str) -> bool:
    """Whether this names a snapshot, because it is no time and no position."""
    try:
        parse_place(text)
    except UsageError:
        return True
    return False


# ---------------------------------------------------------------- the terminal


def show(report: Report) -> None:
    click.echo(
        f"{report.candidate} over {moment(report.since)} to {moment(report.until)}: "
        f"{report.inputs:,} inputs ({report.messages:,} messages, {report.firings:,} timers and "
        "urgent events) in "
        f"{report.seconds:.1f} s, {report.inputs_per_second:,.0f}/s with {report.jobs} "
        f"process{'es' if report.jobs > 1 else ''}"
    )
    if report.actions:
        titles = ("action", "recorded", "fork", "missing", "new", "changed", "moved")
        print_table(titles, [_counts(row) for row in report.actions])
    for kpi in report.kpis:
        change = kpi.fork - kpi.recorded
        click.echo(
            f"kpi {text_of(kpi.name)}: {kpi.recorded:g} recorded, {kpi.fork:g} fork ({change:+g})"
        )
    _show_differences(report)
    _show_rest(report)
    verdict = (
        f"{report.different:,} of {report.decisions:,} decisions differ ({report.percent:.2f} %)"
    )
    same = not report.different and not report.states.differing and not _letters_differ(report)
    click.echo("no difference" if same else verdict)


def _counts(row: ActionRow) -> list[str]:
    numbers = (row.recorded, row.fork, row.missing, row.new, row.changed, row.moved)
    return [row.name, *(f"{number:,}" for number in numbers)]


def _letters_differ(report: Report) -> bool:
    return bool(report.dead_letters.only_recorded or report.dead_letters.only_fork)


def _show_differences(report: Report) -> None:
    if report.agents_differing:
        click.echo(f"{report.agents_differing:,} agents decide differently, most of all:")
        for row in report.agents[:ROWS_SHOWN]:
            kinds = ("missing", "new", "changed", "moved")
            parts = [f"{getattr(row, k):,} {k}" for k in kinds if getattr(row, k)]
            click.echo(text_of(f"  {row.name}: {', '.join(parts)}"))
    for each in report.first_differences[:3]:
        click.echo(text_of(difference_text(each)))
        for lead in each.led_by:
            mark = {"both": " ", "recorded": "-", "fork": "+"}[lead.seen_by]
            what = f"{lead.origin} {lead.event} {fields_of(lead.values)}".rstrip()
            click.echo(text_of(f"  {mark} {moment(lead.time)} {what}"))


def difference_text(each: FirstDifference) -> str:
    what = f"{each.agent} at {moment(each.time)}: {each.action}"
    ours = fields_of(each.recorded or {})
    theirs = fields_of(each.fork or {})
    if each.kind == "missing":
        return f"{f'{what} {ours}'.rstrip()} is missing"
    if each.kind == "new":
        return f"{f'{what} {theirs}'.rstrip()} is new"
    if each.kind == "moved":
        return f"{f'{what} {theirs}'.rstrip()} comes {moved_text(each.moved_by)}"
    return f"{what} is {theirs}, was {ours}"


def _show_rest(report: Report) -> None:
    states, letters, others = report.states, report.dead_letters, report.messages_and_timers
    if states.differing:
        fields = ", ".join(f"{name} {count:,}" for name, count in states.fields.items())
        click.echo(text_of(f"states: {states.differing:,} of {states.compared:,} differ: {fields}"))
        for row in states.examples[:3]:
            values = f"{text_of(row.recorded)} recorded, {text_of(row.fork)} fork"
            click.echo(text_of(f"  {row.agent} {row.field}: {values}"))
    if states.unknown:
        click.echo(f"states: {states.unknown:,} changed after the end of the fork: not compared")
    if states.new_fields:
        click.echo(f"states: only the candidate has {', '.join(states.new_fields)}")
    if _letters_differ(report):
        click.echo(
            f"dead letters: {letters.recorded:,} recorded, {letters.fork:,} fork; "
            f"{letters.only_recorded:,} are gone, {letters.only_fork:,} are new"
        )
        for letter in letters.examples_fork[:3]:
            click.echo(text_of(f"  {letter.agent} {letter.event}: {letter.error}"))
    if others.only_recorded or others.only_fork:
        click.echo(
            f"messages and timers: {others.only_recorded:,} only recorded, "
            f"{others.only_fork:,} only in the fork"
        )
    for call in report.calls_unanswered[:ROWS_SHOWN]:
        what = f"{call.function} by {call.agent}, {call.count:,} times"
        click.echo(text_of(f"call without a recorded reply: {what}"))
