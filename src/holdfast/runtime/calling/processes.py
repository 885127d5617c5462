"""The executor of plain functions: child processes, one call at a time each, used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.errors import UsageError
from holdfast.runtime.calling.child import Child
from holdfast.runtime.calling.port import Attempt, Outcome
from holdfast.runtime.calling.targets import target_of
from holdfast.runtime.calling.wire import Message

IMPORT_SECONDS_MAX = 30.0  # until the function runs: starting Python, and the user's imports
SPARE_SECONDS = 60.0  # so long a child without work is kept; the last one, for ever


class Busy:
    """A child at work."""

    __slots__ = ("begun", "child", "since")

    def __init__(self, child: Child, since: float) -> None:
        self.child = child
        self.since = since
        self.begun = False


class ProcessExecutor:
    def __init__(self, clock: Callable[[], float], start: Callable[[str], Child] = Child) -> None:
        self._clock = clock
        self._start_child = start
        self._busy: dict[int, Busy] = {}
        self._spare: list[Child] = []
        self._outcomes: list[Outcome] = []

    def start(self, attempt: Attempt) -> None:
        try:
            target = target_of(attempt.function)
            child = self._free_child()
        except UsageError as error:
            self._outcomes.append(Outcome(attempt.serial, "error", str(error), again=False))
        except OSError as error:
            text = f"no process could be started for it: {error.strerror or error}"
            self._outcomes.append(Outcome(attempt.serial, "died", text))
        else:
            self._busy[attempt.serial] = Busy(child, self._clock())
            child.run(attempt, target)

    def _free_child(self) -> Child:
        while self._spare:
            child = self._spare.pop()
            if child.ended() is None:
                return child
            child.close()
        return self._start_child("process")

    def begun(self) -> Sequence[int]:
        """Hears every child; what has ended meanwhile is told by `finished`."""
        begun: list[int] = []
        for serial, busy in list(self._busy.items()):
            ended = busy.child.ended()  # before its last words, or some would be missed
            for message in busy.child.hear():
                if message[1:2] != [serial] or serial not in self._busy:
                    continue  # nothing that anybody waits for
                if message[0] == "begun":
                    busy.begun = True
                    begun.append(serial)
                elif message[0] == "ended":
                    self._outcomes.append(outcome_of(message))
                    self._give_back(serial)
            if serial in self._busy:
                self._look_at(serial, busy, ended)
        self._let_go()
        return begun

    def _look_at(self, serial: int, busy: Busy, ended: str | None) -> None:
        if ended is not None:
            self._outcomes.append(Outcome(serial, "died", ended))
            self.kill(serial)
        elif not busy.begun and self._clock() - busy.since > IMPORT_SECONDS_MAX:
            text = f"it had not begun after {IMPORT_SECONDS_MAX:g} s: is its import that slow?"
            self._outcomes.append(Outcome(serial, "timeout", text))
            self.kill(serial)

    def _give_back(self, serial: int) -> None:
        child = self._busy.pop(serial).child
        child.used = self._clock()
        self._spare.append(child)

    def _let_go(self) -> None:
        """The longest without work first; the one used last is used next."""
        while len(self._spare) > 1 and self._clock() - self._spare[0].used > SPARE_SECONDS:
            self._spare.pop(0).close()

    def finished(self) -> Sequence[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def kill(self, serial: int) -> None:
        busy = self._busy.pop(serial, None)
        if busy is not None:
            busy.child.close()

    def descriptors(self) -> list[tuple[int, bool]]:
        return [each for busy in self._busy.values() for each in busy.child.descriptors()]

    def close(self) -> None:
        for child in [*self._spare, *(busy.child for busy in self._busy.values())]:
            child.kill()
        for serial in list(self._busy):
            self.kill(serial)
        while self._spare:
            self._spare.pop().close()


def outcome_of(message: Message) -> Outcome:
    _, serial, reason, error, body, again = message
    assert isinstance(serial, int)
    assert isinstance(body, bytes)
    return Outcome(serial, str(reason), str(error), body, bool(again))
