"""States at the end of a fork, compared with those of production."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from holdfast.runtime.forking.values import Values, equal
from holdfast.stepping.commit import Record

EXAMPLES_KEPT = 200
WHOLE = "(agent)"  # in place of a field: one of the two has no such agent
Agent = tuple[str, str]


class StateDifference(NamedTuple):
    agent: str
    key: str
    field: str
    recorded: object
    fork: object


class States(NamedTuple):
    """`unknown` were changed by production after the end of the fork, so nothing is known."""

    compared: int
    unknown: int
    agents: list[Agent]  # that differ
    fields: dict[str, int]  # as in Drone.mode, how often it differs
    new_fields: list[str]  # that only the candidate has
    examples: list[StateDifference]


NO_STATES = States(0, 0, [], {}, [], [])


def compare_states(
    recorded: Iterable[Record],
    fork: Iterable[Record],
    sides: tuple[Values, Values],
    known: Callable[[Record], bool],
    may_be_gone: Callable[[Record], bool],
) -> States:
    """`known` says whether a record of production is as it was at the end of the fork."""
    ours = {(r.agent, r.key): r for r in recorded}
    theirs = {(r.agent, r.key): r for r in fork}
    compared = unknown = 0
    agents: list[Agent] = []
    fields: dict[str, int] = {}
    new_fields: set[str] = set()
    examples: list[StateDifference] = []
    for name in sorted({*ours, *theirs}):
        one, other = ours.get(name), theirs.get(name)
        if (one is not None and not known(one)) or (other and not one and may_be_gone(other)):
            unknown += 1
            continue
        compared += 1
        if one is not None and other is not None and _same(one, other):
            continue
        found = _differences(one, other, sides, new_fields)
        if found:
            agents.append(name)
        for each in found:
            field = f"{each.agent}.{each.field}"
            fields[field] = fields.get(field, 0) + 1
            if len(examples) < EXAMPLES_KEPT:
                examples.append(each)
    return States(compared, unknown, agents, fields, sorted(new_fields), examples)


def _same(one: Record, other: Record) -> bool:
    return (one.schema, one.version, one.state, one.extras) == (
        other.schema,
        other.version,
        other.state,
        other.extras,
    )


def _differences(
    one: Record | None,
    other: Record | None,
    sides: tuple[Values, Values],
    new_fields: set[str],
) -> list[StateDifference]:
    ours: Mapping[str, object] = {} if one is None else sides[0].state(one)
    theirs: Mapping[str, object] = {} if other is None else sides[1].state(other)
    record = one or other
    assert record is not None
    agent, key = record.agent, record.key
    if one is None or other is None:
        return [StateDifference(agent, key, WHOLE, ours or None, theirs or None)]
    found = []
    for field in dict.fromkeys([*ours, *theirs]):
        if field not in ours and not field.startswith("("):
            new_fields.add(f"{agent}.{field}")
        elif not equal(ours.get(field), theirs.get(field)) and (
            ours.get(field) or theirs.get(field)
        ):
            found.append(StateDifference(agent, key, field, ours.get(field), theirs.get(field)))
    return found
