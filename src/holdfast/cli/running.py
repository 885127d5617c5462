"""`run`: a supervisor over workers, or with `memory:` a fleet within this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

import click

from holdfast.blob.urls import open_blob
from holdfast.cli.folding import fold_standard_input
from holdfast.cli.gateway import GatewayOptions, gateway_options
from holdfast.cli.options import engine_option, otlp_option, views_option
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import DEFAULT_URL, hidden, open_engine, parse, place_of
from holdfast.errors import OutdatedCode, UsageError
from holdfast.gateway.mqtt.starting import BridgeOptions
from holdfast.runtime import logs
from holdfast.runtime.archiving import ARCHIVE_SECONDS
from holdfast.runtime.archiving.running import check_archive, finish_archive
from holdfast.runtime.calling.bell import left_open
from holdfast.runtime.checkup import generation_of
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.launching import Helper, Launcher
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.metering.board import board_of
from holdfast.runtime.schemas import agree, check_agents, states_in_use
from holdfast.runtime.snapshots.snapshotter import PACE
from holdfast.runtime.snapshots.store import default_store
from holdfast.runtime.sourcing.starting import SourceOptions
from holdfast.runtime.tracing.exporting import ask_for


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
@click.option(
    "--snapshots",
    metavar="URL",
    help="Where snapshots go: file:PATH, s3://bucket/prefix or none; to the archive or else beside "
    "the data unless given. Beside topics there are none.",
)
@click.option("--snapshot-events", type=click.IntRange(1), default=PACE.events, show_default=True)
@click.option(
    "--snapshot-seconds", type=click.FloatRange(1.0), default=PACE.seconds, show_default=True
)
@click.option(
    "--archive", metavar="STORE", help="Copy all events to file:PATH or s3://… as they come."
)
@click.option(
    "--archive-seconds",
    type=click.FloatRange(min=0.0, min_open=True),
    default=ARCHIVE_SECONDS,
    show_default=True,
    help="How much may be lost with the disk.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="TOPIC=AGENT[/EVENT]",
    help="Take the events of a Kafka topic, keyed by agent; :json, :msgpack or "
    ":protobuf(FILE.desc,MESSAGE) and @earliest or @latest may follow. Can be repeated.",
)
@click.option(
    "--source-brokers",
    metavar="HOST:PORT",
    help="Where those topics are, if not where the data is.",
)
@click.option("--mqtt", metavar="URL", help="Bridge to an MQTT broker, mqtt://host:port.")
@click.option("--mqtt-table", metavar="FILE", help="Its table of topics, as for `bridge`.")
@views_option
@click.option("--pin", is_flag=True, help="Each worker keeps to one core, in turn.")
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    help="text, or json: one object per line. Default HOLDFAST_LOG_FORMAT, else text.",
)
@otlp_option
@gateway_options
def run(
    url: str,
    gateway: GatewayOptions,
    fleet: str,
    workers: int,
    partitions: int | None,
    memory_max: int,
    snapshots: str | None,
    snapshot_events: int,
    snapshot_seconds: float,
    archive: str | None,
    archive_seconds: float,
    sources: tuple[str, ...],
    source_brokers: str | None,
    mqtt: str | None,
    mqtt_table: str | None,
    views: str | None,
    pin: bool,
    log_format: str | None,
    otlp: str | None,
) -> None:
    """Run FLEET (fleet.py, fleet.py:name or module:name) until SIGTERM or Ctrl-C.

    Other processes send and read at the same time: over HTTP, with this command line or with
    `fleet.connect`. With --engine memory: events come as JSON lines from standard input, and
    actions go to standard output as JSON lines.
    """
    if log_format is not None:
        os.environ[logs.FORMAT] = log_format  # for the processes it starts, too
    logs.set_up("supervisor")
    ask_for(otlp)
    if parse(url).scheme == "memory":
        if archive is not None or snapshots not in (None, "none"):
            raise UsageError("memory: is gone with its process: copy a directory, sqlite:PATH")
        if sources or mqtt is not None:
            given = "--source" if sources else "--mqtt"
            raise UsageError(f"memory: lives in one process: {given} needs sqlite: or kafka:")
        fold_standard_input(load_fleet(fleet), url, partitions or 1)
        return
    helpers = []
    if archive is not None:
        open_blob(archive).close()  # a mistake in the URL is told before anything is made
        helpers.append(_shipper(hidden(url), archive, archive_seconds))
    store = _store(url, snapshots, archive)
    if store is not None:
        helpers.append(_snapshotter(hidden(url), store, snapshot_events, snapshot_seconds))
    gateway.check()
    beside = (SourceOptions(sources, source_brokers), BridgeOptions(mqtt, mqtt_table))
    serving = partial(gateway.beside, hidden(url), fleet, snapshots, views)
    folding = Helper("views", "holdfast.runtime.viewing.process", [fleet, hidden(url), views or ""])
    _supervise(
        fleet, url, workers, partitions, memory_max, archive, helpers, beside, pin, serving, folding
    )


def _store(url: str, snapshots: str | None, archive: str | None) -> str | None:
    """Where snapshots go, if they do: beside topics there is no folder that could be meant."""
    if snapshots == "none":
        return None
    beside = default_store(parse(url).root) if parse(url).kafka is None else None
    return snapshots or archive or beside


def _shipper(url: str, archive: str, seconds: float) -> Helper:
    return Helper("shipper", "holdfast.runtime.archiving.process", [url, archive, str(seconds)])


def _snapshotter(url: str, store: str, events: int, seconds: float) -> Helper:
    """It starts when the workers have: who runs for a moment only needs no snapshot."""
    open_blob(store).close()  # a mistake in the URL is told before anything starts
    arguments = [url, store, str(events), str(seconds)]
    return Helper("snapshotter", "holdfast.runtime.snapshots.running", arguments, 5.0)


def _supervise(
    reference: str,
    url: str,
    workers: int,
    partitions: int | None,
    memory_max: int,
    archive: str | None,
    helpers: list[Helper],
    beside: tuple[SourceOptions, BridgeOptions],
    pin: bool,
    gateway: Callable[[], tuple[list[Helper], str]],
    views: Helper,
) -> None:
    """1 load, 2 hold the directory, 3 check that code, data and archive fit, 4 supervise."""
    fleet = load_fleet(reference)
    logs.fleet_is(fleet.name)
    covert = hidden(url)
    helpers = [*helpers, *(helper for each in beside for helper in each.helpers(fleet, covert))]
    helpers += [views] if fleet.views else []
    engine = open_engine(url, fleet.name, create_partitions=partitions or workers)
    try:
        if isinstance(engine, SqliteEngine):
            engine.holder.acquire()
        numbers: Sequence[int] = engine.catalog.layout.numbers
        count = len(numbers)
        if partitions not in (None, count):
            raise _other_partitions(count, reference, url, partitions)
        if engine.capabilities.assigns:
            numbers = range(workers)  # each gets what the engine assigns to it
        _check_fit(fleet, engine)
        check_archive(engine, archive)
        calls = bool(fleet.calls) or left_open(engine)
        gateways, line = gateway()
        launcher = Launcher(
            reference,
            covert,
            workers,
            numbers,
            memory_max,
            calls,
            [*helpers, *gateways],
            pin=pin,
            board=board_of(engine),
        )

        def stop(number: int, frame: FrameType | None) -> None:
            launcher.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        at_work = workers if engine.capabilities.assigns else min(workers, count)
        kafka = parse(url).kafka
        shown = url if kafka is None else kafka.named(kafka.prefix or fleet.name).place
        logs.say(_start_line(fleet, shown, count, at_work))
        if line:
            logs.say(line)
        launcher.run()
        finish_archive(engine, archive)
        logs.say(f"{fleet.name} has stopped; everything acknowledged is kept")
    finally:
        engine.close()


def _other_partitions(count: int, reference: str, url: str, partitions: int | None) -> UsageError:
    place = place_of(url)
    shown = url if parse(url).kafka is None else place
    there = "" if url == DEFAULT_URL else f" --engine {shown}"
    return UsageError(
        f"{place} has {count} partitions, not {partitions}: "
        "leave --partitions out, or change the number with "
        f"`holdfast rescale {reference} --partitions {partitions}{there}`"
    )


def _check_fit(fleet: Fleet, engine: Engine) -> None:
    """What a worker would be refused for is said here, once, before any of them starts."""
    check_agents(fleet, engine)
    _, generation = agree(fleet, engine.catalog, states_in_use(engine))
    if not isinstance(engine, SqliteEngine):
        return  # a claim finds it out
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
