"""`Values`: the fields of an event, an action or a state, in the form that a client likes."""

from __future__ import annotations

from typing import cast

import msgspec
from google.protobuf import struct_pb2

from holdfast.errors import UsageError
from holdfast.gateway.envelopes import decoded
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.runtime.exporting.payloads import json_text

EXACT = 2**53  # a double has every integer up to here

_json = msgspec.json.Decoder(dict[str, object])
_msgpack = msgspec.msgpack.Decoder(dict[str, object])


def read_values(values: pb.Values) -> dict[str, object]:
    form = values.WhichOneof("form")
    if form == "json":
        return decoded(_json.decode, values.json, "JSON object")
    if form == "msgpack":
        return decoded(_msgpack.decode, values.msgpack, "msgpack map")
    if form == "structure":
        return cast(dict[str, object], _plain(struct_pb2.Value(struct_value=values.structure)))
    return {}


def _plain(value: struct_pb2.Value) -> object:
    """Whole numbers are integers: a field of floats takes them as well."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {name: _plain(each) for name, each in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_plain(each) for each in value.list_value.values]
    if kind == "number_value":
        number: float = value.number_value
        return int(number) if number.is_integer() and abs(number) <= EXACT else number
    return {"bool_value": value.bool_value, "string_value": value.string_value}.get(kind)


def write_values(name: str, values: object, form: int) -> pb.Values:
    """`form` as the request has it; one that is none of ours is JSON."""
    if form == pb.FORM_MSGPACK:
        return pb.Values(type=name, msgpack=msgspec.msgpack.encode(values))
    text = json_text(values)
    if form != pb.FORM_STRUCT:
        return pb.Values(type=name, json=text)
    plain = msgspec.json.decode(text)
    _check_exact(plain, name)
    found = pb.Values(type=name)
    found.structure.update(plain)
    return found


def _check_exact(value: object, where: str) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            _check_exact(each, f"{where}.{name}")
    elif isinstance(value, list):
        for each in value:
            _check_exact(each, where)
    elif isinstance(value, int) and abs(value) > EXACT:
        raise UsageError(
            f"{where} is {value}, which a Struct cannot hold exactly: ask for FORM_JSON"
        )
