"""Goal: `holdfast rescale` changes the number of partitions of data that exists, says what it did
in one line, and refuses in one line; afterwards every other command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.runtime.checkup import Checkup
from tests.cli.commands import (
    Running,
    copied,
    folding,
    holdfast_here,
    json_lines,
    refused,
)
from tests.cli.fleets import CARTS_1, CARTS_2, DELIVERY

CARTS = [f"c-{i}" for i in range(12)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Carts in two partitions, each driven once; then once more while nothing runs."""
    place = tmp_path_factory.mktemp("carts")
    (place / "fleet.py").write_text(CARTS_1)
    (place / "newer.py").write_text(CARTS_2)
    (place / "other.py").write_text(DELIVERY)
    with folding("fleet.py", cwd=place, partitions=2) as live:
        for key in CARTS:
            here(place, "send", f"Cart/{key}", "Drove", "metres=1")
        live.settle()
    for key in CARTS:
        here(place, "send", f"Cart/{key}", "Drove", "metres=10")
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    return copied(stored, tmp_path / "carts")


def here(place: Path, *words: object, code: int = 0) -> str:
    return holdfast_here(*words, "--data", "data", cwd=place, code=code).stdout.strip()


def metres(place: Path) -> set[object]:
    found = json_lines(here(place, "state", "Cart", "--json"))
    assert len(found) == len(CARTS)
    return {each["state"]["metres"] for each in found}  # type: ignore[index]


def test_it_says_what_it_did(place: Path) -> None:
    done = holdfast_here("rescale", "fleet.py", "--partitions", 5, "--data", "data", cwd=place)
    line = "carts has 5 partitions (numbers 2 to 6) instead of 2, with 12 agents\n"
    assert (done.stdout, done.stderr) == (line, "")
    assert metres(place) == {11}, "what waited was folded first"
    assert "number 7) instead of 5" in here(place, "rescale", "fleet.py", "--partitions", 1)
    assert len(here(place, "history", f"Cart/{CARTS[3]}").splitlines()) == 2


def test_the_fleet_runs_on_with_the_new_partitions(place: Path) -> None:
    old = here(place, "send", f"Cart/{CARTS[0]}", "Drove", "metres=100")
    here(place, "rescale", "fleet.py", "--partitions", 3)
    with Running("fleet.py", "--workers", 2, "--data", "data", cwd=place) as running:
        assert "3 partitions, 2 workers" in running.start_line
        new = here(place, "send", f"Cart/{CARTS[0]}", "Drove", "metres=1000")
        assert int(new.partition(":")[0]) in range(2, 5)
        for receipt in (new, old):
            words = ["state", f"Cart/{CARTS[0]}", "--after", receipt, "--json", "--timeout", 120]
            assert '"metres":1111' in here(place, *words)
        assert running.stop() == 0


def test_doctor_looks_at_retired_partitions_too(place: Path) -> None:
    here(place, "rescale", "fleet.py", "--partitions", 3)
    text = here(place, "doctor")
    assert "carts: Cart; 3 partitions" in text
    assert "ok    retired         2 partitions, kept for history and actions" in text
    assert "ok    partition 4" in text
    salvaged = here(place, "doctor", "--salvage")
    assert {line[:4] for line in salvaged.splitlines()} == {"ok  "}
    assert {f"p{n:03d}/state.db" in salvaged for n in range(5)} == {True}
    path = place / "data/p001/state.db"
    path.write_bytes(b"\0" * 20_000)
    Path(f"{path}-wal").unlink(missing_ok=True)
    assert "bad   partition 1 " in here(place, "doctor", code=1)
    assert "bad   p001/state.db" in here(place, "doctor", "--salvage", code=1)
    found = {f.subject: f for f in Checkup(f"sqlite:{place / 'data'}").findings()}
    assert found["partition 3"].level == "ok"
    assert "retired" not in found


def test_refusals_are_one_line_and_change_nothing(place: Path) -> None:
    def refuse(*words: object, says: str, code: int = 2) -> None:
        refused(holdfast_here("rescale", *words, cwd=place, code=code), says)

    refuse("fleet.py", "--partitions", 2, "--data", "data", says="there are 2 partitions already")
    refuse("fleet.py", "--partitions", 0, "--data", "data", says="0 is not in the range")
    refuse("fleet.py", "--data", "data", says="Missing option '--partitions'")
    refuse("fleet.py", "--partitions", 3, "--data", "nowhere", says="nowhere: no fleet here")
    refuse("fleet.py", "--partitions", 3, "--engine", "memory:", says="nothing that could be")
    refuse("newer.py", "--partitions", 3, "--data", "data", says="battery")
    words = ["other.py", "--partitions", 3, "--data", "data"]
    refuse(*words, says="holds fleet 'carts', not 'delivery'", code=3)
    assert len(SqliteCatalog(place / "data").layout.partitions) == 2
    assert not (place / "data/p002").exists()


def test_a_fleet_that_runs_is_left_alone(place: Path) -> None:
    words = ["rescale", "fleet.py", "--partitions", 3, "--data", "data"]
    with Running("fleet.py", "--data", "data", cwd=place) as running:
        refused(holdfast_here(*words, cwd=place, code=3), "runs this fleet already: stop it first")
        assert running.stop() == 0
    assert "has 3 partitions" in holdfast_here(*words, cwd=place).stdout


def test_run_with_another_number_points_here(place: Path) -> None:
    done = holdfast_here("run", "fleet.py", "--partitions", 3, "--data", "data", cwd=place, code=2)
    hint = "`holdfast rescale fleet.py --partitions 3 --engine sqlite:data`"
    refused(done, "has 2 partitions, not 3: leave --partitions out", hint)
