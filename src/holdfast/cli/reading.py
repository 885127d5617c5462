"""`state`, `history` and `actions`: committed data, read beside whoever folds."""

from __future__ import annotations

import time
from functools import partial
from itertools import islice

import click

from holdfast.cli.options import agent_and_key, engine_option
from holdfast.cli.output import (
    fields_of,
    moment,
    print_fields,
    print_json,
    print_table,
    text_of,
)
from holdfast.cli.times import parse_time
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.reading import ActionPage, HistoryEntry, IssuedAction, Plain
from holdfast.runtime.untyped import AgentState, UntypedLive, connect_untyped, read_receipt

FOLLOW_SECONDS = 0.2
ACTIONS_AT_ONCE = 1_000


@click.command()
@click.argument("agent", metavar="AGENT[/KEY]")
@click.option("--after", metavar="RECEIPT", help="Wait until these events are folded.")
@click.option("--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--from", "beginning", metavar="KEY", default="", help="Begin the list here.")
@click.option("--at", metavar="TIME", help="As it was then: folds the history again.")
@click.option("--fleet", metavar="FLEET", help="The code to fold it with, for --at.")
@click.option("--snapshots", metavar="URL", help="For --at; beside the data unless given.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def state(
    url: str,
    agent: str,
    after: str | None,
    timeout: float,
    limit: int,
    beginning: str,
    as_json: bool,
    at: str | None,
    fleet: str | None,
    snapshots: str | None,
) -> None:
    """Show the committed state of one agent, or of all agents of a class.

    \b
    holdfast state Drone/d-1
    holdfast state Drone --limit 100
    holdfast state Drone/d-1 --at 2026-11-16T03:00:00Z --fleet fleet.py
    """
    time_of = None if at is None else parse_time(at)
    if at is not None and "/" not in agent:
        raise UsageError(f"--at is for one agent: write {agent}/KEY")
    receipt = None if after is None else read_receipt(after)
    with connect_untyped(url) as live:
        if "/" not in agent:
            if receipt is not None:
                live.wait_for(receipt, timeout=timeout)
            _list_states(live, agent, limit, beginning, as_json)
            return
        name, key = agent_and_key(agent)
        code = partial(_load, fleet, f"{name}/{key}")
        found = live.state(
            name,
            key,
            after=receipt,
            timeout=timeout,
            at=time_of,
            fleet=code,
            snapshots=snapshots,
        )
    if found is None and at is not None:
        click.echo(f"holdfast: {name}/{key} was not there at {at}", err=True)
        click.get_current_context().exit(1)
    if found is None:
        click.echo(f"holdfast: {name}/{key} has no state: no event has changed it yet", err=True)
        click.get_current_context().exit(1)
    if as_json:
        print_json(_state_json(found))
    else:
        changed = f"version {found.version}, changed {moment(found.updated)}"
        print_fields(f"{name}/{key}  {changed}", found.values)


def _load(fleet: str | None, who: str) -> FleetModel:
    from holdfast.runtime.loading import load_fleet

    if fleet is None:
        raise UsageError(f"{who} has changed since then: give the code that folds it: --fleet FILE")
    return load_fleet(fleet)


def _list_states(live: UntypedLive, agent: str, limit: int, beginning: str, as_json: bool) -> None:
    found = list(islice(live.states(agent, beginning=beginning), limit + 1))
    shown = found[:limit]
    if as_json:
        for each in shown:
            print_json(_state_json(each))
    else:
        rows = [(f"{each.agent}/{each.key}", fields_of(each.values)) for each in shown]
        print_table(("agent", "state"), rows)
    if len(found) > limit:
        click.echo(f"holdfast: there are more: --from {found[limit].key}", err=True)


