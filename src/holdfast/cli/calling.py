"""`calls`: work that agents wait for, and how the functions that do it are."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import engine_option
from holdfast.cli.output import moment, print_json, print_table, text_of
from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine, parse
from holdfast.errors import UsageError
from holdfast.runtime.calling.status import open_calls, read_status
from holdfast.stepping.commit import Call

ARGUMENTS_SHOWN = 80


@click.command()
@click.option("--functions", is_flag=True, help="How the functions do, instead of the calls.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@engine_option
def calls(url: str, functions: bool, limit: int, as_json: bool) -> None:
    """List open calls, oldest first within a partition, or the functions that run them.

    Functions are told by the process that runs them: how many attempts run and wait in it, how many
    there were and failed since it was started, and the state of the circuit breaker.
    """
    engine = open_engine(url, None)
    try:
        if functions:
            _print_functions(parse(url).root, as_json)
        else:
            _print_calls(engine, limit, as_json)
    finally:
        engine.close()


def _print_calls(engine: Engine, limit: int, as_json: bool) -> None:
    found = list(islice(open_calls(engine), limit + 1))
    shown = found[:limit]
    if as_json:
        for call in shown:
            print_json(_call_json(call))
    else:
        rows = [(text_of(c.id), moment(c.now), c.function, _arguments_text(c)) for c in shown]
        print_table(("call", "since", "function", "arguments"), rows)
    if len(found) > limit:
        click.echo(f"holdfast: there are more: --limit {2 * limit}", err=True)


def _arguments_text(call: Call) -> str:
    text = text_of(msgspec.msgpack.decode(call.arguments))
    return text if len(text) <= ARGUMENTS_SHOWN else text[: ARGUMENTS_SHOWN - 1] + "…"


def _call_json(call: Call) -> dict[str, object]:
    return {
        "id": call.id,
        "agent": call.agent,
        "key": call.key,
        "function": call.function,
        "arguments": msgspec.msgpack.decode(call.arguments),
        "reply": call.reply,
        "timeout": call.timeout,
        "retries": call.retries,
        "backoff": call.backoff,
        "now": call.now,
    }


def _print_functions(root: Path, as_json: bool) -> None:
    status = read_status(root)
    if status is None:
        raise UsageError(
            f"{root}: nobody runs calls here now: `holdfast run` starts them, and the first "
            "call of a function makes it known"
        )
    if as_json:
        for each in status.functions:
            print_json(each._asdict())
        return
    titles = ("function", "kind", "at once", "running", "waiting", "attempts", "failed", "breaker")
    print_table(titles, [[str(value) for value in each] for each in status.functions])
