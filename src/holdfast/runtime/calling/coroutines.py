"""The executor of async functions: one child with an event loop for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.errors import UsageError
from holdfast.runtime.calling.child import Child
from holdfast.runtime.calling.port import LOST, Attempt, Outcome
from holdfast.runtime.calling.processes import IMPORT_SECONDS_MAX, outcome_of
from holdfast.runtime.calling.targets import target_of
from holdfast.runtime.calling.wire import LOOP_SECONDS_MAX

SILENT_SECONDS_MAX = 2 * LOOP_SECONDS_MAX  # not even its watch speaks: compiled code blocks it all
CANCEL_SECONDS_MAX = 1.0  # what does not end when it is cancelled


class CoroutineExecutor:
    def __init__(self, clock: Callable[[], float], start: Callable[[str], Child] = Child) -> None:
        self._clock = clock
        self._start_child = start
        self._child: Child | None = None
        self._heard = 0.0
        self._running: set[int] = set()
        self._coming: dict[int, float] = {}  # not begun yet -> since when
        self._leaving: dict[int, float] = {}  # cancelled, not ended yet -> since when
        self._outcomes: list[Outcome] = []

    def start(self, attempt: Attempt) -> None:
        try:
            target = target_of(attempt.function)
            if self._child is None:
                self._child = self._start_child("async")
        except UsageError as error:
            self._outcomes.append(Outcome(attempt.serial, "error", str(error), again=False))
        except OSError as error:
            text = f"no process could be started for it: {error.strerror or error}"
            self._outcomes.append(Outcome(attempt.serial, "died", text))
        else:
            if not self._running:
                self._heard = self._clock()
            self._running.add(attempt.serial)
            self._coming[attempt.serial] = self._clock()
            self._child.run(attempt, target)

    def begun(self) -> Sequence[int]:
        begun: list[int] = []
        child = self._child
        if child is None:
            return begun
        ended = child.ended()  # before its last words, or some would be missed
        for message in child.hear():
            self._heard = self._clock()
            kind, *about = message
            if kind == "begun":
                serial = about[0]
                assert isinstance(serial, int)
                self._coming.pop(serial, None)
                begun.append(serial)
            elif kind == "ended":
                self._ended(outcome_of(message))
            elif kind == "stuck":
                self._stuck(about[0])
        if self._child is child:
            self._look_at(ended)
        return begun

    def _ended(self, outcome: Outcome) -> None:
        self._coming.pop(outcome.serial, None)
        self._leaving.pop(outcome.serial, None)
        if outcome.serial in self._running:
            self._running.discard(outcome.serial)
            self._outcomes.append(outcome)

    def _stuck(self, culprit: object) -> None:
        text = (
            f"it blocked the event loop for {LOOP_SECONDS_MAX:g} s: await what takes long, or make "
            "it a plain function, which has a process of its own"
        )
        self._give_up(text, culprit if culprit in self._running else None)

    def _look_at(self, ended: str | None) -> None:
        now = self._clock()
        if ended is not None:
            self._give_up(ended, None)
        elif any(now - since > CANCEL_SECONDS_MAX for since in self._leaving.values()):
            # Who it was has been told already; the others have done nothing wrong.
            self._give_up("", 0)
        elif any(now - since > IMPORT_SECONDS_MAX for since in self._coming.values()):
            self._give_up(f"it had not begun after {IMPORT_SECONDS_MAX:g} s", None)
        elif self._running - self._coming.keys() and now - self._heard > SILENT_SECONDS_MAX:
            self._give_up(f"its process did not move for {SILENT_SECONDS_MAX:g} s", None)

    def _give_up(self, error: str, culprit: object) -> None:
        """End the child. With a culprit only that one failed; without, it may be any of them."""
        for serial in sorted(self._running):
            blamed = culprit is None or serial == culprit
            reason = "died" if blamed else LOST
            self._outcomes.append(Outcome(serial, reason, error if blamed else ""))
        self._forget()

    def _forget(self) -> None:
        self._running.clear()
        self._coming.clear()
        self._leaving.clear()
        if self._child is not None:
            self._child.close()
            self._child = None

    def finished(self) -> Sequence[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def kill(self, serial: int) -> None:
        if serial in self._running and self._child is not None:
            self._running.discard(serial)
            self._leaving[serial] = self._clock()
            self._child.cancel(serial)

    def descriptors(self) -> list[tuple[int, bool]]:
        idle = self._child is None or not (self._running or self._leaving)
        return [] if idle or self._child is None else list(self._child.descriptors())

    def close(self) -> None:
        self._forget()
