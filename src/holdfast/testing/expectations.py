"""How what was expected and what came differ, in lines that a person reads at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import ndiff

from holdfast.errors import UsageError
from holdfast.model.agent import Agent


def state_difference(state: Agent | None, expected: Mapping[str, object]) -> str:
    """A line per field that is not as expected; empty if all are."""
    if state is None:
        return "  it does not exist: no event that it takes has come"
    lines = []
    for name, wanted in expected.items():
        if name not in state.__struct_fields__:
            known = ", ".join(state.__struct_fields__)
            raise UsageError(f"{type(state).__name__} has no field {name!r}: it has {known}")
        value = getattr(state, name)
        if value != wanted:
            lines.append(f"  {name}: expected {wanted!r}, is {value!r}")
    return "\n".join(lines)


def list_difference(expected: Sequence[object], found: Sequence[object]) -> str:
    """Both lists as one: - was expected and did not come, + came and was not expected."""
    lines = ndiff([repr(each) for each in expected], [repr(each) for each in found])
    shown = [f"  {line}" for line in lines if not line.startswith("?")]
    return "\n".join(shown) + "\n  (- expected, + came)"
