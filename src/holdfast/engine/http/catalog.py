"""The catalog of a fleet behind a gateway: what it told, asked for again after a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from holdfast.engine.http.wire import Told
from holdfast.errors import SchemaError, WrongFleet
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema

OLD_SECONDS = 0.2  # after so long a look at the layout asks again


class HttpCatalog:
    def __init__(self, ask: Callable[[], Told], place: str, fleet: str | None) -> None:
        self._ask = ask
        self._place = place
        self._lock = threading.Lock()
        self._learn()
        self.fleet = self._told.fleet
        if fleet not in (None, self.fleet):
            raise WrongFleet(f"{place} serves fleet {self.fleet!r}, not {fleet!r}")

    def _learn(self) -> Told:
        told = self._ask()
        with self._lock:
            self._told = told
            self._asked = time.monotonic()
            self._layout = Layout(tuple(range(*slots) for slots in told.slots), told.first)
        return told

    @property
    def told(self) -> Told:
        return self._told

    @property
    def layout(self) -> Layout:
        if time.monotonic() - self._asked > OLD_SECONDS:
            self._learn()
        return self._layout

    @property
    def retired(self) -> dict[int, range]:
        _ = self.layout
        return {number: range(*slots) for number, slots in self._told.retired.items()}

    def schemas(self) -> dict[int, Schema]:
        return {n: Schema.from_json(each) for n, each in self._learn().schemas.items()}

    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        """Those that are known there, as they are: new classes come with a program that folds."""
        known = {schema.fingerprint: number for number, schema in self.schemas().items()}
        for schema in schemas:
            if schema.fingerprint not in known:
                raise SchemaError(
                    f"{schema.name} is new to the fleet at {self._place}, or another version: "
                    "start the new program there with `holdfast run` first"
                )
        return {schema.fingerprint: known[schema.fingerprint] for schema in schemas}
