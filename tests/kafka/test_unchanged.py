"""Goal: everything above the port is the same on Kafka: the same program sees the same."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from holdfast import Live
from tests.cli.commands import holdfast_here
from tests.kafka.yard import TRUCKS, Load, Truck, fleet, seen, work

YARD = Path(__file__).with_name("yard.py")


@pytest.fixture
def url(kafka: str, tmp_path: Path) -> str:
    return f"kafka://{kafka}/yard-{uuid.uuid4().hex[:8]}?cache={tmp_path / 'cache'}"


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, Any]:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=3) as live:
        work(live)
        return comparable(live)


def comparable(live: Live) -> dict[str, Any]:
    found = seen(live)
    # Where a redrive came again depends on numbers of dead letters, which are per partition.
    found["history"] = {
        key: sorted((entry for entry in entries if entry[0] != "control"), key=str)
        for key, entries in found["history"].items()
    }
    return found


def holdfast(*words: str) -> str:
    return holdfast_here(*words, cwd=Path.cwd()).stdout


def test_the_same_program_sees_the_same(url: str, expected: dict[str, Any]) -> None:
    with fleet.open(url, partitions=3) as live:
        work(live)
        assert comparable(live) == expected
        with fleet.connect(url) as beside:
            assert comparable(beside) == expected, "asked of the owner"
    with fleet.connect(url) as alone:
        assert comparable(alone) == expected, "from a copy: nobody owns it any more"
        for number in alone._engine.catalog.layout.numbers:
            assert alone._engine.view(number).owner() == ""


def test_it_goes_on_after_a_restart(url: str, expected: dict[str, Any]) -> None:
    with fleet.open(url, partitions=3) as live:
        work(live)
    with fleet.open(url) as again:
        assert comparable(again) == expected
        again.send(Truck, "t-0", Load(1), source="gate", seq=1)  # a repeat
        again.send(Truck, "t-0", Load(5), source="gate", seq=70)
        again.settle(timeout=60.0)
        assert again.state(Truck, "t-0").weight == expected["states"]["t-0"][0] + 5


def test_commands_read_it_and_replay_makes_the_same(url: str) -> None:
    with fleet.open(url, partitions=3) as live:
        work(live)
    assert "weight" in holdfast("state", "Truck/t-1", "--engine", url)
    assert holdfast("history", "Truck/t-1", "--engine", url).count("Load") == 2
    assert len(holdfast("actions", "--engine", url).splitlines()) >= 2 * len(TRUCKS)
    lines = holdfast("lag", "--engine", url).splitlines()
    assert [line.split()[4] for line in lines] == ["nobody"] * 3, "all have ended"
    assert 'holdfast_lag_events{fleet="yard",partition="0"} 0' in holdfast(
        "lag", "--metrics", "--engine", url
    )
    told = holdfast("replay", str(YARD), "--engine", url)
    assert "differs" not in told


def test_too_old_numbers_become_dead_letters(url: str) -> None:
    """Kafka takes everything: what is refused elsewhere is a dead letter here, with the reason."""
    with fleet.open(url, partitions=1) as live:
        live.send(Truck, "t-0", Load(1), source="gate", seq=1_000_000)
        live.send(Truck, "t-0", Load(2), source="gate", seq=5)
        live.settle(timeout=60.0)
        (letter,) = live.dead_letters()
        assert "below its dedupe window" in letter.error
        assert letter.event == Load(2)
        assert live.state(Truck, "t-0").weight == 1
        live.redrive(letter.id)
        live.settle(timeout=60.0)
        assert live.state(Truck, "t-0").weight == 3


def test_it_is_rescaled(url: str, expected: dict[str, Any]) -> None:
    with fleet.open(url, partitions=3) as live:
        work(live)
    assert "5 partitions" in holdfast("rescale", str(YARD), "--partitions", "5", "--engine", url)
    with fleet.open(url) as live:
        found = comparable(live)
        assert found["states"] == expected["states"]
        assert found["actions"] == expected["actions"]
        assert found["history"] == expected["history"]
        live.send(Truck, "t-0", Load(1), source="gate", seq=1)  # a repeat
        live.send(Truck, "t-7", Load(9), source="gate", seq=71)
        live.settle(timeout=60.0)
        assert live.state(Truck, "t-0").weight == expected["states"]["t-0"][0]
        assert live.state(Truck, "t-7").weight == expected["states"]["t-7"][0] + 9
