"""Dedupe rows in dictionaries."""

from __future__ import annotations

from itertools import islice

from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sources import SourceRow, is_anonymous


class MemoryLedger:
    def __init__(self, dedupe: Dedupe | None = None) -> None:
        self.named: dict[str, SourceRow] = {}
        # The oldest stamp first: stamps only grow, so what is put again goes to the end.
        self.anonymous: dict[str, SourceRow] = {}
        self.chunks: dict[str, dict[int, int]] = {}
        self.marks: dict[str, int] = {}
        self.last_by_key: dict[str, dict[str, int]] = {}
        if dedupe is not None:
            self._inherit(dedupe)

    def source(self, name: str) -> SourceRow | None:
        return self._kind(anonymous=is_anonymous(name)).get(name)

    def put_source(self, name: str, row: SourceRow, before: SourceRow | None) -> None:
        kind = self._kind(anonymous=is_anonymous(name))
        if before is not None and before.stamp != row.stamp:
            del kind[name]
        kind[name] = row

    def source_count(self, *, anonymous: bool) -> int:
        return len(self._kind(anonymous=anonymous))

    def oldest_anonymous(self, most: int) -> list[tuple[float, str]]:
        return [(row.stamp, name) for name, row in islice(self.anonymous.items(), most)]

    def forget_source(self, name: str, stamp: float) -> None:
        del self._kind(anonymous=is_anonymous(name))[name]
        self.chunks.pop(name, None)
        self.last_by_key.pop(name, None)

    def _kind(self, *, anonymous: bool) -> dict[str, SourceRow]:
        return self.anonymous if anonymous else self.named

    def chunk(self, name: str, number: int) -> int:
        return self.chunks.get(name, {}).get(number, 0)

    def put_chunk(self, name: str, number: int, bits: int) -> None:
        self.chunks.setdefault(name, {})[number] = bits

    def drop_chunks_below(self, name: str, number: int) -> None:
        chunks = self.chunks.get(name, {})
        for old in [each for each in chunks if each < number]:
            del chunks[old]

    def mark(self, source: str) -> int:
        return self.marks.get(source, 0)

    def put_mark(self, source: str, last: int) -> None:
        self.marks[source] = last

    def last_of_key(self, name: str, key: str) -> int:
        return self.last_by_key.get(name, {}).get(key, 0)

    def put_last_of_key(self, name: str, key: str, seq: int) -> None:
        self.last_by_key.setdefault(name, {})[key] = seq

    # All rows at once, for a rescaling.

    def dedupe(self) -> Dedupe:
        return Dedupe(
            self.named | self.anonymous,
            {(name, n): bits for name, own in self.chunks.items() for n, bits in own.items()},
            {(name, k): last for name, own in self.last_by_key.items() for k, last in own.items()},
        )

    def _inherit(self, dedupe: Dedupe) -> None:
        for name, row in sorted(dedupe.sources.items(), key=lambda item: item[1].stamp):
            self.put_source(name, row, None)
        for (name, number), bits in dedupe.chunks.items():
            self.put_chunk(name, number, bits)
        for (name, key), last in dedupe.last_by_key.items():
            self.put_last_of_key(name, key, last)
