"""Protobuf records, by a descriptor that `protoc --descriptor_set_out --include_imports` wrote.

The library is loaded when a source asks for it. Fields that were not sent and have no presence get
the value that Protobuf says they have; those that have presence are left out, so that the event's
own default counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.errors import UsageError
from holdfast.model.schema import Schema
from holdfast.runtime.naming import suggestion
from holdfast.runtime.sourcing.declaring import Declaration


def reader_of(file: str, message: str) -> Callable[[bytes], Mapping[str, object]]:
    made = _class_of(file, message)

    def read(value: bytes) -> Mapping[str, object]:
        return _plain(made.FromString(value))

    return read


def check_fields_of(declared: Declaration, schema: Schema) -> None:
    """Refuse a message that can never become this event."""
    descriptor = _class_of(declared.descriptor, declared.message).DESCRIPTOR
    sent = [each.name for each in descriptor.fields]
    known = {each.name: each for each in schema.fields}
    for name in sent:
        if name not in known:
            raise UsageError(
                f"--source {declared.topic}: {declared.message} has a field {name!r}, which "
                f"{schema.name} has not: {suggestion(name, list(known))}"
            )
    for name, field in known.items():
        if field.required and name not in sent:
            raise UsageError(
                f"--source {declared.topic}: {schema.name} needs the field {name!r}, which "
                f"{declared.message} has not: give it a default, or add it to the message"
            )


def _class_of(file: str, message: str) -> Any:
    try:
        descriptors = import_module("google.protobuf.descriptor_pb2")
        pools = import_module("google.protobuf.descriptor_pool")
        factory = import_module("google.protobuf.message_factory")
    except ModuleNotFoundError:
        raise UsageError(":protobuf needs its library: pip install 'holdfast[protobuf]'") from None
    try:
        found = descriptors.FileDescriptorSet.FromString(Path(file).read_bytes())
        pool = pools.DescriptorPool()
        for each in found.file:
            pool.Add(each)
        names = [
            f"{each.package}.{m.name}".lstrip(".") for each in found.file for m in each.message_type
        ]
    except Exception as error:  # the library has its own, and Python's, for a file that is none
        raise UsageError(
            f"{file}: cannot be read ({error}): make it with `protoc --include_imports "
            "--descriptor_set_out`"
        ) from None
    try:
        return factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except KeyError:
        raise UsageError(
            f"{file} has no message {message!r}: {suggestion(message, names)}"
        ) from None


def _plain(message: Any) -> dict[str, object]:
    values: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        if not field.has_presence or message.HasField(field.name):
            values[field.name] = _field(field, getattr(message, field.name))
    return values


def _field(field: Any, value: Any) -> object:
    if not field.is_repeated:
        return _single(field, value)
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        of = inner.fields_by_name["value"]
        return {key: _single(of, each) for key, each in value.items()}
    return [_single(field, each) for each in value]


def _single(field: Any, value: Any) -> object:
    """A message by its fields, a value of an enum by its name, anything else as it is."""
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value
