"""The clients of `examples/clients`: the document they are made from, and how to make, build and
run them. `python -m tests.examples.clients.generating` (`make clients`) writes what is checked in.

What npm fetches is kept in `.servers/`, by the contents of the lock file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.drones import fleet
from holdfast import Live
from tests.gateway.served import gateway_on

ROOT = Path(__file__).parents[3]
CLIENTS = ROOT / "examples" / "clients"
DOCUMENT = CLIENTS / "openapi.json"
SCHEMA = Path("typescript/src/schema.d.ts")
API = Path("go/api/api.gen.go")
_LOCK = CLIENTS / "typescript" / "package-lock.json"
_MODULES = ROOT / ".servers" / f"node-{hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]}"


@contextmanager
def drones(folder: Path) -> Iterator[tuple[Live, str]]:
    """The fleet of `examples/drones.py`, and the address of its gateway."""
    url = f"sqlite:{folder / 'data'}"
    with fleet.open(url, partitions=2) as live, gateway_on(url) as port:
        yield live, f"http://127.0.0.1:{port}"


def document_at(address: str) -> str:
    with urllib.request.urlopen(f"{address}/openapi.json", timeout=120) as answer:
        return json.dumps(json.load(answer), indent=1) + "\n"


def copied(folder: Path) -> Path:
    """The examples, to work in without touching them."""
    ignored = shutil.ignore_patterns("node_modules", "build")
    return Path(shutil.copytree(CLIENTS, folder / "clients", ignore=ignored))


def generate_typescript(clients: Path) -> None:
    place = _with_modules(clients)
    run(place, "npm", "run", "--silent", "generate")


def build_typescript(clients: Path) -> None:
    run(_with_modules(clients), "npm", "run", "--silent", "build")


def generate_go(clients: Path) -> None:
    command = ["go", "tool", "-modfile=generate/go.mod", "oapi-codegen"]
    run(clients / "go", *command, "-config", "generate/config.yaml", "../openapi.json")


def build_go(clients: Path) -> None:
    """Without the names of folders in it, so that Go finds what it built elsewhere before."""
    run(clients / "go", "go", "build", "-mod=readonly", "-trimpath", "-o", "drones", ".")


def run(place: Path, *command: str) -> str:
    """What it prints; what it complains about where it fails."""
    ended = subprocess.run(
        command, check=False, cwd=place, capture_output=True, text=True, env=_environment()
    )
    if ended.returncode:
        words = " ".join(command)
        raise AssertionError(
            f"{words} ended with {ended.returncode}:\n{ended.stderr or ended.stdout}"
        )
    return ended.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "npm_config_update_notifier": "false", "NO_COLOR": "1"}


def _with_modules(clients: Path) -> Path:
    """The folder of the TypeScript client, with the packages of its lock file."""
    place = clients / "typescript"
    modules = place / "node_modules"
    if not modules.exists():
        modules.symlink_to(_fetched() / "node_modules")
    return place


def _fetched() -> Path:
    if not _MODULES.exists():
        _MODULES.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_MODULES.parent, prefix="node-") as name:
            place = Path(name) / "whole"
            place.mkdir()
            for part in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(CLIENTS / "typescript" / part, place)
            run(place, "npm", "ci", "--no-audit", "--no-fund")
            place.rename(_MODULES)
    return _MODULES


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        with drones(Path(name)) as (_, address):
            DOCUMENT.write_text(document_at(address), "utf-8")
        clients = copied(Path(name))
        generate_typescript(clients)
        generate_go(clients)
        for part in (SCHEMA, API):
            shutil.copy(clients / part, CLIENTS / part)


if __name__ == "__main__":
    main()
