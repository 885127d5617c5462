"""`simulate`: a fleet in virtual time, under faults drawn from seeds."""

from __future__ import annotations

import os
import sys
import time
from contextlib import redirect_stdout

import click
from click.core import ParameterSource

from holdfast.cli.output import print_json
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.testing.simulation.campaign import Campaign, Tally, check_upgrade, explain, judged

EXPLAINED_MAX = 3  # failing seeds that are told in full


@click.command()
@click.argument("fleet")
@click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="The first of the seeds.")
@click.option("--seed", type=click.IntRange(0), help="One seed only, told in full.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Instead of --seeds.")
@click.option("--upgrade", metavar="FLEET", help="A later release of the fleet, for upgrades.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes; as many as cores if left out.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
def simulate(
    fleet: str,
    seeds: int,
    first: int,
    seed: int | None,
    minutes: float | None,
    upgrade: str | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Run FLEET (fleet.py, fleet.py:name or module:name) in virtual time under faults.

    Real worker, relay, supervisor and timers; a simulated machine that crashes, loses power,
    delivers late and twice, and sets its clock wrong. Every run is held against all promises. Exit
    code 1 if one is broken; the seed that breaks it shows it again.
    """
    programs: list[FleetModel] = [load_fleet(fleet)]
    if upgrade is not None:
        programs.append(load_fleet(upgrade))
        if programs[1].name != programs[0].name:
            raise UsageError(
                f"--upgrade {upgrade} is fleet {programs[1].name!r}, not {programs[0].name!r}: "
                "give a later release of the same fleet"
            )
        check_upgrade(programs[0], programs[1])
    _check_options(seed, as_json)
    command = f"holdfast simulate {fleet}" + (f" --upgrade {upgrade}" if upgrade else "")
    if seed is not None:
        return _one(programs, seed, command)
    with redirect_stdout(sys.stderr):  # what handlers print is no figure of ours
        tally = _many(programs, first, seeds if minutes is None else None, minutes, jobs)
    if as_json:
        print_json(_figures(tally))
    else:
        _print(tally)
    for seed, trace in list(tally.crashed.items())[:EXPLAINED_MAX]:
        click.echo(f"seed {seed} ended in an error of the simulation:\n{trace}")
    broken = [failing for failing in tally.failing if failing not in tally.crashed]
    for failing in broken[:EXPLAINED_MAX]:
        click.echo(explain(programs, judged(programs, failing), f"{command} --seed {failing}"))
    return 1 if tally.failing else 0


def _check_options(seed: int | None, as_json: bool) -> None:
    """Options that exclude each other: none is left out in silence."""
    source = click.get_current_context().get_parameter_source
    given = [o for o in ("seeds", "first", "minutes") if source(o) is ParameterSource.COMMANDLINE]
    if seed is not None and (given or as_json):
        other = given[0] if given else "json"
        raise UsageError(f"--seed runs one seed and prints it: leave --{other} out")
    if "minutes" in given and "seeds" in given:
        raise UsageError("--seeds and --minutes both say when to stop: give one of them")


def _one(programs: list[FleetModel], seed: int, command: str) -> int:
    with redirect_stdout(sys.stderr):
        run, findings = judged(programs, seed)
    if findings:
        click.echo(explain(programs, (run, findings), f"{command} --seed {seed}"))
        return 1
    for line in run.trace:
        click.echo(line)
    click.echo(f"seed {seed}: all promises hold; trace {run.trace_hash}")
    return 0


def _many(
    programs: list[FleetModel],
    first: int,
    count: int | None,
    minutes: float | None,
    jobs: int | None,
) -> Tally:
    total = Tally()
    began = time.monotonic()
    campaign = Campaign(programs, jobs or os.cpu_count() or 1)
    for tally in campaign.tallies(first, count, None if minutes is None else minutes * 60.0):
        total.merge(tally)
        total.seconds = time.monotonic() - began
        if sys.stderr.isatty():
            click.echo(f"\r{total.seeds} seeds, {len(total.failing)} fail ", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo("\r" + " " * 40 + "\r", nl=False, err=True)
    return total


def _print(tally: Tally) -> None:
    rate = tally.seeds / max(tally.seconds, 1e-9)
    click.echo(
        f"{tally.seeds:,} seeds, {len(tally.failing)} of them fail; "
        f"{tally.virtual_seconds / 3600.0:.1f} simulated hours, {tally.events:,} events, "
        f"{tally.commits:,} commits; {rate:.1f} seeds per second"
    )
    for fault, count in tally.faults.most_common():
        click.echo(f"{count:9,}  of {tally.chances[fault]:,} chances: {fault.value}")


def _figures(tally: Tally) -> dict[str, object]:
    return {
        "seeds": tally.seeds,
        "failing": tally.failing,
        "simulated_hours": tally.virtual_seconds / 3600.0,
        "events": tally.events,
        "commits": tally.commits,
        "seconds": tally.seconds,
        "faults": {fault.name: count for fault, count in tally.faults.items()},
        "chances": {fault.name: count for fault, count in tally.chances.items()},
    }
