"""Goal: the requests of the documents work as written, and the bounds of docs/http.md are those of
the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import msgspec
import pytest

from examples.drones import fleet
from holdfast.gateway.settings import Bounds
from tests.docs.documents import ROOT, commands_of, tables_of
from tests.gateway.served import gateway_on
from tests.servers.missing import missing

PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")
MORE = (ROOT / "docs" / "observability.md").read_text("utf-8")
COMMANDS = [*commands_of(PAGE), *commands_of(MORE)]
REQUESTS = [command for _, command in COMMANDS if command.startswith("curl ")]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if shutil.which("curl") is None:
        missing("curl", "install it from your system's packages")
    url = f"sqlite:{tmp_path_factory.mktemp('docs') / 'data'}"
    with fleet.open(url), gateway_on(url) as found:
        first = run(next(each for each in REQUESTS if '"Battery"' in each), found)
        assert first["events"] == 1
        yield found


def run(command: str, port: int) -> dict[str, object]:
    words = command.replace("localhost:8080", f"localhost:{port}")
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", REQUESTS)
def test_a_request_is_answered(port: int, command: str) -> None:
    assert run(command, port)


def test_every_bound_is_told_with_its_value() -> None:
    (table,) = [each for each in tables_of(PAGE) if each[0][0] == "bound"]
    told = {name.strip("`"): float(default.replace(",", "")) for name, default, _ in table[1:]}
    # Those of gRPC stand in operating.md; tests/gateway/grpc/test_schema.py compares them.
    grpc = re.compile("calls_|send_streams_|stream_")
    own = {n: v for n, v in msgspec.structs.asdict(Bounds()).items() if not grpc.match(n)}
    assert told == own