def _state_json(found: AgentState) -> dict[str, object]:
    return {
        "agent": found.agent,
        "key": found.key,
        "version": found.version,
        "updated": found.updated,
        "state": found.values,
    }


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@click.option("--limit", type=click.IntRange(min=1), help="Only the last ones.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def history(url: str, agent: str, limit: int | None, as_json: bool) -> None:
    """Show the inputs of one agent that retention has kept, in the order it took them.

    `holdfast debug` runs one of them again, by its number.
    """
    name, key = agent_and_key(agent)
    with connect_untyped(url) as live:
        entries = list(live.history(name, key))
    numbered = list(enumerate(entries, start=1))
    shown = numbered if limit is None else numbered[-limit:]
    if as_json:
        for number, entry in shown:
            print_json({"number": number, **_entry_json(entry)})
        return
    titles = ("number", "position", "time", "origin", "from", "event")
    print_table(titles, [(str(number), *_entry_row(entry)) for number, entry in shown])


def _entry_row(entry: HistoryEntry) -> tuple[str, ...]:
    came_from = entry.sender or entry.source or ""
    if entry.source is not None and entry.seq is not None:
        # A handle that was given no source has made one up, which tells nobody anything.
        came_from = "" if entry.source.startswith("~") else f"{entry.source} {entry.seq}"
    event = _event_text(entry.event)
    return (
        str(entry.position),
        moment(entry.now),
        entry.origin,
        text_of(came_from),
        text_of(event),
    )


def _event_text(event: object) -> str:
    if isinstance(event, Plain):
        return f"{event.name} {fields_of(event.values)}".rstrip()
    return "" if event is None else str(event)


def _entry_json(entry: HistoryEntry) -> dict[str, object]:
    plain = entry.event if isinstance(entry.event, Plain) else None
    return {
        "position": entry.position,
        "now": entry.now,
        "origin": entry.origin,
        "source": entry.source,
        "seq": entry.seq,
        "sender": entry.sender,
        "type": plain.name if plain is not None else None,
        "data": plain.values if plain is not None else entry.event,
    }


@click.command()
@click.option("--after", metavar="CURSOR", help="Continue behind the last one of another call.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--follow", is_flag=True, help="Wait for more until interrupted.")
@click.option("--pending", is_flag=True, help="Only what is still to be carried out.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines; a cursor at the end.")
@engine_option
def actions(
    url: str, after: str | None, limit: int | None, follow: bool, pending: bool, as_json: bool
) -> None:
    """Show issued actions, in order within a partition, and the cursor behind the last.

    With --pending the urgent ones of a page come first, and none that has expired or is settled.

    Store an action's id together with what you did: the same action may come twice, its id does
    not change.
    """
    left = limit
    seen = 0
    with connect_untyped(url) as live:
        while True:
            most = min(left or ACTIONS_AT_ONCE, ACTIONS_AT_ONCE)
            page = live.actions(after=after, most=most, pending=pending, status=True)
            _print_page(page, as_json)
            passed, after = page.cursor != after and pending, page.cursor
            if follow and as_json and page:
                _print_cursor(after, as_json)
            seen += len(page)
            left = None if limit is None else limit - seen
            if left == 0 or not (page or follow or passed):
                break
            if not page and not passed:
                time.sleep(FOLLOW_SECONDS)
    if not follow and (as_json or seen):
        _print_cursor(after, as_json)


def _print_page(page: ActionPage, as_json: bool) -> None:
    if as_json:
        for each in page:
            print_json(action_json(each))
    elif page:
        titles = ("time", "agent", "priority", "status", "action", "id")
        print_table(titles, [_action_row(each) for each in page])


def _print_cursor(cursor: str, as_json: bool) -> None:
    if as_json:
        print_json({"cursor": cursor})
    else:
        click.echo(f"continue with --after {cursor}", err=True)


def _action_row(issued: IssuedAction) -> tuple[str, ...]:
    return (
        moment(issued.now),
        f"{issued.agent}/{issued.key}",
        issued.priority,
        issued.status or "",
        _event_text(issued.action) + _reason_of(issued),
        issued.id,
    )


def _reason_of(issued: IssuedAction) -> str:
    if issued.why is None:
        return ""
    by = f" by {issued.by}" if issued.by else ""
    return text_of(f" ({'takes back' if issued.undoes else f'override{by}'}: {issued.why})")


def action_json(issued: IssuedAction) -> dict[str, object]:
    plain = issued.action
    assert isinstance(plain, Plain)
    return {
        "id": issued.id,
        "agent": issued.agent,
        "key": issued.key,
        "type": plain.name,
        "data": plain.values,
        "now": issued.now,
        "expires_at": issued.expires_at,
        "priority": issued.priority,
        **({"status": issued.status} if issued.status else {}),
        **({"undoes": issued.undoes, "why": issued.why} if issued.undoes else {}),
        **({"by": issued.by, "why": issued.why} if issued.why and not issued.undoes else {}),
    }
