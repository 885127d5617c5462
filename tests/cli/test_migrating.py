"""Goal: stored states get the form of changed classes, by a script or by the classes' own way, all
of them or none; afterwards the data opens, now and under later classes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.engine.sqlite.catalog import SqliteCatalog
from tests.cli.commands import copied, folding, holdfast_here, json_lines, refused
from tests.cli.fleets import CARTS_1, CARTS_2, CARTS_2_UPCAST, CARTS_3, MIGRATION

CARTS = [f"c-{i}" for i in range(0, 60, 7)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Carts in two partitions that have driven 10, 11, … metres; the first one is paused."""
    place = tmp_path_factory.mktemp("carts")
    for name, program in {
        "one": CARTS_1,
        "two": CARTS_2,
        "two_upcast": CARTS_2_UPCAST,
        "three": CARTS_3,
        "migration": MIGRATION,
    }.items():
        (place / f"{name}.py").write_text(program)
    with folding("one.py", cwd=place, partitions=2):
        receipts = [send(place, key, 10 + i) for i, key in enumerate(CARTS)]
        wait_for(place, receipts)  # or the pause overtakes them
        here(place, "pause", f"Cart/{CARTS[0]}", "--reason", "flat tyre")
        receipts.append(send(place, CARTS[0], 1000))
        wait_for(place, receipts)
    assert len({receipt.split(":")[0] for receipt in receipts}) == 2
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    return copied(stored, tmp_path / "carts")


def here(place: Path, *words: object) -> str:
    return holdfast_here(*words, "--data", "data", cwd=place).stdout.strip()


def send(place: Path, key: str, metres: int) -> str:
    return here(place, "send", f"Cart/{key}", "Drove", f"metres={metres}")


def wait_for(place: Path, receipts: list[str]) -> None:
    for receipt in receipts:
        here(place, "state", "Cart", "--after", receipt)


def states(place: Path) -> dict[str, dict[str, object]]:
    found = json_lines(here(place, "state", "Cart", "--json"))
    return {str(each["key"]): dict(each["state"]) for each in found}  # type: ignore[call-overload]


def migrate(
    place: Path, fleet: str, *words: object, code: int = 0
) -> subprocess.CompletedProcess[str]:
    return holdfast_here("migrate", fleet, *words, "--data", "data", cwd=place, code=code)


def test_a_script(place: Path) -> None:
    done = holdfast_here("run", "two.py", "--data", "data", cwd=place, code=2)
    refused(done, "Cart.battery is stored", "renamed to charge?")

    before = states(place)
    done = migrate(place, "two.py", "--script", "migration.py", "--dry-run")
    assert done.stdout == "Cart: 9 of 9 states would change\n"
    assert states(place) == before
    refused(holdfast_here("run", "two.py", "--data", "data", cwd=place, code=2), "Cart.battery")

    words = ["migrate", "two.py", "--script", "migration.py", "--data", "data"]
    done = holdfast_here(*words, cwd=place)
    assert done.stdout == "Cart: 9 of 9 states changed\n"
    expected: dict[str, dict[str, object]] = {
        key: {"metres": 10 + i, "charge": 0.99} for i, key in enumerate(CARTS)
    }
    assert states(place) == expected
    again = migrate(place, "two.py", "--script", "migration.py")
    assert again.stdout == "Cart: 0 of 9 states changed\n"

    with folding("two.py", cwd=place):
        receipts = [send(place, key, 5) for key in CARTS]
        wait_for(place, receipts)
        assert here(place, "paused") == f"Cart/{CARTS[0]}\t2\tflat tyre"  # what it held is kept
        receipts.append(here(place, "resume", f"Cart/{CARTS[0]}"))
        wait_for(place, receipts)
        assert [states(place)[key]["metres"] for key in CARTS[:2]] == [1015, 16]

    # No state has the first form any more, so a class that only adds to the second one opens.
    with folding("three.py", cwd=place):
        here(place, "state", "Cart", "--after", send(place, CARTS[1], 1))
        assert states(place)[CARTS[1]] == {"metres": 17, "charge": 0.97, "zone": "yard"}
    refused(holdfast_here("run", "one.py", "--data", "data", cwd=place, code=3), "newer classes")


