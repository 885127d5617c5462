"""From a record to a row for an inbox, by the schemas stored with the data: no user code.

What is wrong with a record is a `UsageError` with the reason, for whoever mends its producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.keys import check_key, shortened
from holdfast.model.schema import Schema
from holdfast.runtime.columns import EVENT_TIME_END
from holdfast.runtime.sourcing.declaring import Declaration
from holdfast.runtime.untyped import Names

REFRESH_SECONDS = 5.0  # how old the known schemas may be when a record is refused because of them

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Values: TypeAlias = Callable[[bytes], Mapping[str, object]]

_json = msgspec.json.Decoder(dict[str, object]).decode
_msgpack = msgspec.msgpack.Decoder(dict[str, object]).decode


class Record(NamedTuple):
    """What a topic holds, as far as it matters here."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    stamp: float | None  # None: the record has none


class Row(NamedTuple):
    """One event for one inbox."""

    offset: int
    agent: str
    key: str
    schema: int
    packed: bytes
    event_time: float


class Decoder:
    """For one topic."""

    def __init__(self, declared: Declaration, engine: Engine) -> None:
        self._declared = declared
        self._catalog = engine.catalog
        self._values = _values_of(declared)
        self._loaded: tuple[float, dict[int, Schema]] | None = None
        self._renew()
        self._names.check_agent(declared.agent)
        if declared.event is not None:
            self._names.event(declared.event)

    def row(self, record: Record) -> Row:
        """A row, or a UsageError. Before that the schemas are looked at again: a newer program
        may have brought new ones since."""
        try:
            return self._row(record)
        except UsageError:
            if time.monotonic() - self._renewed < REFRESH_SECONDS:
                raise
        self._renew()
        return self._row(record)

    def _renew(self) -> None:
        self._renewed = time.monotonic()
        self._loaded = None
        self._names = Names(self._catalog.fleet, self._schemas)

    def _schemas(self) -> dict[int, Schema]:
        """Read once in a while only: with every record a producer may name an unknown class."""
        if self._loaded is None or time.monotonic() - self._loaded[0] > REFRESH_SECONDS:
            self._loaded = (time.monotonic(), self._catalog.schemas())
        return self._loaded[1]

    def _row(self, record: Record) -> Row:
        key = _key_of(record)
        event_time = _time_of(record)
        if record.value is None:
            raise UsageError("the record has no value: send an event")
        try:
            values = self._values(record.value)
            event, values = self._event_of(record, values)
            schema, packed = self._names.pack(event, values)
        except HoldfastError:
            raise
        except Exception as error:  # whatever somebody has sent, the records behind it have to come
            raise UsageError(
                f"the value is no {self._declared.format} of fields by name: {error}"
            ) from None
        return Row(record.offset, self._declared.agent, key, schema, packed, event_time)

    def _event_of(
        self, record: Record, values: Mapping[str, object]
    ) -> tuple[str, Mapping[str, object]]:
        if self._declared.event is not None:
            return self._declared.event, values
        named = next((value for name, value in record.headers if name == "type"), None)
        if named is not None:
            return named.decode(), values
        event = values.get("type")
        if not isinstance(event, str):
            raise UsageError(
                "the record names no event: give its class in the header 'type', or in a field "
                "'type' beside the others"
            )
        return event, {name: value for name, value in values.items() if name != "type"}


def _key_of(record: Record) -> str:
    if record.key is None:
        raise UsageError("the record has no key: give that of the agent")
    try:
        key = record.key.decode()
    except UnicodeDecodeError:
        raise UsageError(f"the key {shortened(record.key)} is no text: send UTF-8") from None
    check_key(key)
    return key


def _time_of(record: Record) -> float:
    if record.stamp is None:
        return time.time()
    if not abs(record.stamp) < EVENT_TIME_END:
        raise UsageError(f"the record's time cannot be {record.stamp:g}: give milliseconds")
    return record.stamp


def _values_of(declared: Declaration) -> Values:
    if declared.format == "protobuf":
        from holdfast.runtime.sourcing.protobuf import reader_of  # its library is not ours to need

        return reader_of(declared.descriptor, declared.message)
    return _json if declared.format == "json" else _msgpack
