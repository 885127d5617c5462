"""Goal: a new release of a compiled agent takes over states, timers and waiting events of the
earlier one exactly as the interpreted agent does, whichever of the two wrote them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema
from holdfast.runtime.kernels import kernels_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Frame, codes
from holdfast.stepping.inputs import event_frame
from tests.compiled import fleet_v1, fleet_v2
from tests.compiled.twins import Twins

Register = Callable[[Schema], int]


def registry() -> tuple[dict[int, Schema], Register]:
    ids: dict[str, int] = {}
    known: dict[int, Schema] = {}

    def register(schema: Schema) -> int:
        found = ids.setdefault(f"{schema.kind} {schema.fingerprint}", len(ids) + 1)
        known[found] = schema
        return found

    return known, register


def twins_of(fleet: FleetModel, known: dict[int, Schema], register: Register) -> Twins:
    for schema in fleet.schemas():
        register(schema)
    return Twins(fleet, kernels_of(fleet), Codebook(fleet, known, register))


def rows(
    agent: type[Agent], reading: type[Event], *values: float
) -> list[tuple[type[Agent], str, Event]]:
    return [(agent, f"s-{n % 4}", reading(value)) for n, value in enumerate(values)]  # type: ignore[call-arg]


@pytest.mark.parametrize("writer", ["compiled", "plain"])
def test_a_new_release_takes_over(writer: str) -> None:
    known, register = registry()
    old = twins_of(fleet_v1.FLEET, known, register)
    old.inbox.put(rows(fleet_v1.Sensor, fleet_v1.Reading, 1.0, 2.0, 0.0, -4.0, 5.0), 100.0)
    old.step(1)
    old.inbox.put(rows(fleet_v1.Sensor, fleet_v1.Reading, 7.0), 104.0)
    old.step(1)  # timers have fired; one of s-0 waits
    old.inbox.put(rows(fleet_v1.Sensor, fleet_v1.Reading, 2.0, 3.0), 105.0)
    old.put_columns(
        fleet_v1.Sensor, ["s-1", "s-9"], [fleet_v1.Reading(8.0), fleet_v1.Reading(-1.0)], 106.0
    )

    new = twins_of(fleet_v2.FLEET, known, register)
    new.inbox = old.inbox
    before = getattr(old, writer)
    for twin in (new.plain, new.compiled):
        twin.items = list(before.items)
        twin.stepper.load(before.stepper.head, before.stepper.sent_next, before.items)
    new.step(1)
    new.step(1)
    new.inbox.codebook = new.codebook
    new.inbox.put(rows(fleet_v2.Sensor, fleet_v2.Reading, 1.5, 0.0), 107.0)
    for first in (1, 2):
        new.inbox._append(both_releases(old.codebook, new.codebook, first), 107.0 + first)
    new.step(3)
    new.step(0, 130.0)
    assert new.compiled.states() == new.plain.states()
    assert len(new.plain.commits[-1].letters) == 0
    [state] = [each for at, each in new.plain.states().items() if at == ("Sensor", "s-0")]
    assert "Unit.KELVIN" in str(state)


def both_releases(old: Codebook, new: Codebook, first_release: int) -> Frame:
    """One frame with both forms of a class."""
    values = [1.0, 2.0, 3.0, 4.0]
    keys = [f"s-{n}" for n in range(4)]
    first = event_frame(
        "Sensor",
        keys[:2],
        [fleet_v1.Reading(v) for v in values[:2]],
        old,
        source="x",
        seqs=range(2),
    )
    second = event_frame(
        "Sensor",
        keys,
        [fleet_v2.Reading(v, fleet_v2.Unit.CELSIUS, "ab") for v in values],
        new,
        source="test",
        seqs=range(6),
    )
    v1, v2 = old.id_of(fleet_v1.Reading), new.id_of(fleet_v2.Reading)
    wanted = event_frame(
        "Sensor",
        ["s-0", "s-1", "s-2", "s-3", "s-0", "s-2"],
        [fleet_v2.Reading(0.0)] * 6,
        new,
        source="test",
        seqs=range(6),
    )
    columns = {
        **{name: each for name, each in wanted.columns.items() if not name.startswith("rows.")},
        "schema": codes([v2, v1, v2, v1, v2, v2] if first_release == 2 else [v1, v1, *[v2] * 4]),
        f"rows.{v1}": first.columns[f"rows.{v1}"],
        f"rows.{v2}": second.columns[f"rows.{v2}"],
    }
    return Frame(6, columns)
