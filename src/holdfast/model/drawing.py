"""Boxes and arrows as SVG. Knows nothing of agents: it places text so that no text is crossed.

State diagrams stack their boxes; every arrow leaves on the right at a height of its own, carries
its label there, turns in a lane of its own further right and comes back. Charts are three columns.
"""

from dataclasses import dataclass
from xml.sax.saxutils import escape

CHARACTER = 7.3  # width of one character of the monospace font below, in pixels
LINE = 20
MARGIN = 24
LANE = 14


@dataclass(frozen=True)
class Box:
    title: str
    lines: list[str]


@dataclass(frozen=True)
class Arrow:
    source: int
    target: int
    label: str


@dataclass(frozen=True)
class Chart:
    """Three columns of names, and pairs of numbers for the lines between them."""

    events: list[str]
    handlers: list[str]
    outputs: list[str]
    taken: list[tuple[int, int]]
    sent: list[tuple[int, int]]


@dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    parts: list[str]


def page(title: str, drawings: list[tuple[str, Drawing]]) -> str:
    """All drawings under each other, each with its heading."""
    width = max([each.width for _, each in drawings] + [text_width(title) * 1.4]) + 2 * MARGIN
    parts = [_text(MARGIN, MARGIN + 16, title, "title")]
    top = MARGIN + 44.0
    for heading, drawing in drawings:
        parts.append(_text(MARGIN, top, heading, "heading"))
        inside = "\n".join(drawing.parts)
        parts.append(f'<g transform="translate({MARGIN},{top + 14:g})">\n{inside}\n</g>')
        top += drawing.height + 60
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{top:g}" '
        f'viewBox="0 0 {width:g} {top:g}">\n{_STYLE}\n{body}\n</svg>\n'
    )


def draw_states(boxes: list[Box], arrows: list[Arrow], first: int) -> Drawing:
    widest = max(text_width(text) for box in boxes for text in (box.title, *box.lines))
    left, width = 30.0, widest + 24
    parts: list[str] = []
    ports = _ports(arrows, len(boxes))
    top, tops = 0.0, []
    for number, box in enumerate(boxes):
        tops.append(top)
        height = LINE * (max(1 + len(box.lines), len(ports[number])) + 1)
        parts += _box(left, top, width, height, box)
        top += height + LINE
    parts.append(f'<circle cx="6" cy="{tops[first] + LINE}" r="5"/>')
    parts.append(_line([(11, tops[first] + LINE), (left, tops[first] + LINE)]))
    right = left + width
    labels = max([text_width(arrow.label) for arrow in arrows], default=0) + 16
    for number, arrow in enumerate(arrows):
        lane = right + labels + LANE * (number + 1)
        start = tops[arrow.source] + LINE * (ports[arrow.source].index((number, "out")) + 1)
        end = tops[arrow.target] + LINE * (ports[arrow.target].index((number, "in")) + 1)
        parts.append(_line([(right, start), (lane, start), (lane, end), (right, end)]))
        parts.append(_text(right + 8, start - 5, arrow.label, "label"))
    return Drawing(right + labels + LANE * (len(arrows) + 1), top, parts)


def _ports(arrows: list[Arrow], boxes: int) -> list[list[tuple[int, str]]]:
    """Which arrow ends meet each box, from top to bottom."""
    ports: list[list[tuple[int, str]]] = [[] for _ in range(boxes)]
    for number, arrow in enumerate(arrows):
        ports[arrow.source].append((number, "out"))
        ports[arrow.target].append((number, "in"))
    return ports


def draw_chart(chart: Chart) -> Drawing:
    columns = [chart.events, chart.handlers, chart.outputs]
    parts: list[str] = []
    left, edges = 0.0, []
    for names in columns:
        width = max([text_width(name) for name in names], default=0) + 24
        edges.append((left, left + width))
        for row, name in enumerate(names):
            parts += _box(left, row * 2 * LINE, width, 1.5 * LINE, Box(name, []))
        left += width + 80
    for begin, pairs in ((0, chart.taken), (1, chart.sent)):
        for one, other in pairs:
            start, end = (edges[begin][1], _middle(one)), (edges[begin + 1][0], _middle(other))
            parts.append(_line([start, end]))
    rows = max(len(names) for names in columns)
    return Drawing(left - 80, rows * 2 * LINE, parts)


def _middle(row: int) -> float:
    return row * 2 * LINE + 0.75 * LINE


def text_width(text: str) -> float:
    return len(text) * CHARACTER


def _box(left: float, top: float, width: float, height: float, box: Box) -> list[str]:
    parts = [f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6"/>']
    parts.append(_text(left + 12, top + LINE, box.title, "name"))
    for number, line in enumerate(box.lines):
        parts.append(_text(left + 12, top + LINE * (number + 2), line, "label"))
    return parts


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _line(points: list[tuple[float, float]]) -> str:
    joined = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{joined}" marker-end="url(#head)"/>'


_STYLE = """<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" \
markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>
<style>
text { font: 12px Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2933; }
.title { font-size: 16px; font-weight: bold; }
.heading { font-size: 14px; font-weight: bold; }
.name { font-weight: bold; }
.label { fill: #52606d; }
rect { fill: #f5f7fa; stroke: #3e4c59; }
polyline { fill: none; stroke: #3e4c59; }
</style>
<rect width="100%" height="100%" style="fill:#ffffff;stroke:none"/>"""
