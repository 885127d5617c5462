"""The report: findings as they are made, a few of each kind, in an order that never varies."""

from __future__ import annotations

from holdfast.testing.simulation.findings import Finding, Promise

FINDINGS_PER_PROMISE = 5  # one cause shows many times; the first ones tell it


class Report:
    def __init__(self) -> None:
        self._found: dict[Promise, list[Finding]] = {promise: [] for promise in Promise}

    def add(
        self,
        promise: Promise,
        text: str,
        partition: int | None = None,
        key: str | None = None,
        at: float | None = None,
    ) -> None:
        found = self._found[promise]
        if len(found) < FINDINGS_PER_PROMISE:
            found.append(Finding(promise, text, partition, key, at))

    def findings(self) -> list[Finding]:
        return [finding for found in self._found.values() for finding in found]
