"""Goal: decisions are paired as a person would: one more does not shift the rest."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.model.schema import Field, Schema
from holdfast.runtime.forking.comparing import Decision, Decisions
from holdfast.runtime.forking.values import Values

SCHEMAS = {1: Schema("action", "Land", (Field("to", "int", True),))}


def made(*rows: tuple[float, int]) -> list[Decision]:
    pack = msgspec.msgpack.encode
    return [Decision("Drone", "d-1", "Land", now, 1, 0, 1, pack([to])) for now, to in rows]


@pytest.mark.parametrize(
    ("recorded", "fork", "expected"),
    [
        ([(1.0, 5), (2.0, 6)], [(1.0, 5), (2.0, 6)], {}),
        ([(1.0, 5), (2.0, 6)], [(1.0, 5)], {"missing": 1}),
        ([(1.0, 5)], [(0.5, 7), (1.0, 5)], {"new": 1}),
        ([(1.0, 5)], [(1.0, 6)], {"changed": 1}),
        ([(1.0, 5)], [(1.5, 5)], {"moved": 1}),
        ([(1.0, 5)], [(1.5, 6)], {"changed": 1}),
        # One more at the beginning leaves the others what they are.
        ([(1.0, 5), (2.0, 6), (3.0, 7)], [(0.5, 1), (1.0, 5), (2.0, 6), (3.0, 7)], {"new": 1}),
        # Between partners the rest is paired in order.
        (
            [(1.0, 5), (2.0, 6), (4.0, 7)],
            [(1.0, 5), (2.5, 6), (3.0, 9), (4.0, 7)],
            {"moved": 1, "new": 1},
        ),
        ([(1.0, 5), (1.0, 6)], [(1.0, 5)], {"missing": 1}),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_pairs(
    recorded: list[tuple[float, int]],
    fork: list[tuple[float, int]],
    expected: dict[str, int],
    at_once: bool,
) -> None:
    values = Values(lambda: SCHEMAS, None)
    found = Decisions(values, values)
    last = 0.0
    for until in [9.0] if at_once else [0.7, 1.2, 2.2, 2.7, 9.0]:
        parts = [[d for d in made(*rows) if last < d.now <= until] for rows in (recorded, fork)]
        found.feed(*parts)
        last = until
    found.finish()
    assert found.counts.get("Land", {}) == expected
    assert found.totals.get("Land", [0, 0]) == [len(recorded), len(fork)]
