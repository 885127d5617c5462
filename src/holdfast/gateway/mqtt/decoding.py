"""From a message to a row for an inbox, by the schemas stored with the data: no user code.

What is wrong with a message is a `UsageError` with the reason, for whoever mends its device.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.engine.admission import SEQ_MAX
from holdfast.engine.port import Catalog
from holdfast.errors import HoldfastError, UsageError
from holdfast.gateway.mqtt.packets import Published
from holdfast.gateway.mqtt.payloads import Values, format_of, values_of
from holdfast.gateway.mqtt.table import Classes, EventRule, Table
from holdfast.model.fates import MADE_HERE
from holdfast.model.keys import check_key, shortened
from holdfast.model.schema import Schema
from holdfast.model.tracing import NONE, read_context
from holdfast.runtime.issued import name_of
from holdfast.runtime.naming import Names, suggestion
from holdfast.runtime.settling import Told, check_why
from holdfast.runtime.sourcing.quick import Quick
from holdfast.runtime.stored import StoredSchemas

ACK = "ack"  # the level of a topic
REFRESH_SECONDS = 5.0  # how old the known classes may be when a message is refused because of them
MQTT_TOPICS_KNOWN_MAX = 100_000
SOURCE_LENGTH_MAX = 128  # of a source (runtime/sending.py)


class Row(NamedTuple):
    """One event for one inbox."""

    agent: str
    key: str
    schema: int
    packed: bytes
    source: str | None  # None: the device does not number
    seq: int
    of: Published
    trace: str = ""  # its context


class Target(NamedTuple):
    """What a topic means."""

    rule: EventRule
    key: str
    event: str
    source: str  # unless the message says more
    takes_seq: bool  # the event has fields of these names itself
    takes_source: bool
    quick: Quick | None  # for plain JSON, several times faster


class Decoder:
    def __init__(self, table: Table, catalog: Catalog) -> None:
        self._table = table
        self._catalog = catalog
        self._targets: dict[str, Target] = {}
        self._renew()

    def row(self, message: Published) -> Row | Told | None:
        """An event, or what a device says of an action; None for what is neither, nor a mistake."""
        try:
            return self._legible(message)
        except UsageError:
            if time.monotonic() - self._renewed < REFRESH_SECONDS:
                raise
        self._renew()  # a newer program may have brought its class since
        return self._legible(message)

    def _legible(self, message: Published) -> Row | Told | None:
        """A payload that nobody thought of ends no bridge: it would come again to the next one."""
        try:
            return self._row(message)
        except HoldfastError:
            raise
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise UsageError(f"a payload that cannot be taken: {error}") from None

    def _renew(self) -> None:
        self._renewed = time.monotonic()
        schemas = self._schemas = self._catalog.schemas()
        self._names = Names(self._catalog.fleet, StoredSchemas(lambda: schemas))
        self._targets.clear()
        self._quicks: dict[tuple[str, ...], Quick] = {}

    def _row(self, message: Published) -> Row | Told | None:
        target = self._targets.get(message.topic)
        if target is None:
            if self._table.is_ours(message.topic):
                return None
            if (told := self._told(message)) is not None:
                return told
            target = self._target(message.topic)
        seq: object
        begun: object
        form = format_of(message.content_type, target.rule.format)
        plain = target.quick is not None and form == "json" and not message.user
        found = target.quick.row_beside(message.payload) if plain and target.quick else None
        if found is not None:
            schema, packed, (seq, begun) = found
        else:
            schema, packed, seq, begun = self._slowly(
                target, message, values_of(message.payload, form)
            )
        if seq is None and message.retained:
            return None  # the broker repeats it to a new subscription: it may have come before
        agent = target.rule.agent
        trace = read_context(dict(message.user).get("traceparent")) if message.user else NONE
        if seq is None:
            return Row(agent, target.key, schema, packed, None, 0, message, trace)
        source = target.source if begun is None else _named(f"{target.source}/{begun}")
        return Row(agent, target.key, schema, packed, source, _number(seq), message, trace)

    def _told(self, message: Published) -> Told | None:
        """`agents/KEY/ack`, where that is no event: a device speaks of its own actions only."""
        for rule in self._table.events:
            found = rule.topic.match(message.topic)
            if found is not None:
                break
        else:
            return None
        if rule.event is not None or found["word"] != ACK or ACK in map(_plain, self._events()):
            return None
        values = values_of(message.payload, format_of(message.content_type, rule.format))
        id, failed = values.get("id"), values.get("failed")
        if set(values) - {"id", "failed"} or not isinstance(id, str):
            raise UsageError('an acknowledgement is {"id": …}, or {"id": …, "failed": "why"}')
        name = name_of(id)
        if (name.fleet, name.agent, name.key) != (self._catalog.fleet, rule.agent, found["key"]):
            raise UsageError(f"{shortened(id)} is no action of {rule.agent}/{found['key']}")
        by = _named(f"mqtt:{rule.agent}/{name.key}")
        if failed is None:
            return Told("acknowledge", id, by, "")
        return Told("fail", id, by, check_why(str(failed), "it failed"))

    def _slowly(
        self, target: Target, message: Published, values: Values
    ) -> tuple[int, bytes, object, object]:
        """Whatever it is, or what is wrong with it."""
        rule, told = target.rule, dict(message.user)
        seq = _said(values, told, rule.seq, "seq", target.takes_seq)
        begun = _said(values, told, rule.source, "source", target.takes_source)
        return *self._names.pack(target.event, values), seq, begun

    def _target(self, topic: str) -> Target:
        for rule in self._table.events:
            found = rule.topic.match(topic)
            if found is not None:
                break
        else:
            raise UsageError("no line of the table is for this topic: add one, or mend the device")
        key = found["key"]
        check_key(key)
        event = rule.event or self._event(found["word"])
        fields = {field.name for field in self._names.event(event)[1].fields}
        source = _named(f"mqtt:{rule.agent}/{key}")
        takes = (rule.seq in fields, rule.source in fields)
        quick = None if any(takes) else self._quick(event, rule.seq, rule.source)
        target = Target(rule, key, event, source, *takes, quick)
        if len(self._targets) >= MQTT_TOPICS_KNOWN_MAX:
            self._targets.clear()
        self._targets[topic] = target
        return target

    def _quick(self, *wanted: str) -> Quick:
        found = self._quicks.get(wanted)
        if found is None:
            found = self._quicks[wanted] = Quick(self._schemas, wanted[0], wanted[1:])
        return found

    def _events(self) -> list[str]:
        return [each for each in self._names.of_kind("event") if each not in MADE_HERE]

    def _event(self, word: str) -> str:
        """The event that a level of a topic means: `low-battery` is LowBattery."""
        known = self._events()
        meant = [word] if word in known else [e for e in known if _plain(e) == _plain(word)]
        if len(meant) != 1:
            what = f"no event {shortened(word)}" if not meant else f"{shortened(word)} is several"
            raise UsageError(f"{what}: {suggestion(word[:64], meant or known)}")
        return meant[0]


def classes_of(schemas: Mapping[int, Schema]) -> Classes:
    def named(kind: str) -> list[str]:
        return sorted({each.name for each in schemas.values() if each.kind == kind})

    return Classes(named("state"), named("event"), named("action"))


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def _said(values: Values, told: Mapping[str, str], field: str, property: str, keep: bool) -> object:
    """From a field of the payload, or from a property of the message; None: nobody says it."""
    value = values.get(field)
    if value is not None and not keep:
        del values[field]
    return told.get(property) if value is None else value


def _number(seq: object) -> int:
    if isinstance(seq, str) and seq.isascii() and seq.isdecimal() and len(seq) < 20:
        seq = int(seq)
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= SEQ_MAX:
        raise UsageError(f"seq cannot be {shortened(seq)}: give a whole number, 0 to {SEQ_MAX}")
    return seq


def _named(source: str) -> str:
    if not source.isprintable():
        raise UsageError(f"source {shortened(source)}: give printable characters")
    if len(source) <= SOURCE_LENGTH_MAX:
        return source
    return f"mqtt#{hashlib.blake2b(source.encode(), digest_size=20).hexdigest()}"
