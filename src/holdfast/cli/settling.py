"""`action`, `ack`, `fail`, `override`, `ground-stop`: the lives of actions, by hand."""

from __future__ import annotations

import click

from holdfast.cli.options import agent_and_key, engine_option, event_values
from holdfast.cli.output import moment, print_json, print_table, text_of
from holdfast.cli.reading import action_json
from holdfast.errors import UsageError
from holdfast.model.keys import check_key
from holdfast.runtime.lives import ActionLife
from holdfast.runtime.untyped import UntypedLive, connect_untyped

by_option = click.option("--by", metavar="NAME", help="Who says so; recorded.")
why_option = click.option("--why", required=True, metavar="TEXT", help="Recorded with it.")
timeout_option = click.option(
    "--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS"
)


@click.command()
@click.argument("action_id", metavar="ACTION_ID")
@click.option("--json", "as_json", is_flag=True)
@engine_option
def action(url: str, action_id: str, as_json: bool) -> None:
    """Show one action and what became of it."""
    with connect_untyped(url) as live:
        life = live.action(action_id)
    if as_json:
        print_json(_life_json(life))
        return
    late = ", late" if life.late else ""
    click.echo(f"{life.id}  {life.name}  {life.status}{late}")
    rows = [(moment(one.now), one.kind, text_of(one.by), text_of(one.why)) for one in life.fates]
    if life.issued is not None and life.at("issued") is None:
        issued = life.issued
        by, why = issued.by or "", issued.why or ""
        rows.insert(0, (moment(issued.now), "issued", text_of(by), text_of(why)))
    print_table(("time", "what", "by", "why"), rows)


def _life_json(life: ActionLife) -> dict[str, object]:
    return {
        "id": life.id,
        "type": life.name,
        "status": life.status,
        "late": life.late,
        "issued": None if life.issued is None else action_json(life.issued),
        "fates": [
            {"what": one.kind, "now": one.now, "by": one.by, "why": one.why} for one in life.fates
        ],
    }


@click.command()
@click.argument("ids", metavar="ACTION_ID...", nargs=-1, required=True)
@by_option
@timeout_option
@engine_option
def ack(url: str, ids: tuple[str, ...], by: str | None, timeout: float) -> None:
    """Record that actions were carried out. Again is a no-op; what stands is told.

    Needs a running fleet.
    """
    with connect_untyped(url) as live:
        _tell(live.acknowledge(list(dict.fromkeys(ids)), by=by, timeout=timeout))


@click.command()
@click.argument("ids", metavar="ACTION_ID...", nargs=-1, required=True)
@why_option
@by_option
@timeout_option
@engine_option
def fail(url: str, ids: tuple[str, ...], why: str, by: str | None, timeout: float) -> None:
    """Record that actions could not be carried out. Needs a running fleet."""
    with connect_untyped(url) as live:
        _tell(live.fail(list(dict.fromkeys(ids)), why, by=by, timeout=timeout))


def _tell(refused: dict[str, str]) -> None:
    for reason in list(refused.values())[1:]:
        click.echo(text_of(f"refused: {reason}"), err=True)
    if refused:
        raise UsageError(f"refused: {next(iter(refused.values()))}")


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@click.argument("action", metavar="ACTION")
@click.argument("values", metavar="[NAME=VALUE | JSON]...", nargs=-1)
@why_option
@by_option
@click.option("--hold", is_flag=True, help="Pause the agent with it, until `holdfast resume`.")
@timeout_option
@engine_option
def override(
    url: str,
    agent: str,
    action: str,
    values: tuple[str, ...],
    why: str,
    by: str | None,
    hold: bool,
    timeout: float,
) -> None:
    """Have an action issued for one agent now, and print its id.

    \b
    holdfast override Drone/d-1 Land --why "fire on board" --by tower

    Needs a running fleet. It is issued during a ground stop too.
    """
    name, key = agent_and_key(agent)
    check_key(key)
    with connect_untyped(url) as live:
        live.names.check_agent(name)
        _, schema = live.names.event(action, "action")
        fields = event_values(schema, values)
        issued = live.override(
            name, key, action, fields, why=why, by=by, hold=hold, timeout=timeout
        )
    click.echo(issued)


@click.command("ground-stop")
@click.option("--why", metavar="TEXT", help="Recorded with it; needed, but for --status.")
@by_option
@click.option("--lift", is_flag=True, help="Let the fleet issue actions again.")
@click.option("--status", is_flag=True, help="Only say whether one is in force.")
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="SECONDS")
@engine_option
def ground_stop(
    url: str, why: str | None, by: str | None, lift: bool, status: bool, timeout: float
) -> None:
    """Stop the fleet: no actions but those declared `during_ground_stop=True`.

    \b
    holdfast ground-stop --why "thunderstorm" --by tower
    holdfast ground-stop --lift --why "blue sky" --by tower

    Needs a running fleet; returns when it is in force in every partition.
    """
    with connect_untyped(url) as live:
        if not status:
            change = live.lift_ground_stop if lift else live.ground_stop
            change(why or "", by=by, timeout=timeout)
        _print_ground(live)


def _print_ground(live: UntypedLive) -> None:
    grounded = live.grounded()
    if not grounded:
        click.echo("no ground stop is in force")
        return
    partitions = len(live.positions())
    first = min(grounded.values(), key=lambda ground: ground.now)
    by = f" by {first.by}" if first.by else ""
    click.echo(
        text_of(
            f"a ground stop is in force in {len(grounded)} of {partitions} partitions since "
            f"{moment(first.now)}{by}: {first.why}"
        )
    )
