"""CloudEvents 1.0 over HTTP: structured, binary and in batches, as events for agents.

`subject` names the agent, as in Drone/d-1; the last part of `type` the class of event. Source and
number are `source` and the extension `sequence`, or an `id` of digits. With any other id the event
is known by source and id for ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from holdfast.gateway.envelopes import JSON, MSGPACK, Sent, check_own_source, decoded
from holdfast.gateway.problems import Problem
from holdfast.runtime.consigning import source_once

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_DIGITS_MAX = 18


class CloudEvent(msgspec.Struct):
    """Extensions that are none of these are passed over, as the specification has it."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: datetime | None = None
    datacontenttype: str = JSON
    data: dict[str, object] = {}
    data_base64: str | None = None
    sequence: str | int | None = None
    traceparent: str | None = None


_structured = msgspec.json.Decoder(CloudEvent)
_batch = msgspec.json.Decoder(list[CloudEvent])


def is_cloud_event(media: str, headers: Mapping[str, str]) -> bool:
    return media in (STRUCTURED, BATCH) or "ce-specversion" in headers


def read_cloud_events(body: bytes, media: str, headers: Mapping[str, str]) -> list[Sent]:
    if media == STRUCTURED:
        return [_sent(decoded(_structured.decode, body, "CloudEvent"))]
    if media == BATCH:
        return [_sent(each) for each in decoded(_batch.decode, body, "batch of CloudEvents")]
    return [_sent(_binary(body, media, headers))]


def _binary(body: bytes, media: str, headers: Mapping[str, str]) -> CloudEvent:
    """Attributes are headers, the body is the data."""
    given = {name[3:]: unquote(text) for name, text in headers.items() if name.startswith("ce-")}
    if media == MSGPACK:
        data = decoded(msgspec.msgpack.Decoder(dict[str, object]).decode, body, "msgpack map")
    elif media == JSON or not body:
        decode = msgspec.json.Decoder(dict[str, object]).decode
        data = decoded(decode, body, "JSON object") if body else {}
    else:
        text = f"data of a CloudEvent as {media or 'nothing'}: send {JSON} or {MSGPACK}"
        raise Problem(415, "Unsupported Media Type", text)
    try:
        return msgspec.convert({**given, "data": data}, CloudEvent, strict=False)
    except msgspec.ValidationError as error:
        text = f"the ce- headers make no CloudEvent: {error}"
        raise Problem(400, "Bad Request", text) from None


def _sent(event: CloudEvent) -> Sent:
    agent, slash, key = event.subject.partition("/")
    if event.specversion != "1.0":
        raise _wrong(event, f"specversion {event.specversion!r}: send 1.0")
    if not slash:
        raise _wrong(event, f"subject {event.subject!r}: write AGENT/KEY, as in Drone/d-1")
    if event.data_base64 is not None:
        raise _wrong(event, "data_base64: send the fields as a JSON object in data")
    check_own_source(event.source)
    source, seq = event.source, _number(event)
    if seq is None:
        source, seq = source_once("cloudevent", event.source, event.id), 1
    kind = event.type.rpartition(".")[2]
    time, trace = _time(event), event.traceparent
    return Sent(agent, key, kind, event.data, source, seq, event_time=time, traceparent=trace)


def _number(event: CloudEvent) -> int | None:
    text = str(event.id if event.sequence is None else event.sequence)
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text)
    if event.sequence is not None:
        raise _wrong(event, f"sequence {event.sequence!r}: give a whole number")
    return None


def _time(event: CloudEvent) -> float | None:
    """Of a time without a zone, which is none of RFC 3339, UTC is meant."""
    if event.time is None:
        return None
    aware = event.time if event.time.tzinfo is not None else event.time.replace(tzinfo=UTC)
    try:
        return aware.timestamp()
    except (ValueError, OverflowError):
        raise _wrong(event, f"time {event.time.isoformat()}: give one of this era") from None


def _wrong(event: CloudEvent, what: str) -> Problem:
    return Problem(400, "Bad Request", f"CloudEvent {event.id!r}: {what}")
