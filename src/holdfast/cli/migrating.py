"""`migrate`: stored states to new classes, while nobody folds."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.options import engine_option


@click.command()
@click.argument("fleet")
@click.option("--script", metavar="FILE", help="Defines migrate(agent, key, state).")
@click.option("--dry-run", is_flag=True, help="Try every state and change nothing.")
@engine_option
def migrate(url: str, fleet: str, script: str | None, dry_run: bool) -> None:
    """Bring stored states into the form of the classes in FLEET. Stop the fleet first.

    \b
    def migrate(agent: str, key: str, state: dict) -> dict | None:
        if agent == "Drone":
            return {"charge": state["battery"] / 100, "mode": state["mode"]}
        return None

    The script gets every state whose stored form differs from its class, with the stored names, and
    returns values for the new fields; those it leaves out get their defaults, and None keeps the
    state as far as it fits. Without a script the defaults and upcasts of the classes are applied.
    States that have their form already are left alone, so the command can be repeated.
    """
    from holdfast.runtime import migrating
    from holdfast.runtime.loading import load_fleet

    loaded = load_fleet(fleet)
    function = None if script is None else migrating.load_script(Path(script))
    for each in migrating.migrate(loaded, url, function, dry_run=dry_run):
        verb = "would change" if dry_run else "changed"
        click.echo(f"{each.agent}: {each.changed:,} of {each.states:,} states {verb}")
