"""Quick reading: JSON straight into the row that is stored, where all fields of an event are plain.

What it takes is what the long way of decoding.py would give, byte for byte. For everything else it
answers None: the long way then decides, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union, cast

import msgspec

from holdfast.model.schema import Schema
from holdfast.model.types import TypeTree, rebuild
from holdfast.stepping.codebook import EVENT_BYTES_MAX

# A number of one digit becomes nine bytes: what is shorter is within the bound of an event.
QUICK_BYTES_MAX = EVENT_BYTES_MAX // 10
TYPE = "type"  # the field in which a record names its event

_PLAIN = {"int", "float", "str", "bool"}
_pack = msgspec.msgpack.Encoder().encode


class Quick:
    """By the newest of these schemas: made anew when there are others."""

    def __init__(
        self, schemas: Mapping[int, Schema], only: str | None, beside: Sequence[str] = ()
    ) -> None:
        """`only`: every record is this event; None: each one names its own. `beside`: fields that
        a record of that one event may have besides, whole numbers or texts, and that are not
        stored; None of them is a field of the event."""
        events = {s.name: (i, s) for i, s in sorted(schemas.items()) if s.kind == "event"}
        # Beside another one, a record that names none is refused; alone it would be taken.
        classes: list[type[msgspec.Struct]] = [_class("", [], tagged=only is None)]
        self._ids: dict[type, int] = {}
        self._beside = len(beside)
        for name, (schema_id, schema) in events.items():
            if only in (None, name) and _is_plain(schema, tagged=only is None):
                others = [(each, int | str | None, None) for each in beside]
                made = _class(name, [*_fields(schema), *others], tagged=only is None)
                classes.append(made)
                self._ids[made] = schema_id
        wanted = classes[-1] if only is not None else Union[tuple(classes)]  # noqa: UP007
        self._decode = msgspec.json.Decoder(cast(Any, wanted)).decode

    def row(self, value: bytes) -> tuple[int, bytes] | None:
        """The number of its schema, and the row."""
        found = self.row_beside(value)
        return None if found is None else found[:2]

    def row_beside(self, value: bytes) -> tuple[int, bytes, tuple[int | str | None, ...]] | None:
        """The same, and what stands beside it."""
        if len(value) > QUICK_BYTES_MAX:
            return None
        try:
            event = self._decode(value)
            fields = msgspec.structs.astuple(event)
            stored = len(fields) - self._beside
            return self._ids[type(event)], _pack(fields[:stored]), fields[stored:]
        except Exception:  # whatever somebody has sent: the long way says what is wrong with it
            return None


def _is_plain(schema: Schema, *, tagged: bool) -> bool:
    return all(
        _bare(each.type) in _PLAIN and not (tagged and each.name == TYPE) for each in schema.fields
    )


def _bare(tree: TypeTree) -> object:
    return tree.get("limited", "") if isinstance(tree, dict) else tree


def _fields(schema: Schema) -> list[tuple[Any, ...]]:
    defaults = cast("Mapping[str, object]", schema.options.get("defaults", {}))
    fields: list[tuple[Any, ...]] = []
    for each in schema.fields:
        kind = cast(Any, rebuild(each.type))
        default = (msgspec.convert(defaults[each.name], kind),) if each.name in defaults else ()
        fields.append((each.name, kind, *default))
    return fields


def _class(name: str, fields: list[tuple[Any, ...]], *, tagged: bool) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name or "Nothing",
        fields,
        tag=name if tagged else None,
        tag_field=TYPE if tagged else None,
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
