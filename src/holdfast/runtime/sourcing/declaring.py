"""What a --source says: `TOPIC=Agent[/Event][:FORMAT][@earliest|@latest]`.

Without an event every record names its own. FORMAT is json, msgpack, or
`protobuf(FILE.desc,package.Message)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from holdfast.errors import UsageError

FORM = "write TOPIC=Agent/Event, as in 'telemetry=Drone/Position:json@earliest'"
# With "[99999]@" and eight letters behind it, a source still is a source (runtime/sending.py).
TOPIC_LENGTH = 108

Format = Literal["json", "msgpack", "protobuf"]
Start = Literal["earliest", "latest"]

_GRAMMAR = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)=(?P<agent>\w+)(?:/(?P<event>\w+))?"
    r"(?::(?P<format>\w+)(?:\((?P<file>[^,]+),(?P<message>[\w.]+)\))?)?(?:@(?P<start>\w+))?"
)


class Declaration(NamedTuple):
    topic: str
    agent: str
    event: str | None = None  # None: each record says it
    format: Format = "json"
    start: Start = "earliest"  # where to begin with a topic that was never read
    descriptor: str = ""  # of Protobuf: the file, and the message in it
    message: str = ""


def parse_source(text: str) -> Declaration:
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise UsageError(f"--source {text!r}: {FORM}")
    if len(found["topic"]) > TOPIC_LENGTH:
        raise UsageError(
            f"--source {found['topic']}…: a topic of {len(found['topic'])} characters; "
            f"{TOPIC_LENGTH} is the most"
        )
    kind, start = found["format"] or "json", found["start"] or "earliest"
    if kind not in ("json", "msgpack", "protobuf"):
        raise UsageError(f"--source {text!r}: no format {kind!r}: json, msgpack or protobuf")
    if start not in ("earliest", "latest"):
        raise UsageError(f"--source {text!r}: begin @earliest or @latest, not @{start}")
    if (kind == "protobuf") != (found["file"] is not None):
        raise UsageError(
            f"--source {text!r}: protobuf needs what it is described by, and nothing else does: "
            ":protobuf(FILE.desc,package.Message), with the file from `protoc --descriptor_set_out`"
        )
    return Declaration(
        found["topic"],
        found["agent"],
        found["event"],
        cast(Format, kind),
        cast(Start, start),
        found["file"] or "",
        found["message"] or "",
    )


def parse_sources(texts: Sequence[str], prefix: str) -> list[Declaration]:
    """All of them; `prefix` is that of the fleet's own topics."""
    declared: dict[str, Declaration] = {}
    for text in texts:
        one = parse_source(text)
        if one.topic in declared:
            raise UsageError(f"--source: topic {one.topic} is given twice: give it once")
        if one.topic.startswith(f"{prefix}."):
            raise UsageError(f"--source: topic {one.topic} is the fleet's own: name another")
        declared[one.topic] = one
    return list(declared.values())
