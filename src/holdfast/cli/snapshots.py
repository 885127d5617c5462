"""`snapshot`, `backup` and `restore`: copies of a whole fleet in a store of objects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import Command, engine_option
from holdfast.cli.output import moment, print_json, print_table
from holdfast.cli.times import parse_place
from holdfast.errors import TheirBug, UsageError

if TYPE_CHECKING:
    from holdfast.model.fleet import FleetModel
    from holdfast.runtime.snapshots.forwarding import Point
    from holdfast.runtime.snapshots.manifest import Manifest
    from holdfast.runtime.snapshots.store import SnapshotStore


def store_option(command: Command) -> Command:
    return click.option(
        "--snapshots",
        "store",
        metavar="URL",
        help="Where they are: file:PATH or s3://bucket/prefix; beside the data unless given.",
    )(command)


@contextmanager
def _opened(store: str | None, url: str) -> Iterator[SnapshotStore]:
    from holdfast.blob.urls import open_blob
    from holdfast.runtime.snapshots.store import SnapshotStore, store_of

    blob = open_blob(store_of(store, url))
    try:
        yield SnapshotStore(blob)
    finally:
        blob.close()


def _create(store: SnapshotStore, url: str, name: str | None) -> Manifest:
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.snapshots.creating import Creation

    engine = open_engine(url, None)
    try:
        made = Creation(engine, store).run(name)
    finally:
        engine.close()
    click.echo(
        f"snapshot {made.manifest.name} of {made.manifest.fleet} is in {store.blob.url}: "
        f"{made.chunks} new chunks, {made.bytes:,} bytes, {made.seconds:.1f} s"
    )
    return made.manifest


@click.group()
def snapshot() -> None:
    """Copies of the whole fleet at one moment, made while it runs.

    `holdfast run` makes them by itself and lets old ones go; those that you name stay until you
    delete them.
    """


@snapshot.command("create")
@click.argument("name")
@store_option
@engine_option
def create(url: str, name: str, store: str | None) -> None:
    """Make a snapshot called NAME, beside the fleet that runs."""
    with _opened(store, url) as opened:
        _create(opened, url, name)


@snapshot.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@store_option
@engine_option
def list_snapshots(url: str, store: str | None, as_json: bool) -> None:
    """List snapshots, the newest last."""
    rows, unreadable = [], []
    with _opened(store, url) as opened:
        for listed in opened.listed():
            try:
                manifest = opened.look(listed)
            except TheirBug as reason:
                unreadable.append(reason)
                continue
            if manifest is None:
                continue  # deleted since it was listed
            size = sum({ref.object: ref.bytes for ref in manifest.chunks()}.values())
            position = sum(entry.facts.head.position for entry in manifest.partitions)
            if as_json:
                print_json(
                    {
                        "name": manifest.name,
                        "fleet": manifest.fleet,
                        "taken": manifest.taken,
                        "partitions": len(manifest.partitions),
                        "events": position,
                        "bytes": size,
                    }
                )
            rows.append(
                (
                    manifest.name,
                    manifest.fleet,
                    moment(manifest.taken),
                    str(len(manifest.partitions)),
                    f"{position:,}",
                    f"{size:,}",
                )
            )
    if not as_json:
        print_table(("name", "fleet", "taken", "partitions", "events", "bytes"), rows)
    if unreadable:
        raise unreadable[0]


@snapshot.command("verify")
@click.argument("name")
@store_option
@engine_option
def verify(url: str, name: str, store: str | None) -> None:
    """Read all of snapshot NAME and check every part of it."""
    from holdfast.engine.urls import fleet_at
    from holdfast.runtime.snapshots.restoring import verify as read_all

    with _opened(store, url) as opened:
        found = read_all(opened, name, fleet_at(url))  # snapshots of that fleet are meant
    click.echo(
        f"snapshot {name} is whole: {found.agents:,} agents, {found.waiting:,} events and messages "
        f"that wait, {found.chunks} chunks, {found.bytes:,} bytes"
    )


@snapshot.command("delete")
@click.argument("name")
@store_option
@engine_option
def delete(url: str, name: str, store: str | None) -> None:
    """Delete snapshot NAME. What only it needed is removed half a day later."""
    with _opened(store, url) as opened:
        opened.delete(opened.find(name))
    click.echo(f"snapshot {name} is deleted")


def _target_options(command: Command) -> Command:
    for option in (
        click.argument("fleet", required=False),
        click.option(
            "--partitions", type=click.IntRange(1, 256), help="Another number; needs FLEET."
        ),
        click.option(
            "--until",
            metavar="TIME|POSITION",
            help="The log up to there is folded over the snapshot; needs FLEET. "
            "2026-11-16T03:00:00Z, seconds since 1970, 10min ago, or PARTITION:NUMBER.",
        ),
        click.option(
            "--to",
            "target",
            metavar="DIR|URL",
            required=True,
            help="A new directory, or kafka://host:port/PREFIX where no fleet is.",
        ),
    ):
        command = option(command)
    return command


@snapshot.command("restore")
@click.argument("name")
@_target_options
@store_option
@engine_option
def restore_snapshot(
    url: str,
    name: str,
    target: str,
    until: str | None,
    partitions: int | None,
    fleet: str | None,
    store: str | None,
) -> None:
    """Make a fleet of snapshot NAME anew. FLEET (fleet.py) is needed with --until and --partitions.

    The log for --until is the archive in the same store or, without one, that of --engine.
    """
    with _opened(store, url) as opened:
        _restore(opened, name, target, until, partitions, fleet, url)


@click.command()
@click.argument("store", metavar="URL")
@engine_option
def backup(url: str, store: str) -> None:
    """Bring a snapshot and the log to URL: file:PATH or s3://bucket/prefix.

    Beside the fleet that runs, or without it. `holdfast restore URL --to DIR|URL` brings it back.
    """
    from holdfast.engine.urls import open_engine
    from holdfast.runtime.snapshots.backing import ship_once

    with _opened(store, url) as opened:
        _create(opened, url, None)
        engine = open_engine(url, None)
        try:
            shipped = ship_once(engine, opened.blob)
        finally:
            engine.close()
    click.echo(f"the log is in {opened.blob.url}: {shipped}")


@click.command()
@click.argument("store", metavar="URL")
@_target_options
@engine_option
def restore(
    url: str,
    store: str,
    target: str,
    until: str | None,
    partitions: int | None,
    fleet: str | None,
) -> None:
    """Make a fleet of the backup at URL anew: the newest snapshot, and the log behind it.

    With --until, the newest snapshot before that point and the log up to it. With FLEET the log is
    folded as it was then; without it, it waits to be folded.
    """
    with _opened(store, url) as opened:
        _restore(opened, None, target, until, partitions, fleet, None)


def _restore(
    store: SnapshotStore,
    name: str | None,
    target: str,
    until: str | None,
    partitions: int | None,
    fleet: str | None,
    url: str | None,
) -> None:
    from holdfast.engine.planting import target_of
    from holdfast.runtime.faulting import faults_from_environment
    from holdfast.runtime.loading import load_fleet
    from holdfast.runtime.snapshots.backing import Request, restore_to

    loaded: FleetModel | None = load_fleet(fleet) if fleet is not None else None
    if loaded is None and (until is not None or partitions is not None):
        option = "--until" if until is not None else "--partitions"
        raise UsageError(f"{option} folds events, which needs the fleet's code: add fleet.py")
    point = None if until is None else _point(store, until, url)
    request = Request(target, name, point, partitions, loaded, url)
    done = restore_to(store, request, faults_from_environment())
    there = target_of(target)
    click.echo(
        f"{done.manifest.fleet} is in {there}: {done}; to run it: holdfast run "
        f"{fleet or 'FLEET'} {there.option}"
    )


def _point(store: SnapshotStore, until: str, url: str | None) -> Point:
    """PARTITION:NUMBER, a bare position where there is one partition, or a time."""
    from holdfast.runtime.snapshots.backing import time_of
    from holdfast.runtime.snapshots.forwarding import Point

    place = parse_place(until)
    if isinstance(place, float):
        if place > time.time():
            raise UsageError(f"--until {until}: in the future: leave it out for all there is")
        return Point(place)
    partition = place.partition
    if partition is None:
        newest = store.newest()
        if newest is None or len(newest.partitions) != 1:
            raise UsageError(f"position {until} of which partition? write PARTITION:NUMBER")
        partition = newest.partitions[0].number
    return time_of(store, partition, place.position, url)
