"""The report as one page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

from holdfast.runtime.forking.comparing import KINDS
from holdfast.runtime.forking.plots import Bar, over_time, pairs, stacked
from holdfast.runtime.forking.report import FirstDifference, Report, moved_text

AGENTS_SHOWN = 20

_STYLE = """
:root{--ink:#1e293b;--dim:#64748b;--line:#e2e8f0;--paper:#ffffff;--soft:#f8fafc}
*{box-sizing:border-box}body{margin:0;background:#eef2f6;color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;margin:0 0 4px}
h2{font-size:17px;margin:0 0 12px}.sub{color:var(--dim);margin:0 0 24px}
section{background:var(--paper);border:1px solid var(--line);border-radius:10px;
padding:20px 24px;margin:0 0 18px}.tiles{display:grid;gap:14px;margin-bottom:18px;
grid-template-columns:repeat(auto-fit,minmax(150px,1fr))}.tile{background:var(--paper);
border:1px solid var(--line);border-radius:10px;padding:14px 18px}.tile b{display:block;
font-size:24px;line-height:1.2}.tile span{color:var(--dim);font-size:13px}.good b{color:#15803d}
.bad b{color:#b91c1c}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--dim);font-weight:600;font-size:13px}th,td{padding:6px 10px 6px 0;
border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
tr:last-child td{border-bottom:0}svg{width:100%;height:auto;display:block}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}svg .grid{stroke:var(--line)}
.legend{margin:8px 0 0;color:var(--dim);font-size:13px}.legend span{margin-right:16px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.none{color:var(--dim);margin:0}code{font:13px ui-monospace,Menlo,Consolas,monospace;
overflow-wrap:anywhere}details{border-top:1px solid var(--line);padding:8px 0}
details:first-of-type{border-top:0}summary{cursor:pointer}.kind{display:inline-block;
min-width:66px;font-size:12px;font-weight:600;border-radius:5px;padding:1px 8px;color:#fff;
text-align:center;margin-right:8px}.missing{background:#c2410c}.new{background:#2563eb}
.changed{background:#a16207}.moved{background:#7c8798}.lead{margin:8px 0 4px;padding:8px 12px;
background:var(--soft);border-radius:8px}.lead div{white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.6 ui-monospace,Menlo,Consolas,monospace}.fork{color:#1d4ed8}.recorded{color:#c2410c}
@media print{body{background:#fff}section,.tile{break-inside:avoid}}
"""


def page_of(report: Report) -> str:
    parts = [
        _heading(report),
        _tiles(report),
        _section("Differences over time", over_time(*_timeline(report))),
        _section("Decisions", _decisions(report)),
    ]
    if report.kpis:
        figures = pairs([(kpi.name, kpi.recorded, kpi.fork) for kpi in report.kpis])
        parts.append(_section("KPIs", figures))
    if report.first_differences:
        parts.append(_section("First differences", _firsts(report)))
    if report.agents:
        parts.append(_section("Agents that decide differently", _agents(report)))
    parts.append(_section("States at the end", _states(report)))
    parts.append(_section("Dead letters, messages and timers", _others(report)))
    if report.calls_unanswered:
        parts.append(_section("Calls without a recorded reply", _calls(report)))
    title = f"Fork of {report.fleet}: {report.candidate}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _heading(report: Report) -> str:
    return (
        f"<h1>{escape(report.candidate)} on the past of {escape(report.fleet)}</h1>"
        f'<p class="sub">{_moment(report.since)} to {_moment(report.until)}, from '
        f"{escape(report.start)}, compared with {escape(report.compared_with)}. "
        f"{report.inputs:,} inputs of {report.partitions} partitions in {report.seconds:.1f} s.</p>"
    )


def _tiles(report: Report) -> str:
    letters = report.dead_letters.only_fork
    tiles = [
        (f"{report.different:,}", f"of {report.decisions:,} decisions differ", report.different),
        (f"{report.percent:.2f} %", "of all decisions", report.different),
        (f"{report.agents_differing:,}", "agents decide differently", report.agents_differing),
        (
            f"{report.states.differing:,}",
            f"of {report.states.compared:,} states differ",
            report.states.differing,
        ),
        (f"{letters:,}", "new dead letters", letters),
    ]
    shown = "".join(
        f'<div class="tile {mood}"><b>{number}</b><span>{text}</span></div>'
        for number, text, wrong in tiles
        for mood in ["bad" if wrong else "good"]
    )
    return f'<div class="tiles">{shown}</div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _timeline(report: Report) -> tuple[float, float, dict[str, list[int]]]:
    line = report.over_time
    return line.since, line.bucket_seconds, line.counts


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]], words: int = 1) -> str:
    """The first `words` columns are text, the others numbers."""
    head = "".join(
        f"<th{'' if i < words else ' class=n'}>{escape(t)}</th>" for i, t in enumerate(titles)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{_cell(value)}</td>" if i < words else f'<td class="n">{_cell(value)}</td>'
            for i, value in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int):
        return f"{value:,}" if value else '<span style="color:#cbd5e1">0</span>'
    return f"<code>{escape(_text(value))}</code>"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _decisions(report: Report) -> str:
    if not report.actions:
        return '<p class="none">Neither of the two has decided anything.</p>'
    rows = [
        (r.name, r.recorded, r.fork, r.missing, r.new, r.changed, r.moved) for r in report.actions
    ]
    table = _table(("action", "recorded", "fork", *KINDS), rows)
    differing = [row for row in report.actions if row.different]
    if not differing:
        return table
    bars = [Bar(r.name, [(kind, getattr(r, kind)) for kind in KINDS]) for r in differing[:20]]
    return f"{stacked(bars)}<div style='height:14px'></div>{table}"


def _fields(values: dict[str, object] | None) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in (values or {}).items())


def _firsts(report: Report) -> str:
    """The very first is shown with what led to it; the others open with a click."""
    found = "".join(map(_first, report.first_differences))
    return found.replace("<details>", "<details open>", 1)


def _first(each: FirstDifference) -> str:
    ours, theirs = escape(_fields(each.recorded)), escape(_fields(each.fork))
    told = {
        "missing": f"<code>{ours}</code>",
        "new": f"<code>{theirs}</code>",
        "changed": f"<code>{ours}</code> → <code>{theirs}</code>",
        "moved": f"<code>{theirs}</code> {moved_text(each.moved_by)}",
    }[each.kind]
    marks = {"both": " ", "recorded": "−", "fork": "+"}
    leads = "".join(
        f'<div class="{lead.seen_by}">{marks[lead.seen_by]} {_moment(lead.time)}  '
        f"{escape(lead.origin)} {escape(lead.event)} {escape(_fields(lead.values))}</div>"
        for lead in each.led_by
    )
    return (
        f'<details><summary><span class="kind {each.kind}">{each.kind}</span>'
        f"<b>{escape(each.action)}</b> of {escape(each.agent)} at {_moment(each.time)} {told}"
        f'</summary><div class="lead">{leads or "no inputs found"}</div></details>'
    )


def _agents(report: Report) -> str:
    rows = [(r.name, r.missing, r.new, r.changed, r.moved) for r in report.agents[:AGENTS_SHOWN]]
    more = report.agents_differing - len(rows)
    rest = f'<p class="none">and {more:,} more</p>' if more > 0 else ""
    return _table(("agent", *KINDS), rows) + rest


def _states(report: Report) -> str:
    states = report.states
    notes = [f"{states.compared:,} agents compared, {states.differing:,} differ."]
    if states.unknown:
        notes.append(f"{states.unknown:,} were changed by production after the end of the fork.")
    if states.new_fields:
        notes.append(f"Only the candidate has {', '.join(states.new_fields)}.")
    text = f'<p class="none">{escape(" ".join(notes))}</p>'
    if not states.fields:
        return text
    often = sorted(states.fields, key=lambda name: (-states.fields[name], name))
    fields = _table(("field", "agents"), [(name, states.fields[name]) for name in often])
    rows = [(e.agent, e.field, [e.recorded], [e.fork]) for e in states.examples[:12]]
    examples = _table(("agent", "field", "recorded", "fork"), rows, words=4)
    return f"{text}{fields}<div style='height:14px'></div>{examples}"


def _others(report: Report) -> str:
    letters, others = report.dead_letters, report.messages_and_timers
    rows = [
        ("dead letters", letters.recorded, letters.fork, letters.only_recorded, letters.only_fork),
        (
            "messages, timers, replies",
            report.messages + report.firings - others.only_fork + others.only_recorded,
            report.messages + report.firings,
            others.only_recorded,
            others.only_fork,
        ),
    ]
    table = _table(("", "recorded", "fork", "only recorded", "only fork"), rows)
    found = [(e.agent, e.event, _moment(e.time), e.error) for e in letters.examples_fork[:10]]
    if not found:
        return table
    return table + _table(("new dead letter of", "event", "at", "error"), found, words=4)


def _calls(report: Report) -> str:
    rows = [(c.function, c.agent, [c.arguments], c.count) for c in report.calls_unanswered[:20]]
    return _table(("function", "agent", "arguments", "times"), rows, words=3)
