"""What a person sees of a running demo: a live view in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live as LiveDisplay
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.demo.run import Sample

LINES_MAX = 6
REFRESH_SECONDS = 0.2
PLAIN_SECONDS = 1.0


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 0.1 else f"{seconds * 1000:,.0f} ms"


def render(sample: Sample) -> RenderableType:
    """The whole view, at most 80 columns wide."""
    parts = [_progress(sample), Text(), _figures(sample), Text(), _partitions(sample), Text()]
    for line in sample.lines[-LINES_MAX:]:
        style = "yellow" if "kill -9" in line else "green" if "goes on" in line else "dim"
        parts.append(Text(line, style=style))
    return Padding(Group(*parts), (0, 2))


def _progress(sample: Sample) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=sample.seconds, completed=sample.elapsed, width=58)
    grid.add_row(bar, f"{sample.elapsed:.0f} of {sample.seconds:g} s")
    return grid


def _figures(sample: Sample) -> RenderableType:
    p50, p99 = map(milliseconds, sample.latency) if sample.latency else ("-", "-")
    first = Text.assemble(
        (f"{sample.events_per_second:>9,.0f}", "bold"),
        " events/s      event to action    p50 ",
        (f"{p50:>9}", "bold"),
        "    p99 ",
        (f"{p99:>9}", "bold"),
    )
    second = Text(
        f"{sample.folded:>9,} folded   {sample.messages:>8,} messages"
        f"   {sample.timers:>8,} timers   {sample.actions:>8,} actions"
    )
    return Group(first, second)


def _partitions(sample: Sample) -> RenderableType:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("partition")
    table.add_column("owner", min_width=16)
    table.add_column("position", justify="right", min_width=12)
    table.add_column("lag", justify="right", min_width=9)
    for partition in sample.partitions:
        owner = partition.owner or "[yellow]nobody[/]"
        table.add_row(str(partition.number), owner, f"{partition.position:,}", f"{partition.lag:,}")
    return table


def plain(sample: Sample) -> str:
    """One line for a log."""
    p50, p99 = map(milliseconds, sample.latency) if sample.latency else ("-", "-")
    lags = " ".join(f"{p.number}:{p.lag:,}" for p in sample.partitions)
    return (
        f"{sample.elapsed:5.1f} s  {sample.events_per_second:>8,.0f} events/s  "
        f"p50 {p50}  p99 {p99}  lag {lags}"
    )


class Screen:
    """Shows samples until told that it is over."""

    def __init__(self, console: Console, *, live: bool) -> None:
        self._console = console
        self._live = live

    def follow(self, sample: Callable[[], Sample], turn: Callable[[], bool]) -> None:
        """Call `turn` many times a second while it returns True; show a sample now and then."""
        if self._live:
            with LiveDisplay(console=self._console, auto_refresh=False) as display:
                while turn():
                    display.update(render(sample()), refresh=True)
                    time.sleep(REFRESH_SECONDS)
                display.update(render(sample()), refresh=True)
            return
        printed = 0
        shown_at = time.monotonic()
        while turn():
            printed = self._print_lines(sample, printed)
            if time.monotonic() >= shown_at + PLAIN_SECONDS:
                shown_at += PLAIN_SECONDS
                self._console.print(plain(sample()))
            time.sleep(0.05)
        self._print_lines(sample, printed)

    def _print_lines(self, sample: Callable[[], Sample], printed: int) -> int:
        lines = sample().lines
        for line in lines[printed:]:
            self._console.print(line)
        return len(lines)
