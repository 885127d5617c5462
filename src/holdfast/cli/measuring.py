"""`metrics`: what is measured of a fleet, once."""

from __future__ import annotations

import sys

import click

from holdfast.cli.options import engine_option


@click.command()
@engine_option
def metrics(url: str) -> None:
    """Print all that is measured of a fleet, in the text format of Prometheus.

    As the gateway answers /metrics; for cron jobs and textfile collectors. Processes of this
    machine tell what they count, and the data tells the rest.
    """
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.metering.exposition import expose

    engine = open_engine(url, None)
    try:
        sys.stdout.buffer.write(expose(engine))
    finally:
        engine.close()
