"""`profile`: a flame graph of a running worker."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.options import engine_option


@click.command()
@click.option("--worker", type=click.IntRange(0, 255), default=0, show_default=True)
@click.option(
    "--process",
    metavar="NAME",
    help="Another process instead: caller, snapshotter, shipper, supervisor, program.",
)
@click.option(
    "--seconds", type=click.IntRange(1, 3600), default=10, show_default=True, help="For how long."
)
@click.option(
    "--rate", type=click.IntRange(1, 1000), default=100, show_default=True, help="Looks a second."
)
@click.option("--output", type=click.Path(path_type=Path), help="Default: flame.svg or as such.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["svg", "speedscope", "raw"]),
    default="svg",
    show_default=True,
    help="A picture; for speedscope; or stacks with their counts, a line each.",
)
@engine_option
def profile(
    url: str,
    worker: int,
    process: str | None,
    seconds: int,
    rate: int,
    output: Path | None,
    kind: str,
) -> None:
    """Look at what a running worker does, many times a second, and draw it as a flame graph.

    Needs `pip install 'holdfast[profile]'` and the right to look into the process. The worker goes
    on; each look stops it for about a millisecond.
    """
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.metering.profiling import ENDINGS, pid_of, record

    engine = open_engine(url, None)
    try:
        pid = pid_of(engine, process or f"worker-{worker}")
    finally:
        engine.close()
    path = output or Path(f"flame{ENDINGS[kind]}")
    record(pid, seconds, rate, path, kind)
    click.echo(f"{path}: process {pid}, {seconds} s")
