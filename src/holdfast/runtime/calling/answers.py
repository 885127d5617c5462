"""Answers on their way into the inboxes of those who called.

An answer goes to the partition that owns the key at that moment. One that refuses rests for a
while and is tried again; the others go on. Nothing is lost by it: the call is still open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.port import Engine, Parcel, Taken
from holdfast.errors import HoldfastError
from holdfast.runtime.calling.lane import Work
from holdfast.stepping.frame import Frame

PARCELS_AT_ONCE = 64
REST_SECONDS = (0.02, 0.1, 0.5, 1.0)
TURN_SECONDS = 0.2  # there is other work than to queue behind a stopped process
ANSWERS_WAITING_MAX = 1_000
ANSWERS_WAITING_BYTES_MAX = 64 * 1024 * 1024

_log = logging.getLogger("holdfast.caller")


class Answer(NamedTuple):
    work: Work
    parcel: Parcel


class Rest(NamedTuple):
    until: float
    refusals: int
    reason: str


class Answers:
    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self._waiting: dict[str, Answer] = {}  # by the call's id
        self._bytes = 0
        self._resting: dict[int, Rest] = {}

    def add(self, work: Work, frame: Frame) -> None:
        encoded = frame.encode()
        self._bytes += len(encoded)
        parcel = Parcel(frame=frame, encoded=encoded, external=False)
        self._waiting[work.call.id] = Answer(work, parcel)

    @property
    def full(self) -> bool:
        """Whoever runs functions now would only pile up what cannot be stored."""
        return len(self._waiting) >= ANSWERS_WAITING_MAX or self._bytes >= ANSWERS_WAITING_BYTES_MAX

    @property
    def trouble(self) -> str | None:
        return next((rest.reason for rest in self._resting.values()), None)

    @property
    def next_due(self) -> float | None:
        if not self._waiting:
            return None
        return min((rest.until for rest in self._resting.values()), default=self._clock())

    def deliver(self) -> list[Work]:
        """Append what waits; those whose answer is durable now."""
        if not self._waiting:
            return []
        layout = self._engine.catalog.layout
        by_partition: dict[int, list[Answer]] = {}
        for answer in self._waiting.values():
            number = layout.partition_of(answer.work.call.key)
            by_partition.setdefault(number, []).append(answer)
        self._resting = {n: rest for n, rest in self._resting.items() if n in by_partition}
        answered: list[Work] = []
        for number, answers in by_partition.items():
            rest = self._resting.get(number)
            if rest is not None and self._clock() < rest.until:
                continue
            for start in range(0, len(answers), PARCELS_AT_ONCE):
                done, refusal = self._append(number, answers[start : start + PARCELS_AT_ONCE])
                answered += done
                if refusal is not None:
                    self._rest(number, refusal)
                    break
                self._resting.pop(number, None)
        return answered

    def _append(
        self, number: int, answers: list[Answer]
    ) -> tuple[list[Work], HoldfastError | None]:
        refusal: HoldfastError | None = None
        try:
            results = self._engine.append(number, [a.parcel for a in answers], TURN_SECONDS)
        except HoldfastError as error:
            return [], error
        done: list[Work] = []
        for answer, result in zip(answers, results, strict=True):
            if isinstance(result, Taken):
                del self._waiting[answer.work.call.id]
                self._bytes -= len(answer.parcel.encoded)
                done.append(answer.work)
            elif isinstance(result, HoldfastError):
                refusal = result
            else:
                raise result
        return done, refusal

    def _rest(self, number: int, refusal: HoldfastError) -> None:
        before = self._resting.get(number, Rest(0.0, 0, ""))
        seconds = REST_SECONDS[min(before.refusals, len(REST_SECONDS) - 1)]
        if before.refusals == len(REST_SECONDS):  # it lasts: a rescaling or a lock would be over
            _log.warning("replies to partition %d wait: %s", number, refusal)
        self._resting[number] = Rest(self._clock() + seconds, before.refusals + 1, str(refusal))
