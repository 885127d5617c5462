"""`holdfast demo`: a delivery fleet, a kill -9 in the middle, an audit at the end."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from holdfast.demo.audit import quiet_console, report
from holdfast.demo.directory import DemoDirectory
from holdfast.demo.measure import percentile
from holdfast.demo.run import DemoRun, Settings
from holdfast.demo.screen import Screen, milliseconds
from holdfast.errors import HoldfastError, TimedOut


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(2.0, 3600.0), default=30.0, show_default=True)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("demo-data"),
    show_default=True,
    help="Directory for the data. An earlier demo's is replaced, any other refused.",
)
@click.option("--drones", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True)
@click.option(
    "--rate",
    type=click.FloatRange(1.0, 1_000_000.0),
    default=20_000.0,
    show_default=True,
    help="Events per second from outside.",
)
@click.option("--no-kill", is_flag=True, help="Leave the workers alone.")
@click.option("--plain", is_flag=True, help="Plain lines instead of the live view.")
def demo(
    seconds: float,
    data: Path,
    drones: int,
    workers: int,
    rate: float,
    no_kill: bool,
    plain: bool,
) -> None:
    """Run a simulated drone fleet, kill one worker in the middle, audit what is stored.

    Exit code 1 if anything was lost, doubled or out of order.
    """
    console = quiet_console()
    directory = DemoDirectory(data)
    run = DemoRun(directory, Settings(seconds, drones, workers, rate, kill=not no_kill))
    screen = Screen(console, live=console.is_terminal and not plain)
    try:
        play(run, screen, console)
    finally:
        run.close()
    passed = report(directory, console)
    suggest(directory, drones, console)
    if not passed:
        sys.exit(1)


def play(run: DemoRun, screen: Screen, console: Console) -> None:
    settings = run.settings
    kill_at = settings.seconds / 2 if settings.kill else None
    introduce(run, kill_at, console)
    run.start()

    def turn() -> bool:
        nonlocal kill_at
        run.check()
        if kill_at is not None and run.elapsed >= kill_at:
            kill_at = None if run.kill_worker() else kill_at
        return run.running

    try:
        screen.follow(run.sample, turn)
    except KeyboardInterrupt:
        console.print("\n  stopping early; the audit follows")
    run.end_sending()
    try:
        run.settle()
    except TimedOut as error:
        console.print(f"\n  [red]{escape(str(error))}[/]")  # the audit tells the rest
    run.stop()
    if run.latency.all:
        ordered = sorted(run.latency.all)
        p50, p99 = (milliseconds(percentile(ordered, share)) for share in (0.5, 0.99))
        console.print(f"\n  event to action over the whole run: p50 {p50}, p99 {p99}")


def introduce(run: DemoRun, kill_at: float | None, console: Console) -> None:
    settings = run.settings
    workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
    console.print(
        f"\n[bold]Holdfast demo[/]: {settings.drones:,} drones, {workers}, "
        f"{settings.rate:,.0f} events/s"
    )
    if kill_at is not None:
        console.print(f"At {kill_at:g} s one worker process gets kill -9.")
    console.print()


def suggest(directory: DemoDirectory, drones: int, console: Console) -> None:
    key = f"d-{min(7, drones - 1)}"
    engine = f"--engine {directory.url}"
    console.print(f"\n  The data stays in {escape(str(directory.path))}. Try next:\n")
    for command in (f"state Drone/{key}", f"history Drone/{key}", "actions", "doctor"):
        console.print(f"    {program()} {command} {engine}", soft_wrap=True, markup=False)
    console.print()


def program() -> str:
    """How the reader can call us: by name if the shell finds it, otherwise by its path."""
    if shutil.which("holdfast"):
        return "holdfast"
    return os.path.relpath(Path(sys.executable).parent / "holdfast")


if __name__ == "__main__":
    try:
        demo()
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(2)
