"""Goal: to its clients an agent under fire looks like one that does one thing after the other.

Five client processes ask, send and read while workers, the supervisor and clients are killed and
stopped; one order per key has to explain all that they were told. For longer runs:
HOLDFAST_LINEAR_SECONDS=600 HOLDFAST_LINEAR_SEED=7 pytest --timeout=0 tests/linearizability
"""

import os

import pytest

from holdfast.testing.linearizability import Operation, violation
from tests.kills.harness import PATIENCE_SECONDS, site, wait_until
from tests.linearizability.chaos import FAULTS, STRUCK_MIN, Chaos
from tests.linearizability.models import MODELS
from tests.linearizability.sabotage import SABOTAGES

SECONDS = float(os.environ.get("HOLDFAST_LINEAR_SECONDS", "0"))
SEED = int(os.environ.get("HOLDFAST_LINEAR_SEED", "1"))
LINES_PER_FAULT = 100  # two for a call
FLEET = "tests.linearizability.registers:fleet"
pytestmark = pytest.mark.kill


def violations(histories: dict[str, list[Operation]]) -> list[str]:
    found = []
    for key, history in sorted(histories.items()):
        wrong = violation(history, MODELS[key.partition("/")[0]])
        if wrong is not None:
            found.append(f"{key}: {wrong}")
    return found


def test_one_order_explains_what_every_client_was_told() -> None:
    print(f"seed {SEED}")
    with site("partitions=2", FLEET) as place:
        chaos = Chaos(place, SEED, clients=5)
        wait_until(lambda: chaos.lines() > 100, PATIENCE_SECONDS, "clients are served")
        chaos.rage(SECONDS, LINES_PER_FAULT)
        chaos.calm()
        histories = chaos.histories()
        check_substance(chaos, histories)
        assert "\n".join(violations(histories)) == ""
        assert place.surprises() == []


def check_substance(chaos: Chaos, histories: dict[str, list[Operation]]) -> None:
    """Nothing is proved by a history in which little happened."""
    operations = [operation for history in histories.values() for operation in history]
    completed = [o for o in operations if o.returned is not None]
    unknown = [o for o in operations if o.returned is None and o.kind != "state"]
    struck = chaos.struck()
    kinds = {kind: sum(o.kind == kind for o in completed) for kind in ("ask", "send", "state")}
    receipts = sum(bool(o.after) for o in completed)
    print(
        f"{len(operations)} operations on {len(histories)} keys, at most "
        f"{max(map(len, histories.values()))} on one; completed {kinds}, {receipts} after a "
        f"receipt; {len(unknown)} unknown; {len(struck)} struck by {dict(chaos.faults)}"
    )
    assert set(chaos.faults) == set(FAULTS)
    assert min(kinds.values()) >= 100
    assert receipts >= 50
    assert len(unknown) >= 10
    assert len(struck) >= STRUCK_MIN


@pytest.mark.planted("linearizability")
@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_holdfast_is_noticed(name: str) -> None:
    with site("partitions=2", "tests.linearizability.sabotage:fleet") as place:
        place.environment["SABOTAGE"] = name
        chaos = Chaos(place, SEED, clients=3)
        wait_until(lambda: chaos.lines() > 500, PATIENCE_SECONDS, "clients are served")
        chaos.calm()
        found = violations(chaos.histories())
        print(f"{name}: {len(found)} keys are wrong, the first one: {found[:1]}")
        assert found
