"""`replay`: the recorded history folded again, and compared with what was committed."""

from __future__ import annotations

from collections.abc import Iterable

import click
import msgspec

from holdfast.cli.options import agent_and_key, engine_option
from holdfast.cli.output import print_json, text_of
from holdfast.cli.times import Place, parse_place
from holdfast.engine.urls import open_engine
from holdfast.errors import UsageError
from holdfast.runtime.replaying.comparing import Difference, Outcome
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.running import compare_all, partitions
from holdfast.runtime.snapshots.beginnings import snapshots_at


@click.command()
@click.argument("fleet")
@click.option("--agent", metavar="AGENT/KEY", help="Only this agent: far quicker.")
@click.option("--until", "end", metavar="TIME|POSITION", help="Stop there.")
@click.option(
    "--snapshots", metavar="URL", help="Where snapshots are; beside the data unless given."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per partition.")
@engine_option
def replay(
    url: str,
    fleet: str,
    agent: str | None,
    end: str | None,
    snapshots: str | None,
    as_json: bool,
) -> None:
    """Fold the recorded inputs again with the code of FLEET, and compare.

    Every commit is compared by the sum of its states, and by its timers, actions, messages and dead
    letters; at the end every agent by value. Exits 1 at a difference, and names the first. Where
    retention has cut history off it begins at a snapshot. Reads only, also beside a running fleet.

    \b
    holdfast replay fleet.py
    holdfast replay fleet.py --agent Drone/d-1
    holdfast replay fleet.py --until 2026-11-16T03:00:00Z
    holdfast replay fleet.py --until 0:4711
    """
    if url.startswith("memory:"):
        raise UsageError("memory: keeps no history: give sqlite:PATH")
    until, only = _until(end)
    outcomes = list(_outcomes(url, fleet, agent, until, only, snapshots))
    for outcome in outcomes:
        if as_json:
            print_json(outcome)
        else:
            _print(outcome, agent)
    if any(outcome.difference is not None for outcome in outcomes):
        click.get_current_context().exit(1)
    for outcome in outcomes:
        if outcome.begins:
            raise UsageError(f"partition {outcome.partition} was not compared: {outcome.begins}")


def _until(text: str | None) -> tuple[Until, int | None]:
    if text is None:
        return END, None
    place = parse_place(text)
    if isinstance(place, Place):
        return Until(position=place.position), place.partition
    return Until(time=place), None


def _outcomes(
    url: str, fleet: str, agent: str | None, until: Until, only: int | None, snapshots: str | None
) -> Iterable[Outcome]:
    from holdfast.runtime.loading import load_fleet

    loaded = load_fleet(fleet)
    engine = open_engine(url, loaded.name)
    try:
        if agent is not None:
            from holdfast.runtime.replaying.moments import compare_agent

            with snapshots_at(snapshots, engine) as store:
                return compare_agent(engine, loaded, *agent_and_key(agent), until, store)
        numbers = partitions(engine, until, only)
    finally:
        engine.close()
    return compare_all(fleet, url, numbers, until, snapshots)


def _print(outcome: Outcome, alone: str | None) -> None:
    if outcome.begins:
        return
    name = f"partition {outcome.partition}"
    if outcome.difference is None:
        what = [
            f"{outcome.events:,} events",
            f"{outcome.fired:,} timers, expiries and urgent events",
        ]
        if alone is None:
            what += [f"{outcome.sums:,} of {outcome.commits:,} commits by their sums"]
            what += [f"{outcome.agents:,} agents"] if outcome.agents else []
        elif outcome.agents:
            what += [f"the state of {alone}"]
        what += [f"from {outcome.since} on"] if outcome.since else []
        click.echo(f"{name}: equal: {', '.join(what)}")
        return
    _print_difference(name, outcome.difference)


def _print_difference(name: str, found: Difference) -> None:
    at = "" if found.position is None else f" at position {found.position}"
    click.echo(text_of(f"{name}: differs{at}: {found.what}"))
    for title, value in (
        ("agent", found.agent),
        ("event", found.event),
        ("committed", found.committed),
        ("came out", found.replayed),
    ):
        if value != "":
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            click.echo(text_of(f"  {title:<9}  {shown}"))
