"""Stored bytes as plain values, in the form of today's classes: what two folds are compared by.

Bytes may differ where values do not: sets are stored in the order of one process's hashes, and a
class may have got a field since.
"""

from __future__ import annotations

import msgspec

from holdfast.model.schema import UntypedReader
from holdfast.model.types import TypeTree
from holdfast.stepping.cell import Extras
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Record

_encode = msgspec.msgpack.Encoder().encode
VERSION, PAUSED, HELD, TIMERS, CALLS = "(version)", "(paused)", "(held)", "(timers)", "(calls)"


class Values:
    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self._readers: dict[int, tuple[str, UntypedReader]] = {}

    def named(self, schema: int, row: bytes) -> tuple[str, dict[str, object]]:
        """An event, action or state: the name of its class and its fields."""
        item = self._codebook.reader_of(schema).row(row)
        return self._of(item)

    def _of(self, item: object) -> tuple[str, dict[str, object]]:
        schema = self._codebook.id_of(type(item))
        found = self._readers.get(schema)
        if found is None:
            stored = self._codebook.schema_of(schema)
            found = self._readers[schema] = (stored.name, UntypedReader(stored))
        name, reader = found
        return name, reader.row(self._codebook.pack_one(item))

    def text(self, schema: int, row: bytes) -> str:
        return text_of(*self.named(schema, row))

    def agent(self, record: Record | None) -> dict[str, object] | None:
        """State, version, and what the agent has beside its state."""
        if record is None or record.gone:
            return None
        found = dict(self.named(record.schema, record.state)[1])
        found[VERSION] = record.version
        extras = Extras.unpack(record.extras, self._codebook)
        found[PAUSED] = extras.paused
        found[HELD] = [[text_of(*self._of(held.event)), held.position] for held in extras.held]
        found[TIMERS] = {
            name: [timer.due, timer.period, text_of(*self._of(timer.event))]
            for name, timer in sorted(extras.timers.items())
        }
        found[CALLS] = {id: list(call) for id, call in sorted(extras.calls.items())}
        return found

    def is_plain(self, schema: int) -> bool:
        """Whether equal values of this class have equal bytes, now and as they were stored."""
        stored = self._codebook.schema_of(schema)
        forms = [s for _, s in self._codebook.schemas() if (s.kind, s.name) == stored_name(stored)]
        return len(forms) == 1 and not any(_has_set(each.type) for each in stored.fields)


def stored_name(schema: object) -> tuple[object, object]:
    return getattr(schema, "kind", None), getattr(schema, "name", None)


def _has_set(tree: TypeTree | object) -> bool:
    if isinstance(tree, dict):
        return bool({"set", "frozenset"} & tree.keys()) or any(map(_has_set, tree.values()))
    return isinstance(tree, list | tuple) and any(map(_has_set, tree))


def text_of(name: str, values: dict[str, object]) -> str:
    return f"{name}({', '.join(f'{field}={value!r}' for field, value in values.items())})"


def first_field(
    committed: dict[str, object] | None, replayed: dict[str, object] | None
) -> tuple[str, object, object] | None:
    """The first field that differs, with both values. NaN equals itself, and 0.0 is not -0.0."""
    if committed is None or replayed is None:
        return None if committed is replayed else ("the agent itself", committed, replayed)
    for name in dict.fromkeys([*committed, *replayed]):
        pair = committed.get(name), replayed.get(name)
        if _encode(pair[0]) != _encode(pair[1]):
            return name, *pair
    return None
