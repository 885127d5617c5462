"""Plots as inline SVG: bars over time, bars per action, pairs of KPI bars. No scripts, no fonts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

COLOURS = {"missing": "#c2410c", "new": "#2563eb", "changed": "#a16207", "moved": "#7c8798"}
SERIES = ("#0f766e", "#7e22ce", "#be185d", "#4d7c0f", "#0369a1", "#92400e", "#475569", "#e11d48")
WIDTH = 860


class Bar(NamedTuple):
    """One row: a name and its parts, each a kind and a number."""

    name: str
    parts: Sequence[tuple[str, int]]


def over_time(since: float, bucket_seconds: float, counts: dict[str, list[int]]) -> str:
    """Differences per class of action, stacked, from left to right."""
    height, left, bottom = 220, 48, 26
    buckets = len(next(iter(counts.values()), []))
    tops = [sum(row[i] for row in counts.values()) for i in range(buckets)]
    most = max(tops, default=0)
    if not most:
        return '<p class="none">Nothing differs at any time.</p>'
    plot_height, step = height - bottom - 10, (WIDTH - left - 6) / buckets
    shapes = [_grid(left, plot_height, most)]
    for i in range(buckets):
        base = 0
        for colour, (name, row) in zip(_colours(counts), counts.items(), strict=True):
            if row[i]:
                tall = row[i] / most * plot_height
                y = 10 + plot_height - (base / most * plot_height) - tall
                at = _clock(since + i * bucket_seconds, bucket_seconds)
                wide = max(1.0, step - 1.5)
                shapes.append(
                    f'<rect x="{left + i * step:.1f}" y="{y:.1f}" width="{wide:.1f}" '
                    f'height="{tall:.1f}" fill="{colour}"><title>{escape(name)}: {row[i]:,} from '
                    f"{at}</title></rect>"
                )
                base += row[i]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = _clock(since + share * buckets * bucket_seconds, bucket_seconds)
        anchor = "start" if share == 0.0 else "end" if share == 1.0 else "middle"
        x = left + share * buckets * step
        shapes.append(f'<text x="{x:.0f}" y="{height - 6}" text-anchor="{anchor}">{at}</text>')
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for colour, name in zip(_colours(counts), counts, strict=True)
    )
    return f'{_svg(height, shapes, "differences over time")}<p class="legend">{legend}</p>'


def _colours(counts: dict[str, list[int]]) -> list[str]:
    return [SERIES[i % len(SERIES)] for i in range(len(counts))]


def _grid(left: int, plot_height: int, most: int) -> str:
    lines = []
    for share in (0.0, 0.5, 1.0) if most % 2 == 0 else (0.0, 1.0):  # counts have no halves
        y = 10 + plot_height * (1 - share)
        lines.append(
            f'<line x1="{left}" x2="{WIDTH - 6}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{most * share:,.0f}</text>'
        )
    return "".join(lines)


def stacked(bars: Sequence[Bar]) -> str:
    """One row per action: how many differ in which way."""
    row, left, right = 28, 150, 70
    most = max((sum(n for _, n in bar.parts) for bar in bars), default=0)
    shapes = []
    for i, bar in enumerate(bars):
        y, x = 4 + i * row, float(left)
        name = bar.name if len(bar.name) <= 22 else bar.name[:21] + "…"
        shapes.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        total = sum(n for _, n in bar.parts)
        for kind, number in bar.parts:
            wide = number / max(1, most) * (WIDTH - left - right)
            if number:
                shapes.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="20" '
                    f'fill="{COLOURS[kind]}"><title>{kind}: {number:,}</title></rect>'
                )
            x += wide
        shapes.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{total:,}</text>')
    legend = "".join(f'<span><i style="background:{c}"></i>{k}</span>' for k, c in COLOURS.items())
    plot = _svg(len(bars) * row + 8, shapes, "differences per action")
    return f'{plot}<p class="legend">{legend}</p>'


def pairs(rows: Sequence[tuple[str, float, float]]) -> str:
    """Two bars per KPI, each pair on a scale of its own: recorded above, fork below."""
    row, left, right = 46, 190, 110
    shapes = []
    for i, (name, recorded, fork) in enumerate(rows):
        most = max(abs(recorded), abs(fork)) or 1.0
        label = name if len(name) <= 28 else name[:27] + "…"
        y = 4 + i * row
        shapes.append(f'<text x="{left - 8}" y="{y + 22}" text-anchor="end">{escape(label)}</text>')
        for j, (value, colour) in enumerate(((recorded, "#94a3b8"), (fork, "#2563eb"))):
            wide = abs(value) / most * (WIDTH - left - right) if value == value else 0.0
            shapes.append(
                f'<rect x="{left}" y="{y + j * 18}" width="{wide:.1f}" height="15" '
                f'fill="{colour}"/>'
                f'<text x="{left + wide + 6:.1f}" y="{y + j * 18 + 12}">{value:,.6g}</text>'
            )
    legend = (
        '<span><i style="background:#94a3b8"></i>recorded</span>'
        '<span><i style="background:#2563eb"></i>fork</span>'
    )
    return f'{_svg(len(rows) * row + 4, shapes, "KPIs")}<p class="legend">{legend}</p>'


def _svg(height: int, shapes: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"{''.join(shapes)}</svg>"
    )


def _clock(seconds: float, resolution: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    if resolution < 1.0:
        return moment.strftime("%H:%M:%S.%f")[:-4]  # hundredths
    return moment.strftime("%H:%M:%S" if resolution < 60.0 else "%m-%d %H:%M")
