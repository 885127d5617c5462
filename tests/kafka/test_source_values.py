"""Goal: what a --source says is understood, and Protobuf records become the fields of an event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import UsageError
from holdfast.model.schema import Field, Schema
from holdfast.runtime.sending import FRAME_BYTES_MAX, check_source
from holdfast.runtime.sourcing.batching import BYTES_PER_BATCH
from holdfast.runtime.sourcing.declaring import TOPIC_LENGTH, Declaration, parse_source
from holdfast.runtime.sourcing.protobuf import check_fields_of, reader_of


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("t=Drone/Position", Declaration("t", "Drone", "Position")),
        ("a.b_c-d=Drone", Declaration("a.b_c-d", "Drone")),
        ("t=Drone:msgpack@latest", Declaration("t", "Drone", None, "msgpack", "latest")),
        ("t=Drone/P@earliest", Declaration("t", "Drone", "P", "json", "earliest")),
        (
            "t=Drone/P:protobuf(some where/x@y.desc,fleet.v1.P)@latest",
            Declaration(
                "t", "Drone", "P", "protobuf", "latest", "some where/x@y.desc", "fleet.v1.P"
            ),
        ),
    ],
)
def test_a_source_says(text: str, declared: Declaration) -> None:
    assert parse_source(text) == declared


def test_the_longest_topic_still_is_a_source() -> None:
    topic = parse_source(f"{'t' * TOPIC_LENGTH}=Drone").topic
    check_source(f"{topic}[99999]@abcdefgh")
    with pytest.raises(UsageError, match="109 characters"):
        parse_source(f"t{topic}=Drone")


@pytest.fixture
def descriptor(tmp_path: Path) -> Path:
    """What protoc writes for fleet.proto with one message in it."""
    pb: Any = pytest.importorskip("google.protobuf.descriptor_pb2")
    of = pb.FieldDescriptorProto
    file = pb.FileDescriptorProto(name="fleet.proto", package="fleet", syntax="proto3")
    mode = file.enum_type.add(name="Mode")
    mode.value.add(name="IDLE", number=0)
    mode.value.add(name="FLYING", number=1)
    place = file.message_type.add(name="Place")
    place.field.add(name="x", number=1, type=of.TYPE_DOUBLE, label=of.LABEL_OPTIONAL)
    position = file.message_type.add(name="Position")

    def field(
        name: str, number: int, kind: int, label: int = of.LABEL_OPTIONAL, to: str = ""
    ) -> Any:
        return position.field.add(
            name=name, number=number, type=kind, label=label, type_name=to or None
        )

    field("n", 1, of.TYPE_INT64)
    field("mode", 2, of.TYPE_ENUM, to=".fleet.Mode")
    field("place", 3, of.TYPE_MESSAGE, to=".fleet.Place")
    field("tags", 4, of.TYPE_STRING, of.LABEL_REPEATED)
    field("raw", 5, of.TYPE_BYTES)
    path = tmp_path / "fleet.desc"
    path.write_bytes(pb.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def test_a_message_becomes_fields(descriptor: Path) -> None:
    read = reader_of(str(descriptor), "fleet.Position")
    given = b"\x08\x07\x10\x01\x1a\x09\x09" + bytes(6) + b"\xf8\x3f" + b"\x22\x01a\x22\x01b"
    assert read(given) == {
        "n": 7,
        "mode": "FLYING",
        "place": {"x": 1.5},
        "tags": ["a", "b"],
        "raw": b"",
    }
    assert read(b"") == {
        "n": 0,
        "mode": "IDLE",
        "tags": [],
        "raw": b"",
    }  # an absent message stays so


def test_a_message_that_is_not_there_is_refused(descriptor: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean fleet.Position\?"):
        reader_of(str(descriptor), "fleet.Positio")
    descriptor.write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        reader_of(str(descriptor), "fleet.Position")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (["n", "mode", "place", "tags"], "has a field 'raw', which Position has not"),
        (["n", "mode", "place", "tags", "raw", "more"], "needs the field 'more'"),
        (["n", "mode", "place", "tags", "raw"], None),
    ],
)
def test_a_message_that_can_never_be_the_event_is_refused(
    descriptor: Path, fields: list[str], complaint: str | None
) -> None:
    schema = Schema("event", "Position", tuple(Field(name, "str", True) for name in fields))
    declared = parse_source(f"t=Drone/Position:protobuf({descriptor},fleet.Position)")
    if complaint is None:
        check_fields_of(declared, schema)
        return
    with pytest.raises(UsageError, match=complaint):
        check_fields_of(declared, schema)


def test_what_is_sent_at_once_fits_into_a_frame_however_long_it_becomes() -> None:
    numbers = [1.0] * 1_000
    text = ",".join("1" for _ in numbers)
    growth = len(msgspec.msgpack.encode(numbers)) / len(text)
    assert BYTES_PER_BATCH * growth < FRAME_BYTES_MAX