def test_without_a_script_the_classes_say_how(place: Path) -> None:
    refused(migrate(place, "two.py", code=2), "Cart.battery is stored", "upcast")
    assert migrate(place, "two_upcast.py").stdout == "Cart: 9 of 9 states changed\n"
    assert states(place)[CARTS[1]] == {"metres": 11, "charge": 0.99}
    # The upcast has done its work and can go.
    with folding("two.py", cwd=place):
        here(place, "state", "Cart", "--after", send(place, CARTS[1], 1))
        assert states(place)[CARTS[1]] == {"metres": 12, "charge": 0.98}


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        (
            'def migrate(agent, key, state):\n    return {"charge": state["level"]}\n',
            ["script.py:2: migrate failed on Cart/", "KeyError: 'level'", "metres, battery"],
        ),
        (
            'def migrate(agent, key, state):\n    return {"charge": "full"}\n',
            ["migrate(Cart/c-", "Cart.charge cannot be 'full'"],
        ),
        (
            'def migrate(agent, key, state):\n    return {"chrage": 1.0}\n',
            ["Cart has no field 'chrage'", "did you mean charge?"],
        ),
        (
            "def migrate(agent, key, state):\n    return 7\n",
            ["migrate returned 7 for Cart/", "return a dict"],
        ),
        (
            "def migrate(agent, key, state):\n    return None\n",
            ["migrate kept Cart/", "as it is, but Cart.battery is stored"],
        ),
        # Wrong for one state only: none is changed.
        (
            "def migrate(agent, key, state):\n"
            '    return {"charge": 1.0 if key != "c-56" else "empty"}\n',
            ["migrate(Cart/c-56)"],
        ),
        ("def move(agent, key, state): ...\n", ["script.py: defines no `migrate`"]),
        ("migrate = (\n", ["script.py:1", "SyntaxError"]),
    ],
)
def test_a_wrong_script_changes_nothing(place: Path, script: str, parts: list[str]) -> None:
    (place / "script.py").write_text(script)
    before = states(place)
    refused(migrate(place, "two.py", "--script", "script.py", code=2), *parts)
    assert states(place) == before
    catalog = SqliteCatalog(place / "data")
    forms = [schema for schema in catalog.schemas().values() if schema.kind == "state"]
    catalog.close()
    assert len(forms) == 1


def test_what_else_is_refused(place: Path) -> None:
    refused(migrate(place, "two.py", "--script", "none.py", code=2), "none.py: no such file")
    done = holdfast_here("migrate", "two.py", "--engine", "memory:", cwd=place, code=2)
    refused(done, "memory: keeps nothing")
    done = holdfast_here("migrate", "two.py", "--data", "nowhere", cwd=place, code=2)
    refused(done, "nowhere: no fleet here")
    (place / "other.py").write_text(CARTS_2.replace("Cart(", "Wagon(").replace("[Cart]", "[Wagon]"))
    done = migrate(place, "other.py", "--script", "migration.py", code=2)
    refused(done, "the fleet has no agent Cart", "add the class")
    # None of this was noticed by the data: the first program still runs.
    with folding("one.py", cwd=place):
        wait_for(place, [send(place, CARTS[1], 1)])
        words = ["migrate", "two.py", "--script", "migration.py", "--data", "data"]
        done = holdfast_here(*words, cwd=place, code=3)
        refused(done, f"process {os.getpid()} runs this fleet already")


def test_values_the_script_leaves_out_get_their_defaults(place: Path) -> None:
    (place / "script.py").write_text("def migrate(agent, key, state):\n    return {}\n")
    migrate(place, "three.py", "--script", "script.py")
    assert set(map(repr, states(place).values())) == {
        repr({"metres": 0, "charge": 1.0, "zone": "yard"})
    }
