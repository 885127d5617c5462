"""Rows of one side of a comparison as plain values, by the schemas that side knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from holdfast.model.schema import Schema, UntypedReader
from holdfast.stepping.cell import Extras
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Record

VERSION, TIMERS, HELD = "(version)", "(timers)", "(held events)"
PAUSED, CALLS = "(paused)", "(open calls)"
_encode = msgspec.msgpack.Encoder().encode


class Values:
    def __init__(
        self, schemas: Callable[[], Mapping[int, Schema]], codebook: Codebook | None
    ) -> None:
        self._load = schemas
        self._codebook = codebook
        self._readers: dict[int, tuple[str, UntypedReader]] = {}

    def name_of(self, schema: int) -> str:
        return self._reader(schema)[0]

    def row(self, schema: int, row: bytes) -> dict[str, object]:
        return self._reader(schema)[1].row(row)

    def _reader(self, schema: int) -> tuple[str, UntypedReader]:
        found = self._readers.get(schema)
        if found is None:
            self._readers = {i: (s.name, UntypedReader(s)) for i, s in self._load().items()}
            found = self._readers[schema]
        return found

    def state(self, record: Record) -> dict[str, object]:
        """Fields by name, and what the agent has beside them."""
        found = dict(self.row(record.schema, record.state))
        found[VERSION] = record.version
        if record.extras:
            assert self._codebook is not None
            extras = Extras.unpack(record.extras, self._codebook)
            found[PAUSED] = extras.paused
            found[HELD] = [self._event(each.event) for each in extras.held]
            found[CALLS] = sorted(list(call) for call in extras.calls.values())
            found[TIMERS] = {
                name: [timer.due, timer.period, self._event(timer.event)]
                for name, timer in sorted(extras.timers.items())
            }
        return found

    def _event(self, event: object) -> list[object]:
        codebook = self._codebook
        assert codebook is not None
        schema = codebook.id_of(type(event))
        row = UntypedReader(codebook.schema_of(schema)).row(codebook.pack_one(event))
        return [type(event).__name__, row]


def equal(one: object, other: object) -> bool:
    """By their bytes, so that NaN equals itself and 0.0 is not -0.0."""
    return _encode(one) == _encode(other)
