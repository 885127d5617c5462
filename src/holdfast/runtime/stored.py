"""The schemas that are stored with the data, as they were a moment ago."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from holdfast.errors import DamagedData, TryAgain
from holdfast.model.schema import Schema

FRESH_SECONDS = 1.0

Schemas = Mapping[int, Schema]


class StoredSchemas:
    """Looked at again after a moment: a program that has started since may have brought others, or
    declares its events differently. As long as nothing has changed, it is the same object.

    All versions of an event have what the newest is declared with beside its fields.
    """

    def __init__(
        self, load: Callable[[], Schemas], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._monotonic = monotonic
        self._looking = threading.Lock()
        self._looked = -inf  # when the last look began
        self._tried = -inf  # the same, though it may have failed
        self._seen: Schemas = {}
        self._bodies: dict[int, dict[str, object]] = {}

    def current(self) -> Schemas:
        """While somebody looks, the others have what was seen before."""
        if self._is_fresh() or not self._looking.acquire(blocking=not self._seen):
            return self._seen
        try:
            if not self._is_fresh():  # nobody has looked while we waited
                self._look()
        except TryAgain:
            if not self._seen:
                raise
            # What was seen is still good: whoever goes on to the data is told there.
            self._tried = self._monotonic()
        finally:
            self._looking.release()
        return self._seen

    def renewed(self) -> Schemas:
        """As they were when this was called, or later."""
        asked = self._monotonic()
        with self._looking:
            if self._looked <= asked:
                self._look()
        return self._seen

    def of(self, number: int) -> Schema:
        """One that rows are stored under, though it may have come just now."""
        found = self.current().get(number) or self.renewed().get(number)
        if found is None:
            raise DamagedData(f"rows of schema {number}, which the catalog does not have")
        return found

    def _is_fresh(self) -> bool:
        return self._monotonic() - self._tried <= FRESH_SECONDS

    def _look(self) -> None:
        began = self._monotonic()
        found = self._load()
        # Schemas that are equal may differ in their options.
        bodies = {number: schema.to_json() for number, schema in found.items()}
        if bodies != self._bodies:
            self._bodies, self._seen = bodies, _as_newest(found)
        self._looked = self._tried = began


def _as_newest(schemas: Schemas) -> Schemas:
    events = {number: each for number, each in sorted(schemas.items()) if each.kind == "event"}
    options = {each.name: each.options for each in events.values()}  # the last one is the newest
    renewed = {n: replace(each, options=options[each.name]) for n, each in events.items()}
    return {**schemas, **renewed}


def is_urgent(schema: Schema) -> bool:
    """Whether its events overtake what waits."""
    return schema.options.get("priority") == "urgent"
