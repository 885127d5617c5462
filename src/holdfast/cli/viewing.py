"""`view`: the read models of a fleet: what is in them, how they do, and folding one apart."""

from __future__ import annotations

import logging
import threading

import click

from holdfast.cli.options import Command, engine_option, views_option
from holdfast.cli.output import fields_of, print_fields, print_json, print_table, text_of

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")


def _known(command: Command) -> Command:
    return engine_option(views_option(command))


@click.group()
def view() -> None:
    """Views: rows by key that a class folds from the events and actions of many agents.

    `holdfast run` folds those of its fleet. Reading needs no program.
    """


@view.command("show")
@click.argument("name")
@click.argument("key", required=False)
@click.option("--after", metavar="RECEIPT", help="Wait until those events are in it.")
@click.option("--timeout", type=click.FloatRange(0.0), default=10.0, show_default=True)
@json_option
@_known
def show(
    url: str,
    name: str,
    key: str | None,
    after: str | None,
    timeout: float,
    as_json: bool,
    views: str | None,
) -> None:
    """Show the rows of view NAME, or the one row of KEY (exit code 1 if there is none)."""
    from holdfast.runtime.untyped import connect_untyped, read_receipt
    from holdfast.runtime.viewing.reading import values_of

    receipt = None if after is None else read_receipt(after)
    with connect_untyped(url) as live:
        stored = live.stored_view(name, views)
        stored.check_known()
        if key is None:
            found = values_of(stored.rows(after=receipt, timeout=timeout))
        else:
            found = values_of(stored.row(key, receipt, timeout))
    if as_json:
        for each, row in found:
            print_json({"key": each, "row": row})
    elif key is None:
        print_table(("key", "state"), [(each, fields_of(row)) for each, row in found])
    elif found:
        print_fields(f"{name}/{key}", found[0][1])
    if key is not None and not found:
        click.echo(f"view {name} has no row {key}", err=True)
        click.get_current_context().exit(1)


@view.command("list")
@json_option
@_known
def list_(url: str, as_json: bool, views: str | None) -> None:
    """List the views that are kept, with what waits to be folded into each."""
    from holdfast.runtime.untyped import connect_untyped
    from holdfast.runtime.viewing.shelf import names_in

    with connect_untyped(url) as live:
        names = names_in(live.views_folder(views))
        found = [live.stored_view(name, views).standing() for name in names]
    if as_json:
        for one in found:
            print_json(one._asdict())
        return
    titles = ("view", "rows", "waiting", "missing", "doing")
    rows = [
        (one.view, *(f"{n:,}" for n in (one.rows, one.waiting, one.missing)), one.doing)
        for one in found
    ]
    print_table(titles, rows)
    for one in found:
        if one.why:
            click.echo(f"{one.view}: {text_of(one.why)}", err=True)


@view.command("rebuild")
@click.argument("name")
@_known
def rebuild(url: str, name: str, views: str | None) -> None:
    """Have view NAME folded again from the beginning; what there is serves meanwhile."""
    from holdfast.runtime.untyped import connect_untyped

    with connect_untyped(url) as live:
        at_once = live.stored_view(name, views).ask_for_rebuild()
    when = "is being rebuilt" if at_once else "will be rebuilt when somebody folds it"
    click.echo(f"view {name} {when}; `holdfast view list` tells how far it is")


@view.command("run")
@click.argument("reference", metavar="VIEW")
@_known
def run(url: str, reference: str, views: str | None) -> None:
    """Fold VIEW (fleet.py:NAME or module:NAME) apart from its fleet until SIGTERM or Ctrl-C."""
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.loading import load_view
    from holdfast.runtime.supervised import when_told_to_finish
    from holdfast.runtime.viewing.running import Runner, Views
    from holdfast.runtime.viewing.shelf import views_folder

    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    found = load_view(reference)
    name = found.__holdfast__.name
    engine = open_engine(url, None)
    try:
        folder = views_folder(engine, views)
        Runner(engine, found, folder).check_free()
        running = Views(engine, [found], folder)
        stopping = threading.Event()
        when_told_to_finish(stopping.set)
        click.echo(f"{engine.catalog.fleet}: folding view {name} into {folder}")
        stopping.wait()
        running.stop()
        click.echo(f"{engine.catalog.fleet}: view {name} is folded no more")
    finally:
        engine.close()
