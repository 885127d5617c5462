"""`rescale`: another number of partitions for data that exists."""

from __future__ import annotations

import click

from holdfast.cli.options import engine_option


@click.command()
@click.argument("fleet")
@click.option(
    "--partitions", type=click.IntRange(1, 256), required=True, help="How many there shall be."
)
@engine_option
def rescale(url: str, fleet: str, partitions: int) -> None:
    """Change the number of partitions of FLEET's data. Stop the fleet first.

    What waits is folded, then agents, timers and dedupe move to new partitions. Producers may stay
    connected: they wait for a moment and send on. The old partitions are kept for reading.
    """
    from holdfast.runtime import rescaling
    from holdfast.runtime.faulting import faults_from_environment
    from holdfast.runtime.loading import load_fleet

    loaded = load_fleet(fleet)
    done = rescaling.rescale(loaded, url, partitions, faults=faults_from_environment())
    first, last = done.partitions[0], done.partitions[-1]
    numbers = f"number {first}" if first == last else f"numbers {first} to {last}"
    click.echo(
        f"{loaded.name} has {done.after} partitions ({numbers}) instead of {done.before}, "
        f"with {done.agents:,} agents"
    )
