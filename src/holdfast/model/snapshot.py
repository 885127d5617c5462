"""Values that are handed over stay as they were, whatever their giver does to its lists later.

Events and actions are frozen, but a list inside one may be the very list of an agent's state. Most
classes hold no lists and are passed on as they are; the others are copied.
"""

from typing import TypeVar

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.types import TypeTree, part, parts

_T = TypeVar("_T")
_decoders: dict[type, msgspec.msgpack.Decoder[object] | None] = {}  # None: nothing to copy
_all_decoders: dict[type, msgspec.msgpack.Decoder[object]] = {}
_encode = msgspec.msgpack.Encoder().encode


def snapshot(value: _T) -> _T:
    """The value itself if nothing in it can change, otherwise a copy as it will be stored."""
    kind = type(value)
    try:
        decoder = _decoders[kind]
    except KeyError:
        decoder = _decoders[kind] = None if is_unchangeable(kind) else _decoder_of(kind)
    return value if decoder is None else _copied(value, decoder)


def as_stored(value: _T) -> _T:
    """A copy in any case: a whole number for a float, say, is a float after it was stored, and must
    be one before."""
    return _copied(value, _decoder_of(type(value)))


def _decoder_of(kind: type) -> msgspec.msgpack.Decoder[object]:
    if kind not in _all_decoders:
        _all_decoders[kind] = msgspec.msgpack.Decoder(kind)
    return _all_decoders[kind]


def _copied(value: _T, decoder: msgspec.msgpack.Decoder[object]) -> _T:
    try:
        return decoder.decode(_encode(value))  # type: ignore[return-value]
    except (msgspec.MsgspecError, HoldfastError, TypeError, ValueError, OverflowError):
        return value  # of a wrong type, which whoever stores it refuses by name


def snapshots(values: list[_T], kinds: set[type[_T]] | None = None) -> list[_T]:
    """The same for many, whose types may be known; the very list where nothing in it can change."""
    kinds = set(map(type, values)) if kinds is None else kinds
    if any(_decoders.get(kind, _unchangeable) is not None for kind in kinds):
        return [snapshot(value) for value in values]
    return values


def is_unchangeable(kind: type) -> bool:
    definition = getattr(kind, "__holdfast__", None)
    return definition is None or all(_unchangeable(each.type) for each in definition.schema.fields)


def _unchangeable(tree: TypeTree) -> bool:
    if isinstance(tree, str) or "enum" in tree or "literal" in tree:
        return True
    for wrapper in ("limited", "frozenset", "tuple_of"):
        if wrapper in tree:
            return _unchangeable(part(tree, wrapper))
    for several in ("tuple", "union"):
        if several in tree:
            return all(map(_unchangeable, parts(tree, several)))
    return False
