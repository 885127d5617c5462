"""Goal: clients generated from the gateway's document, in TypeScript and Go, build and work: what
they send arrives once, what they read is right, and following goes on after a hang-up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.drones import Drone, Land, Mode
from holdfast import Live
from tests.examples.clients import generating
from tests.examples.clients.generating import API, CLIENTS, DOCUMENT, SCHEMA
from tests.servers.missing import missing

Gateway = tuple[Live, str]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with generating.drones(tmp_path_factory.mktemp("drones")) as found:
        yield found


def need(program: str, least: tuple[int, int], how: str) -> None:
    if shutil.which(program) is None:
        missing(program, how)
    asked = [program, "version"] if program == "go" else [program, "--version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    number = re.search(r"(\d+)\.(\d+)", said)
    assert number is not None, said
    if (int(number[1]), int(number[2])) < least:
        missing(f"{program} {least[0]}.{least[1]}", f"here is {said.strip()}; {how}")


@pytest.fixture
def node() -> None:
    need("node", (18, 0), "install Node.js and npm (Debian: nodejs npm)")
    need("npm", (9, 0), "install npm (Debian: npm)")


@pytest.fixture(scope="module")
def go() -> None:
    need("go", (1, 24), "install Go")


@pytest.fixture(scope="module")
def go_client(go: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    clients = generating.copied(tmp_path_factory.mktemp("go"))
    generating.build_go(clients)
    return clients / "go"


def test_the_document_is_the_one_the_clients_are_made_from(gateway: Gateway) -> None:
    assert generating.document_at(gateway[1]) == DOCUMENT.read_text("utf-8"), "run: make clients"


def regenerated(generate: Callable[[Path], None], folder: Path, part: Path) -> tuple[str, str]:
    clients = generating.copied(folder)
    (clients / part).unlink()
    generate(clients)
    return (clients / part).read_text("utf-8"), (CLIENTS / part).read_text("utf-8")


@pytest.mark.usefixtures("node")
def test_the_types_of_the_typescript_client_are_made_from_it(tmp_path: Path) -> None:
    made, there = regenerated(generating.generate_typescript, tmp_path, SCHEMA)
    assert made == there, "run: make clients"


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time, Go compiles the generator
@pytest.mark.usefixtures("go")
def test_the_go_client_is_made_from_it(tmp_path: Path) -> None:
    made, there = regenerated(generating.generate_go, tmp_path, API)
    assert made == there, "run: make clients"


def check_flight(live: Live, key: str, source: str, seen: dict[str, Any]) -> None:
    """What the program says it saw, and what is stored."""
    assert (seen["sent"], seen["repeats"]) == (11, 11)
    assert (seen["alt"], seen["battery"], seen["mode"]) == (140.0, 9.0, "landing")
    drone = live.state(Drone, key)
    assert (drone.alt, drone.battery, drone.mode) == (140.0, 9.0, Mode.LANDING)
    history = [(entry.source, entry.seq) for entry in live.history(Drone, key)]
    assert history == [(source, seq) for seq in range(1, 12)]
    issued = [each for each in live.actions(most=1000) if each.key == key]
    assert issued[-1].action == Land()
    assert seen["before"] == [each.id for each in issued[:3]]
    assert seen["after"] == [each.id for each in issued[3:]]
    assert len(issued) == 9


@pytest.mark.usefixtures("node")
def test_the_typescript_client_works(gateway: Gateway, tmp_path: Path) -> None:
    live, address = gateway
    clients = generating.copied(tmp_path)
    generating.build_typescript(clients)
    said = generating.run(clients / "typescript", "node", "build/main.js", address, "d-ts")
    check_flight(live, "d-ts", "ts-d-ts", json.loads(said))


@pytest.mark.timeout(600)  # the first time, Go compiles its library
def test_the_go_client_works(gateway: Gateway, go_client: Path) -> None:
    live, address = gateway
    said = generating.run(go_client, "./drones", address, "d-go")
    check_flight(live, "d-go", "go-d-go", json.loads(said))


@pytest.mark.timeout(600)
def test_a_refusal_is_told_in_one_line(gateway: Gateway, go_client: Path) -> None:
    with pytest.raises(AssertionError, match="no/key") as refusal:
        generating.run(go_client, "./drones", gateway[1], "no/key")
    assert "422" in str(refusal.value)
