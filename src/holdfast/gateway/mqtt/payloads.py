"""Payloads: values by name from JSON, msgpack or CBOR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

import msgspec

from holdfast.errors import UsageError

Format = Literal["json", "msgpack", "cbor"]
FORMATS: tuple[Format, ...] = ("json", "msgpack", "cbor")
Values: TypeAlias = dict[str, object]

# What MQTT 5 devices say of a payload, without parameters such as a charset.
_CONTENT_TYPES: Mapping[str, Format] = {
    "application/json": "json",
    "json": "json",
    "application/msgpack": "msgpack",
    "application/x-msgpack": "msgpack",
    "application/vnd.msgpack": "msgpack",
    "msgpack": "msgpack",
    "application/cbor": "cbor",
    "cbor": "cbor",
}


def format_of(content_type: str, usual: Format) -> Format:
    """By the content type where it says one that we know, otherwise the usual one."""
    if not content_type:
        return usual
    return _CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower(), usual)


def values_of(payload: bytes, form: Format) -> Values:
    try:
        return _DECODERS[form](payload)
    except Exception as error:  # whatever somebody has sent: what comes behind it must go on
        raise UsageError(f"the payload is no {form} of fields by name: {error}") from None


def _cbor(payload: bytes) -> Values:
    import cbor2  # an extra: who has no such devices needs it not

    values = cbor2.loads(payload)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError("expected a map with names")
    return cast(Values, values)


_DECODERS: Mapping[Format, Callable[[bytes], Values]] = {
    "json": msgspec.json.Decoder(dict[str, object]).decode,
    "msgpack": msgspec.msgpack.Decoder(dict[str, object]).decode,
    "cbor": _cbor,
}


def check_format(form: Format) -> None:
    if form == "cbor":
        try:
            import cbor2  # noqa: F401
        except ModuleNotFoundError:
            raise UsageError("format cbor needs a library: pip install 'holdfast[mqtt]'") from None
