"""From a record to a row for an inbox, by the schemas stored with the data: no user code.

What is wrong with a record is a `UsageError` with the reason, for whoever mends its producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.keys import check_key, shortened
from holdfast.runtime.columns import EVENT_TIME_END
from holdfast.runtime.naming import Names
from holdfast.runtime.sourcing.declaring import Declaration
from holdfast.runtime.sourcing.quick import TYPE, Quick
from holdfast.runtime.sourcing.records import Record, Rejected, Row, Rows, record_of
from holdfast.runtime.stored import StoredSchemas

KEYS_MAX = 1_000_000
REFRESH_SECONDS = 5.0  # how old the known schemas may be when a record is refused because of them

Values: TypeAlias = Callable[[bytes], Mapping[str, object]]

_json = msgspec.json.Decoder(dict[str, object]).decode
_msgpack = msgspec.msgpack.Decoder(dict[str, object]).decode


class Decoder:
    """For one topic."""

    def __init__(self, declared: Declaration, engine: Engine) -> None:
        self.agent = declared.agent
        self._declared = declared
        self._catalog = engine.catalog
        self._values = _values_of(declared)
        self._quick: Quick | None = None
        self._keys: dict[str | bytes | None, str] = {}  # those that were checked
        self._renew()
        self._names.check_agent(declared.agent)
        if declared.event is not None:
            self._names.event(declared.event)

    def decoded(self, messages: Sequence[Message]) -> tuple[Rows, list[Rejected]]:
        """What is an event, and what is none, each in order."""
        rows = Rows()
        rejected: list[Rejected] = []
        for message in messages:
            if not self._takes_quickly(message, rows):
                record = record_of(message)
                try:
                    rows.add(self.row(record))
                except UsageError as error:
                    rejected.append(Rejected(record, str(error)))
        return rows, rejected

    def _takes_quickly(self, message: Message, rows: Rows) -> bool:
        """False: it has to go the long way."""
        key, value = self._keys.get(message.key()), message.value()
        kind, milliseconds = message.timestamp()
        if key is None or not isinstance(value, bytes) or kind == TIMESTAMP_NOT_AVAILABLE:
            return False
        if self._quick is None or message.headers():
            return False
        found = self._quick.row(value)
        if found is None:
            return False
        rows.offsets.append(message.offset() or 0)
        rows.keys.append(key)
        rows.schemas.append(found[0])
        rows.packed.append(found[1])
        rows.event_times.append(milliseconds / 1000.0)
        return True

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
        """Read once in a while only: with every record a producer may name an unknown class."""
        self._renewed = time.monotonic()
        schemas = self._catalog.schemas()
        self._names = Names(self._catalog.fleet, StoredSchemas(lambda: schemas))
        if self._declared.format == "json":  # so that both ways know the same
            self._quick = Quick(schemas, self._declared.event)

    def _row(self, record: Record) -> Row:
        key = _key_of(record)
        if len(self._keys) >= KEYS_MAX:
            self._keys.clear()
        self._keys[record.key] = key
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
        return Row(record.offset, key, schema, packed, event_time)

    def _event_of(
        self, record: Record, values: Mapping[str, object]
    ) -> tuple[str, Mapping[str, object]]:
        if self._declared.event is not None:
            return self._declared.event, values
        named = next((value for name, value in record.headers if name == TYPE), None)
        if named is not None:
            return named.decode(), values
        event = values.get(TYPE)
        if not isinstance(event, str):
            raise UsageError(
                "the record names no event: give its class in the header 'type', or in a field "
                "'type' beside the others"
            )
        return event, {name: value for name, value in values.items() if name != TYPE}


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
