"""How results are printed: aligned for people, JSON lines for programs, never a control character
of somebody's data on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
import msgspec

FOLDED = {"action", "arguments", "error", "event", "from", "reason", "state"}  # titles of texts
FOLDED |= {"time", "since", "taken"}  # these between date and time
FOLDED_WIDTH = 13  # characters in a line, at least

_json = msgspec.json.Encoder().encode


def print_json(value: object) -> None:
    click.echo(_json(value).decode())


def moment(seconds: float) -> str:
    """A time as people and programs read it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def text_of(value: object) -> str:
    """Strings as they are, everything else as JSON; on one line."""
    text = value if isinstance(value, str) else _json(value).decode()
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def fields_of(values: dict[str, object]) -> str:
    return " ".join(f"{name}={text_of(value)}" for name, value in values.items())


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on a terminal; elsewhere one line per row, separated by tabs.

    Nothing is cut. Columns of text are folded to the width of the terminal; ids, names and numbers
    stay on one line, because they are copied into the next command.
    """
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    if not cells:
        click.echo("none")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    width = 3 * len(titles) - 1  # what is between the columns and around them
    for title, column in zip(titles, zip(titles, *cells, strict=True), strict=True):
        folded = title in FOLDED
        table.add_column(title, overflow="fold", no_wrap=not folded)
        longest = max(cell_len(cell) for cell in column)
        width += min(longest, FOLDED_WIDTH) if folded else longest
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(width=max(Console().width, width)).print(table)


def print_fields(title: str, values: dict[str, object]) -> None:
    """One thing: its title, then a line per field."""
    click.echo(text_of(title))
    width = max(map(len, values), default=0)
    for name, value in values.items():
        click.echo(f"  {name:<{width}}  {text_of(value)}")
