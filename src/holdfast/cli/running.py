"""`run`: a supervisor over workers, or with `memory:` a fleet within this process."""

from __future__ import annotations

import logging
import signal
from types import FrameType

import click

from holdfast.cli.folding import fold_standard_input
from holdfast.cli.options import engine_option
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import DEFAULT_URL, open_engine, parse
from holdfast.errors import NotYet, OutdatedCode, UsageError
from holdfast.runtime.calling.bell import has_open_calls
from holdfast.runtime.checkup import generation_of
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.launching import Launcher
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.schemas import agree, check_agents, states_in_use


@click.command()
@click.argument("fleet")
@engine_option
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option(
    "--partitions",
    type=click.IntRange(1, 256),
    help="For new data; as many as workers unless given. Every partition syncs by itself.",
)
@click.option(
    "--memory-max", type=click.IntRange(0), default=0, metavar="BYTES", help="Of each worker."
)
@click.option("--port", type=int, help="Comes with a later release.")
def run(
    url: str, fleet: str, workers: int, partitions: int | None, memory_max: int, port: int | None
) -> None:
    """Run FLEET (fleet.py, fleet.py:name or module:name) until SIGTERM or Ctrl-C.

    Other processes send and read at the same time, with this command line or `fleet.connect`. With
    --engine memory: events come as JSON lines from standard input, and actions go to standard
    output as JSON lines.
    """
    if port is not None:
        raise NotYet(
            "--port: the gateway comes with a later release; until then other processes of this "
            "machine use `holdfast send` or fleet.connect(…)"
        )
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    if parse(url).scheme == "memory":
        fold_standard_input(load_fleet(fleet), url, partitions or 1)
    else:
        _supervise(fleet, url, workers, partitions, memory_max)


def _supervise(
    reference: str, url: str, workers: int, partitions: int | None, memory_max: int
) -> None:
    """1 load, 2 hold the directory, 3 check that code and data fit, 4 supervise until told."""
    fleet = load_fleet(reference)
    engine = open_engine(url, fleet.name, create_partitions=partitions or workers)
    try:
        assert isinstance(engine, SqliteEngine)
        engine.holder.acquire()
        numbers = engine.catalog.layout.numbers
        count = len(numbers)
        if partitions is not None and partitions != count:
            raise UsageError(
                f"{engine.root} has {count} partitions, not {partitions}: leave --partitions out, "
                f"or change the number with `holdfast rescale {reference} --partitions {partitions}"
                f"{'' if url == DEFAULT_URL else f' --engine {url}'}`"
            )
        _check_fit(fleet, engine)
        calls = bool(fleet.calls) or has_open_calls(engine)
        launcher = Launcher(reference, url, workers, numbers, memory_max, calls)

        def stop(number: int, frame: FrameType | None) -> None:
            launcher.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        click.echo(_start_line(fleet, url, count, min(workers, count)))
        launcher.run()
        click.echo(f"{fleet.name} has stopped; everything acknowledged is kept")
    finally:
        engine.close()


def _check_fit(fleet: Fleet, engine: SqliteEngine) -> None:
    """What a worker would be refused for is said here, once, before any of them starts."""
    check_agents(fleet, engine)
    _, generation = agree(fleet, engine.catalog, states_in_use(engine))
    for number in engine.catalog.layout.numbers:
        stored = generation_of(engine.root, number)
        if stored > generation:
            raise OutdatedCode(
                f"{engine.root}: newer classes have folded here (schema generation {stored}, this "
                f"program has {generation}): run the newer program"
            )


def _start_line(fleet: Fleet, url: str, partitions: int, workers: int) -> str:
    agent, definition = next((n, cls.__holdfast__) for n, cls in fleet.agents.items())
    event = next((cls.__holdfast__.schema for cls in definition.routes), None)
    words = [f"holdfast send {agent}/KEY", event.name if event else "EVENT"]
    words += [f"{field.name}=…" for field in event.fields if field.required] if event else []
    if url != DEFAULT_URL:
        words.append(f"--engine {url}")
    counted = f"{_count(partitions, 'partition')}, {_count(workers, 'worker')}"
    return f"{fleet.name} runs on {url}, {counted}. To send: {' '.join(words)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
