"""`query`: SQL over what a fleet has committed, or had at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import engine_option
from holdfast.cli.output import print_json, print_table, text_of
from holdfast.cli.times import parse_time
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.model.fleet import FleetModel
    from holdfast.view.sql.limits import Answer
    from holdfast.view.sql.queries import Queries

MIB = 1024 * 1024


@click.command()
@click.argument("sql", required=False)
@click.option("--tables", is_flag=True, help="List the tables and their columns.")
@click.option("--watch", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Ask again.")
@click.option("--since", metavar="TIME", help="Read events and actions from then on.")
@click.option("--at", metavar="TIME", help="Agents as they were then: folds the past again.")
@click.option("--fleet", metavar="FLEET", help="The code to fold it with, for --at.")
@click.option("--snapshots", metavar="URL", help="For --at; beside the data unless given.")
@click.option("--rows", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--log-rows", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option(
    "--memory", type=click.IntRange(min=64), default=512, show_default=True, metavar="MIB"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def query(
    url: str,
    sql: str | None,
    tables: bool,
    watch: float | None,
    since: str | None,
    at: str | None,
    fleet: str | None,
    snapshots: str | None,
    rows: int,
    log_rows: int,
    seconds: float,
    memory: int,
    as_json: bool,
) -> None:
    """Ask in SQL: one SELECT over agents, events, actions, dead_letters and partitions.

    \b
    holdfast query "SELECT mode, count(*), avg(battery) FROM drone GROUP BY mode"
    holdfast query "SELECT * FROM partitions" --watch 1
    holdfast query "SELECT count(*) FROM drone" --at -2h --fleet fleet.py
    """
    from holdfast.runtime.untyped import connect_untyped
    from holdfast.view.sql.limits import Limits
    from holdfast.view.sql.queries import Queries

    if (sql is None) != tables:
        raise UsageError("give one SELECT statement, or --tables")
    limits = Limits(
        seconds=seconds, rows_max=rows, log_rows_max=log_rows, memory_bytes=memory * MIB
    )
    moment = None if at is None else parse_time(at)
    start = None if since is None else parse_time(since)
    code = None if fleet is None else partial(_load, fleet)
    with connect_untyped(url) as live, Queries(live, limits) as queries:
        if sql is None:
            _print_tables(queries, as_json)
            return
        ask = partial(queries.answer, sql, since=start, at=moment, fleet=code, snapshots=snapshots)
        if watch is None:
            _print(ask(), as_json)
        elif sys.stdout.isatty() and not as_json:
            _redraw(ask, watch)
        else:
            while True:
                _print(ask(), as_json)
                sys.stdout.flush()
                time.sleep(watch)


def _load(fleet: str) -> FleetModel:
    from holdfast.runtime.loading import load_fleet

    return load_fleet(fleet)


def _print_tables(queries: Queries, as_json: bool) -> None:
    found = [
        (table, name, kind) for table, columns in queries.tables().items() for name, kind in columns
    ]
    if as_json:
        for table, name, kind in found:
            print_json({"table": table, "column": name, "type": kind})
        return
    print_table(("table", "column", "type"), found)


def _print(answer: Answer, as_json: bool) -> None:
    titles = [name for name, _ in answer.columns]
    if as_json:
        for row in answer.rows:
            print_json(dict(zip(_distinct(titles), row, strict=True)))
    else:
        print_table([text_of(title) for title in titles], map(_cells, answer.rows))
    for line in _remarks(answer):
        click.echo(f"holdfast: {line}", err=True)


def _remarks(answer: Answer) -> list[str]:
    positions = ",".join(f"{number}:{at}" for number, at in sorted(answer.positions.items()))
    lines = [f"as of {positions}", *answer.notes]
    if answer.truncated:
        lines.append(f"there are more rows than these {len(answer.rows):,}: --rows")
    return lines


def _cells(row: Sequence[object]) -> list[str]:
    return ["" if each is None else text_of(each) for each in row]


def _distinct(titles: Sequence[str]) -> list[str]:
    """Names of columns as names of fields, which cannot occur twice."""
    found: list[str] = []
    for title in titles:
        name, number = title, 2
        while name in found:
            name, number = f"{title}_{number}", number + 1
        found.append(name)
    return found


def _redraw(ask: Callable[[], Answer], seconds: float) -> None:
    """In place, until Ctrl-C."""
    from rich import box
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    def picture() -> Group:
        answer = ask()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, _ in answer.columns:
            table.add_column(Text(text_of(name)), overflow="fold")
        for row in answer.rows:
            table.add_row(*map(Text, _cells(row)))
        return Group(table, *(Text(line, style="dim") for line in _remarks(answer)))

    with Live(picture(), console=Console(), auto_refresh=False, screen=False) as screen:
        while True:
            time.sleep(seconds)
            screen.update(picture(), refresh=True)
