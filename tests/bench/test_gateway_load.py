"""Goal: the oracle of the load on the gateway notices what is lost, doubled or out of order; and a
short load of real clients on a real gateway passes it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.gateway import oracle, running
from bench.gateway.plan import events_for, planned
from bench.gateway.run import under_load
from bench.gateway.watching import SAMPLES_MIN, is_flat

WANTED = oracle.expected([120, 7])


def states(numbers: dict[str, list[int]]) -> dict[str, tuple[int, int]]:
    return {key: (len(each), oracle.digest_of(each)) for key, each in numbers.items()}


def changed(how: str) -> dict[str, list[int]]:
    numbers = dict(WANTED)
    own = numbers["d-0-3"]
    spoilt = {
        "lost": own[:-1],
        "doubled": [*own, own[-1]],
        "out of order": [own[1], own[0], *own[2:]],
    }
    return numbers | {"d-0-3": spoilt[how]}


def test_what_is_right_is_right() -> None:
    assert oracle.judge_states(WANTED, states(WANTED)) == []
    assert oracle.judge_inbox(WANTED, WANTED) == []
    due = {"d-0-4": [49], "d-0-3": [98]}
    assert oracle.judge_actions(WANTED, due) == []


@pytest.mark.parametrize("how", ["lost", "doubled", "out of order"])
def test_what_is_wrong_is_found(how: str) -> None:
    wrong = changed(how)
    assert len(oracle.judge_states(WANTED, states(wrong))) == 1
    assert len(oracle.judge_inbox(WANTED, wrong)) == 1


def test_a_missing_a_doubled_and_a_foreign_one_are_found() -> None:
    assert oracle.judge_actions(WANTED, {"d-0-4": [49]}) != []
    assert oracle.judge_actions(WANTED, {"d-0-4": [49, 49], "d-0-3": [98]}) != []
    assert oracle.judge_states(WANTED, {**states(WANTED), "d-9-0": (1, 1)}) != []
    lacking = {key: each for key, each in states(WANTED).items() if key != "d-1-0"}
    assert oracle.judge_states(WANTED, lacking) != []


def test_events_of_a_drone_are_counted_as_they_are_planned() -> None:
    for last in range(23):
        keys = [planned(3, seq).key for seq in range(1, last + 1)]
        assert [events_for(n, last) for n in range(5)] == [keys.count(f"d-3-{n}") for n in range(5)]


def test_memory_that_grows_is_not_flat() -> None:
    megabyte = 2**20
    assert is_flat([50 * megabyte] * SAMPLES_MIN) is True
    assert is_flat([(50 + n) * megabyte for n in range(SAMPLES_MIN)]) is False
    assert is_flat([megabyte]) is None


def loaded(folder: Path) -> dict[str, Any]:
    """Once more where a worker that a busy machine kept silent was replaced meanwhile."""
    for attempt in ("first", "second"):
        (place := folder / attempt).mkdir()
        try:
            return under_load(place, clients=20, seconds=2.0, pause=0.0, workers=1)
        except RuntimeError as trouble:
            if "went away" not in str(trouble):
                raise
    raise AssertionError("no worker lives for two seconds")


@pytest.mark.kill
def test_a_short_load_loses_nothing(tmp_path: Path) -> None:
    figures = loaded(tmp_path)
    assert figures["wrong"] == []
    assert figures["events"] > 100
    assert figures["statuses"].keys() <= {"200", "404"}


def test_a_gateway_that_never_answers_is_told_with_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    said.write_text("gateway at http://127.0.0.1:1\n")
    monkeypatch.setattr(running, "START_SECONDS", 0.3)
    with (
        subprocess.Popen(["sleep", "30"]) as process,
        pytest.raises(RuntimeError, match=r"asked \d+ times, at last: .*refused"),
    ):
        try:
            running._port(said, process)
        finally:
            process.kill()
