"""Goal: the lives of actions and ground stops under faults: every promise holds under every seed,
and the oracle finds a fold that tells twice, forgets an expiry, or does not withhold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from holdfast.model.context import Context
from holdfast.stepping import commanding, grounding, settling
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.commit import Fate
from holdfast.testing.simulation.campaign import judged
from holdfast.testing.simulation.findings import Promise
from tests.simulation.fleet_actions import fleet

SEEDS = 8
SEEDS_MAX = 40
Patch = pytest.MonkeyPatch


def test_every_promise_holds_and_much_happens() -> None:
    seen = Counter[str]()
    for seed in range(SEEDS):
        done, findings = judged([fleet], seed)
        assert findings == [], f"holdfast simulate tests/simulation/fleet_actions.py --seed {seed}"
        for generation in done.evidence.generations:
            for accepted in (each for log in generation for each in log.commits):
                seen.update(one.kind for one in accepted.commit.fates)
                seen["stopped"] += bool(accepted.commit.head.ground_stop)
    wanted = ("issued", "delivered", "acknowledged", "failed", "expired", "withheld", "stopped")
    assert [kind for kind in wanted if seen[kind] < 20] == [], seen


def forgets_what_stands(patch: Patch) -> None:
    """What was committed before is not looked up."""

    def of_this_commit(self: CarefulFold, id: str) -> list[Fate]:
        return self.fates.of([id])

    patch.setattr(CarefulFold, "fates_of", of_this_commit)


def leaves_the_expiry(patch: Patch) -> None:
    patch.setattr(settling, "_cancel_expiry", lambda fold, cell, name: None)


def does_not_withhold(patch: Patch) -> None:
    emit = Context.emit

    def all_the_same(self: Context, action: object) -> None:
        ground, self._ground = self._ground, None
        try:
            emit(self, action)  # type: ignore[arg-type]
        finally:
            self._ground = ground

    patch.setattr(Context, "emit", all_the_same)


def tells_nobody(patch: Patch) -> None:
    patch.setattr(grounding, "_next_to_tell", lambda fold, ground, most: [])


def tells_without_a_record(patch: Patch) -> None:
    """The agent hears of it, and nothing stands."""
    settle = settling.settle

    def only_tell(fold: CarefulFold, cell: object, command: list[object]) -> None:
        length = len(fold.fates)
        settle(fold, cell, command)  # type: ignore[arg-type]
        fold.fates.cut(length)

    patch.setattr(commanding, "settle", only_tell)


@pytest.mark.planted("simulator: lives of actions")
@pytest.mark.parametrize(
    "broken",
    [
        forgets_what_stands,
        leaves_the_expiry,
        does_not_withhold,
        tells_nobody,
        tells_without_a_record,
    ],
)
def test_a_broken_fold_is_caught(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    for seed in range(SEEDS_MAX):
        _, findings = judged([fleet], seed)
        if any(each.promise in (Promise.FOLD, Promise.TIMERS) for each in findings):
            return
    raise AssertionError(f"not within {SEEDS_MAX} seeds")
