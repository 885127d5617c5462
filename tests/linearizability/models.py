"""What the agents must do, one call after the other: plain Python, no code shared with the fleet.

A state is (value, version), a result (value, version, done).
"""

from typing import cast

from holdfast.testing.linearizability import Model

State = tuple[object, int]


class Versioned(Model[State]):
    def __init__(self, value: object) -> None:
        self.initial = (value, 0)

    def apply(self, state: State, call: object) -> tuple[State, object]:
        value, version = state
        match call:
            case ("Look",):
                return state, (value, version, True)
            case ("Swap", expected, _) if expected != version:
                return state, (value, version, False)
            case ("Write", new) | ("Swap", _, new):
                value = new
            case ("Add", amount):
                value = cast(int, value) + cast(int, amount)
            case ("Append", item):
                value = (*cast(tuple[str, ...], value), item)
            case _:
                raise AssertionError(call)
        return (value, version + 1), (value, version + 1, True)

    def missed(self, state: State, call: object, result: object) -> bool:
        """Versions only grow, and a list keeps what it has."""
        value, version = state
        told, told_version, done = cast(tuple[object, int, bool], result)
        if isinstance(value, tuple) and isinstance(told, tuple) and told[: len(value)] != value:
            return True
        if told_version == version:
            return told != value or (done and call != ("Look",))
        return told_version < version


MODELS = {"Register": Versioned(""), "Counter": Versioned(0), "Sequence": Versioned(())}
