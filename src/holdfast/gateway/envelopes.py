"""Bodies with events, in every form that is taken, as one: a list of `Sent`.

JSON (an object or an array), NDJSON, msgpack, and columns of one class in either. CloudEvents have
a file of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from holdfast.errors import UsageError
from holdfast.gateway.problems import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"
MSGPACK = "application/msgpack"
COLUMNS_JSON = "application/vnd.holdfast.columns+json"
COLUMNS_MSGPACK = "application/vnd.holdfast.columns+msgpack"

_PRIORITY = "an event has no 'priority': its class decides"

T = TypeVar("T")


class Sent(msgspec.Struct, forbid_unknown_fields=True):
    """One event for one agent."""

    agent: str
    key: str
    type: str
    data: dict[str, object] = {}
    source: str | None = None
    seq: int | None = None
    previous: int | None = None
    event_time: float | None = None
    traceparent: str | None = None


class Columns(msgspec.Struct, forbid_unknown_fields=True):
    """Many events of one class: a column per field, as long as `keys`, or one value for all."""

    agent: str
    type: str
    keys: list[str]
    columns: dict[str, object] = {}
    source: str | None = None
    first_seq: int | None = None
    event_times: list[float] | None = None


_json = msgspec.json.Decoder(Sent)
_json_many = msgspec.json.Decoder(list[Sent])
_json_columns = msgspec.json.Decoder(Columns)
_msgpack = msgspec.msgpack.Decoder(Sent)
_msgpack_many = msgspec.msgpack.Decoder(list[Sent])
_msgpack_columns = msgspec.msgpack.Decoder(Columns)


def check_own_source(source: str | None) -> None:
    if source is not None and source.startswith("~"):
        raise UsageError(f"source {source[:80]!r}: names that start with ~ are ours")


def decoded(decode: Callable[[bytes], T], body: bytes, what: str) -> T:
    try:
        return decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        told = str(error).replace("Object contains unknown field `priority`", _PRIORITY)
        raise Problem(400, "Bad Request", f"the body is no {what}: {told}") from None


def _from_json(body: bytes) -> list[Sent]:
    if body.lstrip()[:1] == b"[":
        return decoded(_json_many.decode, body, "JSON array of events")
    return [decoded(_json.decode, body, "JSON event")]


def _from_lines(body: bytes) -> list[Sent]:
    return decoded(_json.decode_lines, body, "lines of JSON events")


def _from_msgpack(body: bytes) -> list[Sent]:
    if body[:1] and (0x90 <= body[0] <= 0x9F or body[0] in (0xDC, 0xDD)):  # an array
        return decoded(_msgpack_many.decode, body, "msgpack array of events")
    return [decoded(_msgpack.decode, body, "msgpack event")]


def _from_json_columns(body: bytes) -> list[Sent]:
    return _rows(decoded(_json_columns.decode, body, "JSON object of columns"))


def _from_msgpack_columns(body: bytes) -> list[Sent]:
    return _rows(decoded(_msgpack_columns.decode, body, "msgpack map of columns"))


def _rows(columns: Columns) -> list[Sent]:
    count = len(columns.keys)
    if not count:
        raise Problem(400, "Bad Request", "columns without keys: give one for each event")
    names = list(columns.columns)
    each = [_column(name, values, count) for name, values in columns.columns.items()]
    times: Sequence[float | None] = [None] * count
    if columns.event_times is not None:
        times = columns.event_times
    if len(times) != count:
        raise _uneven("event_times", len(times), count)
    first = columns.first_seq
    rows = zip(*each, strict=True) if each else [()] * count
    return [
        Sent(
            columns.agent,
            key,
            columns.type,
            dict(zip(names, row, strict=True)),
            columns.source,
            None if first is None else first + index,
            event_time=time,
        )
        for index, (key, row, time) in enumerate(zip(columns.keys, rows, times, strict=True))
    ]


def _column(name: str, values: object, count: int) -> Sequence[object]:
    if not isinstance(values, list):
        return [values] * count
    if len(values) != count:
        raise _uneven(f"column {name!r}", len(values), count)
    return values


def _uneven(what: str, length: int, count: int) -> Problem:
    text = f"{what} has {length} values for {count} keys: give one for each"
    return Problem(400, "Bad Request", text)


FORMS: Mapping[str, Callable[[bytes], list[Sent]]] = {
    JSON: _from_json,
    NDJSON: _from_lines,
    "application/ndjson": _from_lines,
    MSGPACK: _from_msgpack,
    "application/x-msgpack": _from_msgpack,
    COLUMNS_JSON: _from_json_columns,
    COLUMNS_MSGPACK: _from_msgpack_columns,
}
