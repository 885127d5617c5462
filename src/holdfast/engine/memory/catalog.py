"""What the data of a fleet says of itself, in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from holdfast.errors import UsageError
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema


class MemoryCatalog:
    def __init__(self, fleet: str, partitions: int) -> None:
        self.fleet = fleet
        self.layout = Layout.even(partitions)
        self.retired: dict[int, range] = {}
        self._schemas: dict[int, Schema] = {}
        self._lock = threading.Lock()
        self.closed = False

    def schemas(self) -> dict[int, Schema]:
        return dict(self._schemas)

    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        if self.closed:
            raise UsageError("this handle is closed: open another")
        with self._lock:
            known = {s.fingerprint: i for i, s in self._schemas.items()}
            for schema in schemas:
                number = known.setdefault(schema.fingerprint, len(self._schemas) + 1)
                if renew or number not in self._schemas:
                    self._schemas[number] = schema
            return known
