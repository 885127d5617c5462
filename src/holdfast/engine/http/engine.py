"""The engine behind a gateway: appends and reads over HTTP, and nothing of what owners do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

import msgspec

from holdfast import errors
from holdfast.engine.contents import Contents
from holdfast.engine.http.catalog import HttpCatalog
from holdfast.engine.http.line import Line
from holdfast.engine.http.settings import HttpSettings
from holdfast.engine.http.view import HttpView
from holdfast.engine.http.wire import (
    FRAMES_BYTES,
    Result,
    Told,
    pack,
    packed,
    unpack_results,
    unpack_told,
)
from holdfast.engine.port import (
    APPEND_SECONDS,
    VIEW_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Images,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
    View,
)
from holdfast.errors import DamagedData, HoldfastError, UsageError
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import wholly_urgent

T = TypeVar("T")
ANSWER_SECONDS = 30.0  # of a gateway that is there: its own bounds are shorter


class HttpEngine:
    def __init__(self, settings: HttpSettings, fleet: str | None) -> None:
        self._settings = settings
        self._line = Line(settings)
        self._closed = False
        try:
            self.catalog = HttpCatalog(self._ask_of_fleet, settings.place, fleet)
        except BaseException:
            self._line.close()
            raise
        told = self.catalog.told
        names = Limits.__dataclass_fields__
        self.limits = Limits(**{n: v for n, v in told.limits.items() if n in names})  # type: ignore[arg-type]
        self.capabilities = Capabilities(
            several_processes=True,
            survives_exit=True,
            refuses_at_append=told.capabilities.get("refuses_at_append", False),
            delivers_messages=told.capabilities.get("delivers_messages", False),
        )

    def _ask_of_fleet(self) -> Told:
        with self._line.ask("GET", "/engine", None, VIEW_SECONDS) as response:
            return _read(unpack_told, response.read(), self._settings.place)

    # Producers.

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        self._check_open()
        found: list[Taken | Exception] = []
        for batch in _batches(parcels):
            body = pack([packed(parcel) for parcel in batch])
            path, seconds = f"/engine/{partition}/append", wait_seconds + ANSWER_SECONDS
            once = any(_is_unnumbered_order(parcel) for parcel in batch)
            with self._line.ask("POST", path, body, seconds, once=once) as response:
                results = _read(unpack_results, response.read(), self._settings.place)
            if len(results) != len(batch):
                raise DamagedData(f"{self._settings.place}: {len(results)} results of {len(batch)}")
            found += map(_taken, results)
        return found

    # Readers.

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> View:
        self._check_open()
        return HttpView(self._line, partition, wait_seconds)

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return self.view(partition).frames(position, events_max)

    def hides(self, partition: int) -> bool:
        return HttpView(self._line, partition, VIEW_SECONDS).hides()

    def paused_seconds(self, partition: int) -> float | None:
        return HttpView(self._line, partition, VIEW_SECONDS).paused_seconds()

    def folds_here(self, partition: int) -> bool:
        return False

    # What owners do is not done from afar.

    def _not_here(self) -> NoReturn:
        raise UsageError(
            f"{self._settings.place} is a gateway: folding, rescaling and snapshots are done "
            "where the data is, with its own --engine"
        )

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        self._not_here()

    def load(self, claim: Claim) -> Loaded:
        self._not_here()

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        self._not_here()

    def compact(self, claim: Claim, images: Images) -> None:
        self._not_here()

    def close_intake(self, claim: Claim) -> None:
        self._not_here()

    def open_intake(self, claim: Claim) -> None:
        self._not_here()

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        self._not_here()

    def capture(self) -> Contents:
        self._not_here()

    def folding(self, claim: Claim, position: int | None) -> None:
        self._not_here()

    # Waiting and closing.

    def wait(self, seconds: float) -> None:
        """Nothing is granted here, so nothing wakes anybody."""
        time.sleep(seconds)

    def wake(self) -> None:
        """Nobody waits."""

    def maintain(self) -> None:
        """The gateway's engine does it."""

    def close(self) -> None:
        self._closed = True
        self._line.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this handle was closed: open another one")


def _batches(parcels: Sequence[Parcel]) -> Iterator[list[Parcel]]:
    batch: list[Parcel] = []
    size = 0
    for parcel in parcels:
        if batch and size + len(parcel.encoded) > FRAMES_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(parcel)
        size += len(parcel.encoded)
    if batch:
        yield batch


def _taken(result: Result) -> Taken | Exception:
    if not result.error:
        return Taken(result.next, result.new, result.stamp, result.urgent)
    kind = getattr(errors, result.error, HoldfastError)
    return kind(result.text) if issubclass(kind, HoldfastError) else HoldfastError(result.text)


def _read(unpack: Callable[[bytes], T], body: bytes, place: str) -> T:
    try:
        return unpack(body)
    except msgspec.MsgspecError as error:
        raise DamagedData(f"{place} is no gateway of this release: {error}") from None


def _is_unnumbered_order(parcel: Parcel) -> bool:
    """An override, a pause, a ground stop: twice is not the same as once. Other commands are."""
    return parcel.source is None and wholly_urgent(parcel.frame)
