"""A real `holdfast run` with its gateway, on a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

START_SECONDS = 60.0
PROGRAM = Path(__file__).with_name("drones.py")


class Running(NamedTuple):
    url: str
    folder: Path
    port: int
    pid: int  # of the supervisor

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(folder: Path, workers: int) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="bench-gateway-", dir=folder) as name:
        place = Path(name)
        url = f"sqlite:{place / 'data'}"
        holdfast = Path(sys.executable).with_name("holdfast")
        command = [str(holdfast), "run", str(PROGRAM), "--port", "0"]
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        said = place / "said"
        with said.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--engine", url, "--workers", str(workers)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        try:
            yield Running(url, place, _port(said, process), process.pid)
        finally:
            process.terminate()
            if process.wait(30):
                raise RuntimeError(f"holdfast run ended badly:\n{said.read_text()}")


def _port(said: Path, process: subprocess.Popen[bytes]) -> int:
    """Of the gateway, once it is ready."""
    deadline = time.monotonic() + START_SECONDS
    refusals: list[str] = []
    while time.monotonic() < deadline and process.poll() is None:
        _, found, rest = said.read_text().partition("gateway at http://127.0.0.1:")
        if found and "\n" in rest:
            port = int(rest.split()[0])
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                    return port
            except OSError as error:  # it listens before it answers
                refusals.append(str(error))
        time.sleep(0.05)
    asked = f"asked {len(refusals)} times, at last: {refusals[-1]}" if refusals else "never asked"
    raise RuntimeError(f"the gateway did not start ({asked}):\n{said.read_text()}")
