"""Goal: what the gateway says of itself is so: every route is described and every description is a
route, and a program that only knows the description finds nothing that contradicts it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.routing import Route

from holdfast.gateway import following
from holdfast.gateway.application import Gateway
from holdfast.gateway.settings import Bounds, Settings
from holdfast.runtime.untyped import connect_untyped
from tests.gateway.raw import goes_on
from tests.gateway.served import Served, served

# What engines and machines ask is no part of the description for people.
_NOT_DESCRIBED = "/engine"
_LEFT_OUT = (
    "positive_data_acceptance,"  # receipts, cursors and times are texts, though not any text
    "not_a_server_error,"  # 503 and 504 are described; 500 is not, so that it is found anyway
    "unsupported_method"
)


def test_every_route_is_described_and_the_other_way_round(yard: Served) -> None:
    with connect_untyped(yard.url) as live:
        app = Gateway(live, Settings()).app
    routes = {
        (method, each.path.replace(":path", ""))
        for each in app.routes
        if isinstance(each, Route) and not each.path.startswith(_NOT_DESCRIBED)
        for method in each.methods or ()
        if method != "HEAD"
    }
    told = yard.client.get("/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    described = {
        (method.upper(), path) for path, methods in told["paths"].items() for method in methods
    }
    assert described == routes


def test_references_lead_somewhere(yard: Served) -> None:
    for name in ("openapi", "asyncapi"):
        heard = yard.client.get(f"/{name}.json")
        told = heard.json()
        for reference in re.findall(r'"\$ref":\s*"#/([^"]+)"', heard.body.decode()):
            found = told
            for part in reference.split("/"):
                assert part in found, (name, reference)
                found = found[part]


def test_the_feeds_are_described(yard: Served) -> None:
    told = yard.client.get("/asyncapi.json").json()
    assert told["asyncapi"] == "3.0.0"
    assert {each["address"] for each in told["channels"].values()} == {"/actions", "/changes"}


def test_a_program_that_knows_the_description_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemathesis, with values that fit and values that do not."""
    monkeypatch.setattr(following, "WAIT_SECONDS_MAX", 0.1)  # or it would wait for minutes
    bounds = Bounds(ask_seconds_max=0.2, streams_max=50)
    with served(tmp_path, Settings(bounds=bounds)) as yard:
        tool = Path(sys.executable).parent / "schemathesis"
        words = [str(tool), "run", f"{yard.address}/openapi.json", "--max-examples", "5"]
        words += ["--seed", "7", "--phases", "coverage,fuzzing", "--exclude-checks", _LEFT_OUT]
        words += ["--request-timeout", "60", "--suppress-health-check", "all", "--no-color"]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stdout[-6000:]
        goes_on(yard)
