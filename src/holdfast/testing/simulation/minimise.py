"""From a failing run to a small one of the same seed that breaks the same promise.

Faults and operations are left out for as long as the finding stays. Chance comes in streams of its
own kind, so what is left happens much as it did before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.testing.simulation.faults import Fault, Restriction
from holdfast.testing.simulation.findings import Finding, Promise
from holdfast.testing.simulation.run import Run

TRIES_MAX = 120

Judged = tuple[Run, list[Finding]]
Try = Callable[[Restriction], Judged]


class Minimiser:
    def __init__(self, attempt: Try, failed: Judged) -> None:
        self._attempt = attempt
        self._promise: Promise = failed[1][0].promise
        self.best = failed
        self._restriction = Restriction()
        self._tries = 0

    def minimise(self) -> Judged:
        """1 fewer operations, 2 fewer kinds of faults, 3 fewer strikes, 4 operations once more."""
        self._fewer_operations()
        self._fewer_kinds()
        self._fewer_strikes()
        self._fewer_operations()
        return self.best

    def _still_fails(self, restriction: Restriction) -> bool:
        if self._tries >= TRIES_MAX:
            return False
        self._tries += 1
        run, findings = self._attempt(restriction)
        same = [finding for finding in findings if finding.promise is self._promise]
        if not same:
            return False
        others = [finding for finding in findings if finding.promise is not self._promise]
        self.best = (run, same + others)
        self._restriction = restriction
        return True

    def _fewer_operations(self) -> None:
        fails, passes = self.best[0].operations, 0
        while fails - passes > 1:
            middle = (fails + passes) // 2
            if self._still_fails(replace(self._restriction, operations_max=middle)):
                fails = middle
            else:
                passes = middle

    def _fewer_kinds(self) -> None:
        for fault in dict.fromkeys(fault for fault, _ in self.best[0].struck):
            without = self._restriction.without | {fault}
            self._still_fails(replace(self._restriction, without=frozenset(without)))

    def _fewer_strikes(self) -> None:
        """Halves first, then smaller parts, as long as parts can be left out."""
        size = len(self.best[0].struck) // 2
        while size >= 1:
            for part in self._parts(size):
                skipped = self._restriction.skipped | set(part)
                self._still_fails(replace(self._restriction, skipped=frozenset(skipped)))
            size //= 2

    def _parts(self, size: int) -> list[list[tuple[Fault, int]]]:
        struck = self.best[0].struck
        return [struck[i : i + size] for i in range(0, len(struck), size)]
