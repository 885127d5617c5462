"""`send` and `ask`: events into a fleet, by the schemas stored with its data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

import click
import msgspec

from holdfast.cli.options import agent_and_key, engine_option, event_values
from holdfast.cli.output import print_json
from holdfast.errors import TryAgain, UsageError
from holdfast.model.keys import check_key
from holdfast.runtime.reached import Reached
from holdfast.runtime.sending import Receipt
from holdfast.runtime.untyped import Address, UntypedLive, connect_untyped, receipt_text

LINES_PER_SEND = 4_096

Line = tuple[int, bytes]


@click.command()
@click.argument("agent", metavar="AGENT/KEY", required=False)
@click.argument("event", metavar="EVENT", required=False)
@click.argument("values", metavar="[NAME=VALUE | JSON]...", nargs=-1)
@click.option("--file", "path", metavar="FILE", help="Many events as JSON lines; - is stdin.")
@click.option("--source", help="The producer's name; needs --seq. A repeat is then a no-op.")
@click.option("--seq", type=int, help="The event's number, or the first one's with --file.")
@click.option("--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS")
@engine_option
def send(
    url: str,
    agent: str | None,
    event: str | None,
    values: tuple[str, ...],
    path: str | None,
    source: str | None,
    seq: int | None,
    timeout: float,
) -> None:
    """Send events and print a receipt when they are durable.

    \b
    holdfast send Drone/d-1 Battery percent=9
    holdfast send Drone/d-1 Battery '{"percent": 9}' --source gcs --seq 1
    holdfast send --file events.ndjson

    A line of a file is {"agent": "Drone", "key": "d-1", "type": "Battery", "data": {"percent": 9}}.
    The receipt can be given to `holdfast state --after`.
    """
    if (source is None) != (seq is None):
        raise UsageError("--source and --seq go together: give both, or neither")
    if path is not None:
        if agent is not None:
            raise UsageError("--file and an event on the command line: give one of them")
        _send_file(url, path, source, seq, timeout)
        return
    if agent is None or event is None:
        raise UsageError("send what to whom? `holdfast send Drone/d-1 Battery percent=9`")
    name, key = agent_and_key(agent)
    with connect_untyped(url) as live:
        row = _address(live, name, key, event, values)
        receipt = live.send([row], source=source, first_seq=seq, timeout=timeout)
    _tell_repeats(receipt.repeats, 1, source)
    click.echo(receipt_text(receipt))


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@click.argument("event", metavar="EVENT")
@click.argument("values", metavar="[NAME=VALUE | JSON]...", nargs=-1)
@click.option("--timeout", type=float, default=5.0, show_default=True, metavar="SECONDS")
@engine_option
def ask(url: str, agent: str, event: str, values: tuple[str, ...], timeout: float) -> None:
    """Send one event and print what the agent replies, as JSON.

    \b
    holdfast ask Drone/d-1 Status
    """
    name, key = agent_and_key(agent)
    with connect_untyped(url) as live:
        row = _address(live, name, key, event, values)
        reply = live.ask(row.agent, row.key, row.event, row.values, timeout=timeout)
    print_json({"type": reply.name, "data": reply.values})


def _address(live: UntypedLive, agent: str, key: str, event: str, words: Sequence[str]) -> Address:
    live.names.check_agent(agent)
    check_key(key)
    _, schema = live.names.event(event)
    return Address(agent, key, event, event_values(schema, words))


# Many events as JSON lines.


class EventLine(msgspec.Struct, forbid_unknown_fields=True):
    agent: str
    key: str
    type: str
    data: dict[str, object] = {}


_decode = msgspec.json.Decoder(EventLine).decode
_FORM = 'write {"agent": "Drone", "key": "d-1", "type": "Battery", "data": {"percent": 9}}'


def numbered_lines(file: Iterable[bytes]) -> Iterator[Line]:
    """Lines with their number; empty ones are skipped."""
    return ((number, line) for number, line in enumerate(file, start=1) if line.strip())


def send_lines(
    live: UntypedLive,
    lines: Sequence[Line],
    source: str | None = None,
    seq: int | None = None,
    timeout: float = 10.0,
) -> Receipt:
    """All of them, or those before the first wrong one and then its complaint."""
    rows: list[Address] = []
    complaint: UsageError | None = None
    for number, line in lines:
        try:
            rows.append(_row(live, line))
        except UsageError as error:
            complaint = UsageError(
                f"line {number}: {error}; what is before it was sent: mend the line and send the "
                "file from there, or use --source and --seq and send all of it again"
            )
            break
    receipt = live.send(rows, source=source, first_seq=seq, timeout=timeout)
    if complaint is not None:
        raise complaint
    return receipt


def _row(live: UntypedLive, line: bytes) -> Address:
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"{error}: {_FORM}") from None
    live.names.check_agent(found.agent)
    check_key(found.key)
    live.names.pack(found.type, found.data)  # wrong values are this line's, not the whole send's
    return Address(found.agent, found.key, found.type, found.data)


def _send_file(url: str, path: str, source: str | None, seq: int | None, timeout: float) -> None:
    reached = Reached()
    sent = repeats = 0
    with connect_untyped(url) as live, _opened(path) as file:
        lines = numbered_lines(file)
        while batch := list(islice(lines, LINES_PER_SEND)):
            first = None if seq is None else seq + sent
            try:
                receipt = send_lines(live, batch, source, first, timeout)
            except (UsageError, TryAgain) as error:
                before = f"{path}: {sent:,} events were sent, then " if sent else f"{path}: "
                raise type(error)(f"{before}{error}") from None
            for place in receipt.positions:
                reached.add(*place)
            sent += len(batch)
            repeats += receipt.repeats
    _tell_repeats(repeats, sent, source)
    click.echo(receipt_text(Receipt(reached.positions)))


def _tell_repeats(repeats: int, sent: int, source: str | None) -> None:
    """A repeat is no error, but somebody who reuses a number by mistake has to see it."""
    if repeats:
        click.echo(
            f"holdfast: {repeats} of {sent} had a number that {source} has sent before: not stored "
            "again",
            err=True,
        )


def _opened(path: str) -> IO[bytes]:
    return sys.stdin.buffer if path == "-" else open(path, "rb")
