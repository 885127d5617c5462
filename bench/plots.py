"""The plots of a run, as PNG. matplotlib is of the extra `bench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.results import Result

Draw = Callable[[Any, Sequence[Result], Sequence[str]], bool]


def plot(document: dict[str, Any], folder: Path) -> list[str]:
    """Draws what there are figures for; the Markdown that shows it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    results = [Result.from_json(fields) for fields in document["results"]]
    sound = [r for r in results if not r.missing and not r.wrong and not r.slow_sync]
    names = list(document["guarantees"])
    plots: list[tuple[str, str, Draw]] = [
        ("bench-throughput", "Positions: events/s of each contender", _throughput),
        ("bench-latency", "p99 of event to action at offered rates", _latency),
        ("bench-growth", "events/s with more and more agents", _growth),
    ]
    shown = []
    for file, title, draw in plots:
        figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=120)
        if draw(axes, sound, names):
            axes.set_title(title)
            axes.grid(alpha=0.3)
            figure.tight_layout()
            # Nothing of the moment or the version in the file: the same figures, the same bytes.
            figure.savefig(folder / f"{file}.png", metadata={"Software": None})
            shown.append(f"![{title}]({folder.name}/{file}.png)")
        pyplot.close(figure)
    return shown


def _throughput(axes: Any, results: Sequence[Result], names: Sequence[str]) -> bool:
    rates = {
        name: max(r.per_second for r in results if r.contender == name and r.workload == "base")
        for name in names
        if any(r.contender == name and r.workload == "base" for r in results)
    }
    axes.barh(list(rates)[::-1], list(rates.values())[::-1])
    for place, value in enumerate(list(rates.values())[::-1]):
        axes.text(value, place, f" {value:,.0f}", va="center")
    axes.margins(x=0.2)
    return bool(rates)


def _latency(axes: Any, results: Sequence[Result], names: Sequence[str]) -> bool:
    for name in names:
        for kind, style in (("latency", "-"), ("arrival", ":")):
            points = [
                (float(r.workload.partition("-")[2]), r.figures[kind]["p99_ms"])
                for r in results
                if r.contender == name
                and r.workload.startswith("latency-")
                and "p99_ms" in r.figures.get(kind, {})
            ]
            if points:
                label = name if kind == "latency" else f"{name}, uncommitted"
                axes.plot(*zip(*sorted(points), strict=True), style, marker="o", label=label)
    if not axes.lines:
        return False
    axes.set(xscale="log", yscale="log", xlabel="events/s offered", ylabel="p99, ms")
    axes.legend(fontsize="small")
    return True


def _growth(axes: Any, results: Sequence[Result], names: Sequence[str]) -> bool:
    for name in names:
        points: dict[float, float] = {}
        for r in results:
            if r.contender == name and r.workload.startswith("agents-"):
                agents = float(r.workload.partition("-")[2])
                points[agents] = max(r.per_second, points.get(agents, 0.0))  # the better setting
        if points:
            axes.plot(*zip(*sorted(points.items()), strict=True), marker="o", label=name)
    if not axes.lines:
        return False
    axes.set(xscale="log", xlabel="agents", ylabel="events/s")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    return True
