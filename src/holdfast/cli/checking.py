"""`check`: whether the code of a fleet folds the same events to the same states."""

from __future__ import annotations

import click

from holdfast.cli.output import print_json, text_of
from holdfast.errors import UsageError


@click.command()
@click.argument("fleet")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many to make up (1,000), or to take from each partition (all).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--engine", metavar="URL", help="Fold what is stored there: sqlite:PATH.")
@click.option("--data", metavar="PATH", help="Short for --engine sqlite:PATH.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def check(
    fleet: str,
    events: int | None,
    seed: int,
    engine: str | None,
    data: str | None,
    as_json: bool,
) -> None:
    """Look for what would make two runs of FLEET differ (fleet.py, fleet.py:name or module:name).

    The code is read for clocks, chance, input and output, shared things that change, and the order
    of sets. Then events, made up or those of --data, are folded in two processes that differ in
    hash seed, time zone and batches. Handlers marked with idempotent=True get each event twice.
    Exits 1 if something was found. `# holdfast: ok` on a line silences what reading it found.
    """
    from holdfast.testing.checking.check import check as run

    if engine is not None and data is not None:
        raise UsageError("--engine and --data mean the same: give one of them")
    url = f"sqlite:{data}" if data is not None else engine
    report = run(fleet, url=url, events=events, seed=seed)
    for each in report.problems:
        if as_json:
            print_json({"level": each.level, "kind": each.kind, "text": each.text, **each.data})
        else:
            click.echo(text_of(each.text if each.level == "finding" else f"note: {each.text}"))
    found = sum(each.level == "finding" for each in report.problems)
    verdict = "clean" if report.clean else f"{found} finding{'s' if found > 1 else ''}"
    if as_json:
        print_json({"level": "summary", "clean": report.clean, "text": report.summary})
    else:
        click.echo(f"{verdict}: {report.summary}")
    if not report.clean:
        click.get_current_context().exit(1)
