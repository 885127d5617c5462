"""`export`: events, states and actions, copied to files or a database."""

from __future__ import annotations

import math
import time
from typing import cast

import click

from holdfast.cli.options import engine_option

FOLLOW_SECONDS = 1.0


@click.command()
@click.argument("kind", type=click.Choice(["events", "states", "actions"]))
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    help="parquet:DIR, ndjson:FILE, ndjson:DIR/, ndjson:- or postgres://USER@HOST/DATABASE.",
)
@click.option("--follow", is_flag=True, help="Go on every second until interrupted.")
@click.option(
    "--from",
    "beginning",
    type=click.Choice(["beginning"]),
    help="Remove what an earlier export wrote there, and export everything again.",
)
@click.option("--skip-missing", is_flag=True, help="Go on behind rows that retention has removed.")
@engine_option
def export(
    url: str, kind: str, to: str, follow: bool, beginning: str | None, skip_missing: bool
) -> None:
    """Copy what is committed and not yet exported, each row once. Needs no fleet.py.

    \b
    holdfast export events --to parquet:export
    holdfast export states --to postgres://me@db/fleets --follow
    """
    from holdfast.cli.main import complain
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.exporting.exporter import RETRY_SECONDS, Exporter
    from holdfast.runtime.exporting.target import Kind
    from holdfast.runtime.faulting import faults_from_environment

    engine = open_engine(url, None)
    try:
        exporter = Exporter(
            engine,
            cast(Kind, kind),
            to,
            skip_missing=skip_missing,
            note=complain,
            reach=faults_from_environment(),
        )
        try:
            if beginning:
                exporter.clear()
            patience = math.inf if follow else RETRY_SECONDS
            rows = exporter.run(patience)
            while follow:
                time.sleep(FOLLOW_SECONDS)
                rows += exporter.run(patience)
        finally:
            exporter.close()
    finally:
        engine.close()
    if to != "ndjson:-":
        click.echo(f"exported {rows:,} {kind}")
