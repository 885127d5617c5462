"""Goal: the life of actions on the command line, beside a running fleet: `ack`, `fail`, `override`
and `ground-stop` do what they say and tell what stands, and what is wrong is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import eventually, folding, holdfast_here, json_lines, refused
from tests.cli.fleets import DELIVERY

ID = "delivery/Drone/d-1/1/0"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folded data and no fleet that runs. Not to be changed."""
    place = tmp_path_factory.mktemp("delivery")
    (place / "fleet.py").write_text(DELIVERY)
    with folding("fleet.py", cwd=place) as live:
        send = ("send", "Drone/d-1", "Battery", "percent=9", "--data", "data")
        holdfast_here(*send, cwd=place)
        live.settle()
    return place


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["ack", "nonsense"], ["is no id of an action"]),
        (["ack", "other/Drone/d-1/1/0"], ["of fleet 'other', this one is 'delivery'"]),
        (["ack", "delivery/Dron/d-1/1/0"], ["no agent 'Dron'"]),
        (["fail", ID, "--why", ""], ["say why it cannot be carried out"]),
        (["ack", ID, "--timeout", "0.1"], ["does a worker run?", "the command is recorded"]),
        (["override", "Drone/d-1", "Lan", "--why", "x"], ["no action 'Lan'", "mean Land?"]),
        (["override", "Drone/d-1", "Land", "--why", " "], ["say why the agent is overridden"]),
        (["override", "Drone/d-1", "Descend", "up=1", "--why", "x"], ["no field 'up'"]),
        (["ground-stop"], ["say why the fleet is stopped"]),
        (["action", "delivery/Drone/d-1/9/0"], ["never issued"]),
    ],
)
def test_a_wrong_command(place: Path, words: list[str], parts: list[str]) -> None:
    code = 3 if "--timeout" in words else 2
    refused(holdfast_here(*words, "--data", "data", cwd=place, code=code), *parts)


def test_the_life_of_an_action(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(DELIVERY.replace("expires=5.0", "expires=3600.0"))

    def run(*words: str, code: int = 0) -> str:
        done = holdfast_here(*words, "--data", "data", cwd=tmp_path, code=code)
        return done.stdout if code == 0 else done.stderr

    with folding("fleet.py", cwd=tmp_path):
        run("send", "Drone/d-1", "Battery", "percent=9")
        run("send", "Drone/d-1", "Position", "lat=1", "lon=1", "alt=200")
        eventually("two actions", lambda: run("actions").count("delivery/Drone") == 2)
        assert [a["type"] for a in json_lines(run("actions", "--pending", "--json"))[:2]] == [
            "Land",
            "Descend",
        ], "the urgent one is first"
        run("ack", ID, "--by", "d-1")
        run("ack", ID, "--by", "again")
        assert "was acknowledged by d-1 before" in run("fail", ID, "--why", "no", code=2)
        (left, _) = json_lines(run("actions", "--pending", "--json"))
        assert left["id"] == "delivery/Drone/d-1/2/0"
        shown = run("action", ID)
        assert f"{ID}  Land  acknowledged" in shown
        assert "d-1" in shown
        run("fail", "delivery/Drone/d-1/2/0", "--why", "no wind", "--by", "d-1")
        assert [a["status"] for a in json_lines(run("actions", "--json"))[:2]] == [
            "acknowledged",
            "failed",
        ]
        assert "acknowledge " + ID in run("history", "Drone/d-1")
        issued = run("override", "Drone/d-1", "Land", "--why", "fire", "--by", "tower").strip()
        assert issued == "delivery/Drone/d-1/3/0"
        assert "override by tower: fire" in " ".join(run("actions").split())
        run("export", "events", "--to", f"ndjson:{tmp_path / 'events.ndjson'}")
        exported = (tmp_path / "events.ndjson").read_text()
        for words in (f'["acknowledge","{ID}","d-1",""]', '["override","fire","tower",'):
            assert words in exported.replace("\\", "").replace(", ", ","), exported


def test_a_ground_stop_is_seen_everywhere(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(DELIVERY)

    def run(*words: str) -> str:
        return holdfast_here(*words, "--data", "data", cwd=tmp_path).stdout

    with folding("fleet.py", cwd=tmp_path, partitions=2):
        assert "no ground stop" in run("ground-stop", "--status")
        assert "in force in 2 of 2" in run("ground-stop", "--why", "thunder", "--by", "tower")
        run("send", "Drone/d-1", "Battery", "percent=9")
        eventually("it is folded", lambda: '"waiting":1' not in run("lag", "--json"))
        assert "delivery/Drone" not in run("actions")
        assert "withheld" in run("action", ID)
        assert "a ground stop is in force in 2 of 2 partitions: thunder" in run("lag")
        assert 'holdfast_ground_stop{fleet="delivery",partition="1"} 1' in run("lag", "--metrics")
        assert "warn  ground stop" in run("doctor")
        assert "no ground stop" in run("ground-stop", "--lift", "--why", "blue sky")
        assert "ok    ground stop" in run("doctor")
    assert (
        "no ground stop"
        in holdfast_here("ground-stop", "--status", "--data", "data", cwd=tmp_path).stdout
    )
