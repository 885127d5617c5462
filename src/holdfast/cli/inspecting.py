"""`diagram` and `doctor`: what the code says, and how the data is."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli.options import engine_option
from holdfast.cli.output import text_of
from holdfast.errors import UsageError


@click.command()
@click.argument("fleet")
@click.option(
    "--format", "form", type=click.Choice(["mermaid", "svg"]), default="mermaid", show_default=True
)
@click.option("--out", metavar="FILE", help="Write here instead of standard output.")
def diagram(fleet: str, form: str, out: str | None) -> None:
    """Draw the agents of FLEET (fleet.py, fleet.py:name or module:name) as their code says."""
    from holdfast.model.diagram import mermaid, svg
    from holdfast.runtime.loading import load_fleet

    text = (svg if form == "svg" else mermaid)(load_fleet(fleet))
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        Path(out).write_text(text, encoding="utf-8")


@click.command()
@click.option("--salvage", is_flag=True, help="List what is intact in damaged data. Reads only.")
@engine_option
def doctor(url: str, salvage: bool) -> None:
    """Check data, disk, clock and workers, each a line with what to do. Exits 1 if one is bad."""
    from holdfast.runtime.checkup import Checkup

    checkup = Checkup(url)
    if salvage:
        _salvage(checkup.root)
        return
    worst = "ok"
    for finding in checkup.findings():
        _print_finding(finding.level, finding.subject, finding.text, finding.advice)
        if finding.level == "bad":
            worst = "bad"
    if worst == "bad":
        click.get_current_context().exit(1)


_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


def _print_finding(level: str, subject: str, text: str, advice: str) -> None:
    line = text_of(f"{text}: {advice}" if advice else text)
    mark = f"{level:<4}"
    if sys.stdout.isatty():
        mark = click.style(mark, fg=_COLOURS[level], bold=True)
    click.echo(f"{mark}  {subject:<14}  {line}")


def _salvage(root: Path) -> None:
    from holdfast.engine.sqlite.salvage import salvage

    if not root.is_dir():
        raise UsageError(f"{root}: no directory: name the one with the damaged data")
    report = salvage(root)
    for line in report.lines():
        click.echo(text_of(line))
    if not report.intact:
        click.get_current_context().exit(1)
