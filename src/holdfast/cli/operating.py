"""`dead-letters`, `pause`, `resume`, `paused`, `compensate`: what an operator does to agents."""

from __future__ import annotations

import click

from holdfast.cli.options import agent_and_key, engine_option
from holdfast.cli.output import fields_of, moment, print_json, print_table, text_of
from holdfast.errors import UsageError
from holdfast.runtime.reading import DeadLetter, Plain
from holdfast.runtime.untyped import connect_untyped, receipt_text


class ListsByDefault(click.Group):
    """`dead-letters --json` means `dead-letters list --json`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in context.help_option_names):
            args = ["list", *args]
        return super().parse_args(context, args)


@click.group("dead-letters", cls=ListsByDefault)
def dead_letters() -> None:
    """Events that failed: list them (the default), show one, or redrive them."""


@dead_letters.command("list")
@click.option("--all", "everything", is_flag=True, help="Those too that were redriven.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def list_letters(url: str, everything: bool, as_json: bool) -> None:
    """List dead letters, oldest first within a partition."""
    with connect_untyped(url) as live:
        found = [x for x in live.dead_letters() if everything or not x.redriven]
    if as_json:
        for letter in found:
            print_json(_letter_json(letter))
        return
    titles = ("id", "time", "agent", "event", "error")
    print_table(titles, [_letter_row(letter) for letter in found])


@dead_letters.command("show")
@click.argument("letter_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True)
@engine_option
def show_letter(url: str, letter_id: str, as_json: bool) -> None:
    """Show one dead letter with the traceback of its failure."""
    with connect_untyped(url) as live:
        letter = _find(live.dead_letters(), letter_id)
    if as_json:
        print_json(_letter_json(letter))
        return
    state = ", redriven" if letter.redriven else ""
    click.echo(f"dead letter {letter.id}{state}")
    click.echo(f"  time   {moment(letter.now)}")
    click.echo(f"  agent  {letter.agent}/{letter.key}")
    click.echo(f"  event  {_event_text(letter)}")
    click.echo(f"  error  {text_of(letter.error)}")
    for line in letter.trace.splitlines():
        click.echo(f"  | {text_of(line)}")


@dead_letters.command("redrive")
@click.argument("letter_id", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All that were not redriven yet.")
@engine_option
def redrive(url: str, letter_id: str | None, everything: bool) -> None:
    """Give a dead letter's event to its agent again, once. Prints a receipt."""
    if (letter_id is None) is not everything:
        raise UsageError("redrive which? give the ID of one, or --all")
    with connect_untyped(url) as live:
        letters = live.dead_letters()
        if letter_id is not None:
            letter = _find(letters, letter_id)
            if letter.redriven:
                raise UsageError(f"dead letter {letter_id} was redriven already")
            letters = [letter]
        for letter in letters:
            if not letter.redriven:
                receipt = receipt_text(live.redrive(letter.id))
                click.echo(f"{letter.id}\t{letter.agent}/{letter.key}\t{receipt}")


def _find(letters: list[DeadLetter], letter_id: str) -> DeadLetter:
    for letter in letters:
        if letter.id == letter_id:
            return letter
    raise UsageError(f"no dead letter {letter_id!r}: `holdfast dead-letters` lists them")


def _letter_row(letter: DeadLetter) -> tuple[str, ...]:
    return (
        letter.id,
        moment(letter.now),
        f"{letter.agent}/{letter.key}",
        _event_text(letter),
        text_of(letter.error),
    )


def _event_text(letter: DeadLetter) -> str:
    assert isinstance(letter.event, Plain)
    return f"{letter.event.name} {fields_of(letter.event.values)}".rstrip()


def _letter_json(letter: DeadLetter) -> dict[str, object]:
    assert isinstance(letter.event, Plain)
    return {
        "id": letter.id,
        "agent": letter.agent,
        "key": letter.key,
        "type": letter.event.name,
        "data": letter.event.values,
        "error": letter.error,
        "trace": letter.trace,
        "now": letter.now,
        "redriven": letter.redriven,
    }


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@click.option("--reason", default="by an operator", show_default=True)
@engine_option
def pause(url: str, agent: str, reason: str) -> None:
    """Hold one agent's events back until `resume`; nothing is lost. Prints a receipt."""
    name, key = agent_and_key(agent)
    if not reason.strip() or not reason.isprintable():
        raise UsageError("--reason: say why on one line; whoever resumes it will want to know")
    with connect_untyped(url) as live:
        click.echo(receipt_text(live.pause(name, key, reason)))


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@engine_option
def resume(url: str, agent: str) -> None:
    """Let a paused agent go on with the events it holds. Prints a receipt."""
    name, key = agent_and_key(agent)
    with connect_untyped(url) as live:
        click.echo(receipt_text(live.resume(name, key)))


@click.command()
@click.argument("action_id", metavar="ACTION_ID")
@click.option("--why", required=True, metavar="TEXT", help="Recorded with the undo.")
@click.option("--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS")
@engine_option
def compensate(url: str, action_id: str, why: str, timeout: float) -> None:
    """Have the declared undo of an action issued, once, by the agent that issued it.

    Needs a running fleet. Prints the id of the undo; `holdfast actions` shows it with the reason.
    """
    with connect_untyped(url) as live:
        click.echo(live.compensate(action_id, why, timeout=timeout))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def paused(url: str, as_json: bool) -> None:
    """List paused agents: why, and how many events they hold."""
    with connect_untyped(url) as live:
        found = live.paused()
    if as_json:
        for each in found:
            print_json(
                {"agent": each.agent, "key": each.key, "reason": each.reason, "held": each.held}
            )
        return
    rows = [(f"{x.agent}/{x.key}", str(x.held), text_of(x.reason)) for x in found]
    print_table(("agent", "held", "reason"), rows)
