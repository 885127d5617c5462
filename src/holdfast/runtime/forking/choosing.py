"""Which agents a fork folds: 'Drone/d-1,Drone/*'. The others are as they were recorded."""

from __future__ import annotations

from fnmatch import fnmatchcase

from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.forking.recorded import Chosen
from holdfast.runtime.naming import suggestion


def chosen_of(text: str, fleet: FleetModel) -> Chosen | None:
    """None for everybody. A star stands for any letters of a key."""
    if not text.strip():
        return None
    whole: dict[str, list[str]] = {}
    for word in text.split(","):
        agent, slash, pattern = word.strip().partition("/")
        if not slash or not agent or not pattern:
            raise UsageError(f"{word.strip()!r} names no agents: write Drone/d-1 or 'Drone/*'")
        if agent not in fleet.agents:
            known = suggestion(agent, sorted(fleet.agents))
            raise UsageError(f"no agent {agent!r} in fleet {fleet.name!r}: {known}")
        whole.setdefault(agent, []).append(pattern)
    known_already: dict[tuple[str, str], bool] = {}

    def chosen(agent: str, key: str) -> bool:
        found = known_already.get((agent, key))
        if found is None:
            found = any(fnmatchcase(key, pattern) for pattern in whole.get(agent, ()))
            known_already[agent, key] = found
        return found

    return chosen
