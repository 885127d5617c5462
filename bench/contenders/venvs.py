"""A virtual environment of its own for each peer, in its folder, with its exact versions."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.results import Unavailable

PEERS = Path(__file__).parents[1] / "peers"


def install(peer: str) -> Path:
    """The peer's Python; made again when its requirements change."""
    folder = PEERS / peer
    needs = folder / "requirements.txt"
    stamp = folder / ".venv" / "installed"
    wanted = hashlib.sha256(needs.read_bytes() + sys.version.encode()).hexdigest()
    python = folder / ".venv" / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"  installing {peer} into its own environment …", file=sys.stderr, flush=True)
    shutil.rmtree(folder / ".venv", ignore_errors=True)
    finish([sys.executable, "-m", "venv", folder / ".venv"])
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    finish([python, "-m", "pip", *quiet, "install", "--no-deps", "-r", needs])
    stamp.write_text(wanted)
    return python


def finish(words: Sequence[str | Path]) -> None:
    """Run a step of a preparation; `Unavailable` with its last line if it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise Unavailable(f"{words[0]} is not installed") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no word of it"]
        raise Unavailable(f"{Path(words[0]).name} failed: {lines[-1][:200]}")


def jars(python: Path) -> Path:
    """The folder of Flink's jars inside a peer's environment."""
    found = sorted(python.parents[1].glob("lib/python*/site-packages/pyflink/lib"))
    if not found:
        raise Unavailable("apache-flink-libraries carries no jars")
    return found[0]
