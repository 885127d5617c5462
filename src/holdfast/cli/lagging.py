"""`lag`: what waits to be folded, partition by partition."""

from __future__ import annotations

import click

from holdfast.cli.options import engine_option
from holdfast.cli.output import print_json, print_table, text_of


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--metrics", is_flag=True, help="In the text format of Prometheus.")
@engine_option
def lag(url: str, as_json: bool, metrics: bool) -> None:
    """Show how many events wait in each partition, since when, and who folds it.

    On engines that hand partitions over: also for how long the last handover paused each.
    """
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.lagging import as_metrics, lags

    engine = open_engine(url, None)
    try:
        found = lags(engine)
        fleet = engine.catalog.fleet
    finally:
        engine.close()
    if metrics:
        click.echo(as_metrics(fleet, found), nl=False)
    elif as_json:
        for one in found:
            print_json({**one._asdict(), "waiting": one.waiting})
    else:
        titles = ("partition", "waiting", "since (s)", "folded", "owner", "paused (s)")
        rows = [
            (
                str(one.partition),
                f"{one.waiting:,}",
                f"{one.oldest_seconds:.1f}",
                f"{one.folded:,}",
                text_of(one.owner or "nobody"),
                "" if one.paused_seconds is None else f"{one.paused_seconds:.1f}",
            )
            for one in found
        ]
        print_table(titles, rows)
        stopped = [one for one in found if one.ground_stop]
        if stopped:
            where = f"{len(stopped)} of {len(found)} partitions"
            why = text_of(stopped[0].ground_stop)
            click.echo(f"a ground stop is in force in {where}: {why}")
