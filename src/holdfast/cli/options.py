"""What several commands take: where the data is, which agent is meant, values for an event."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import click
import msgspec

from holdfast.engine.urls import DEFAULT_URL
from holdfast.errors import UsageError
from holdfast.model.schema import Field, Schema, UntypedReader
from holdfast.runtime.naming import check_fields

Command = Callable[..., None]


views_option = click.option(
    "--views", metavar="PATH", help="Where views are kept; beside the data unless given."
)


def engine_option(command: Command) -> Command:
    """--engine and --data; the command gets the URL they mean as `url`."""

    @click.option(
        "--engine",
        envvar="HOLDFAST_ENGINE",
        metavar="URL",
        show_envvar=True,
        help="Where the data is: sqlite:PATH, kafka://host:port[/PREFIX], or memory: for `run`. "
        f"Default {DEFAULT_URL}.",
    )
    @click.option("--data", metavar="PATH", help="Short for --engine sqlite:PATH.")
    @functools.wraps(command)
    def wrapped(engine: str | None, data: str | None, **others: object) -> None:
        context = click.get_current_context()
        given = context.get_parameter_source("engine")
        if data is not None and given is click.core.ParameterSource.COMMANDLINE:
            raise UsageError("--engine and --data mean the same: give one of them")
        url = f"sqlite:{data}" if data is not None else engine or DEFAULT_URL
        context.invoke(command, url=url, **others)

    return wrapped


def otlp_option(command: Command) -> Command:
    return click.option(
        "--otlp",
        metavar="URL",
        help="Export spans to an OpenTelemetry receiver, http://host:4318. Default "
        "OTEL_EXPORTER_OTLP_ENDPOINT, else none.",
    )(command)


def agent_and_key(text: str) -> tuple[str, str]:
    agent, slash, key = text.partition("/")
    if not slash or not agent:
        raise UsageError(f"{text!r} names no agent: write AGENT/KEY, as in Drone/d-1")
    return agent, key


def event_values(schema: Schema, words: Sequence[str]) -> dict[str, object]:
    """Values from `name=value` words and JSON objects, later ones over earlier ones."""
    values: dict[str, object] = {}
    for word in words:
        if word.lstrip().startswith("{"):
            values |= _json_object(word)
            continue
        name, equals, text = word.partition("=")
        if not equals:
            raise UsageError(
                f"{word!r} is no value: write name=value, or a JSON object as in '{{\"name\": 1}}'"
            )
        field = check_fields(schema, {name: text})[name]
        values[name] = _field_value(schema, field, text)
    return values


def _json_object(word: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(word, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"{word!r} is no JSON object: {error}") from None


def _field_value(schema: Schema, field: Field, text: str) -> object:
    """As JSON if the field can be that, else as the text it is: `name=7` may be a name."""
    if field.type == "str":
        return text
    try:
        value: object = msgspec.json.decode(text)
        UntypedReader(Schema(schema.kind, schema.name, (field,))).pack({field.name: value})
    except (msgspec.MsgspecError, UnicodeError, UsageError):
        return text
    return value
