"""A real MQTT broker for tests: Debian's Mosquitto, one process in a folder on a loopback port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.servers import processes
from tests.servers.missing import missing
from tests.servers.ports import free_ports

START_SECONDS = 60.0
# Saved after every change: else a broker that is killed has forgotten what it acknowledged.
USUAL: Mapping[str, object] = {
    "allow_anonymous": "true",
    "persistence": "true",
    "autosave_on_changes": "true",
    "autosave_interval": 1,
    "max_queued_messages": 0,
    "max_inflight_messages": 0,
    "set_tcp_nodelay": "true",
    "log_type": "all",  # what clients did is told there
}


def program(name: str) -> str:
    """`mosquitto`, or one of its clients, `mosquitto_pub` and `mosquitto_sub`."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        missing(name, "install the packages mosquitto and mosquitto-clients")
    return found


class Mosquitto:
    """Stays the same over a kill: `start` again serves the same data on the same port."""

    def __init__(
        self, folder: Path, settings: Mapping[str, object] | None = None, lines: Sequence[str] = ()
    ) -> None:
        """`settings` are added to, or replace, the usual ones; `lines` stand as they are, behind
        the listener."""
        self.folder = folder
        self.scheme, self.host = "mqtt", "127.0.0.1"
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "mosquitto.conf"
        data = folder / "data"
        data.mkdir(parents=True)
        said = {**USUAL, "persistence_location": f"{data}/", **(settings or {})}
        text = [f"{name} {value}" for name, value in said.items() if value is not None]
        listener = f"listener {self.port} 127.0.0.1"
        # It gives up the rights of root by itself unless it is told to be somebody.
        self._config.write_text("\n".join(["user root", *text, listener, *lines, ""]), "utf-8")

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = processes.start(
            program("mosquitto"), "-c", self._config, log=self.folder / "log"
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"the MQTT broker does not start:\n{self.log()}")

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")[-3000:]

    def save(self) -> None:
        """Returns when all it has is in its file, which is made anew."""
        path = self.folder / "data" / "mosquitto.db"
        before = path.stat().st_ino if path.exists() else None
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + START_SECONDS
        while not path.exists() or path.stat().st_ino == before:
            assert time.monotonic() < deadline, "it does not save"
            time.sleep(0.01)

    def did(self, what: str) -> int:
        """In how many lines it tells this, as in "Sending SUBACK to bridge"."""
        return self._whole_log().count(what)

    def stored(self, topic: str) -> int:
        """How many messages have come for this topic."""
        lines = self._whole_log().splitlines()
        return sum("Received PUBLISH" in line and f"'{topic}'" in line for line in lines)

    def _whole_log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """With a goodbye: it saves all it has."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # The stock clients.

    def pub(self, topic: str, message: str, *words: str, quality: int = 1) -> None:
        """Returns when the broker has it."""
        command = [program("mosquitto_pub"), "-p", str(self.port), "-q", str(quality)]
        command += ["-t", topic, "-m", message, *words]
        subprocess.run(command, check=True, timeout=START_SECONDS, capture_output=True)

    def try_pub(self, topic: str, message: str, *words: str) -> str:
        """What the client says; it may be refused."""
        command = [program("mosquitto_pub"), "-p", str(self.port), "-q", "1"]
        command += ["-t", topic, "-m", message, *words]
        done = subprocess.run(command, check=False, timeout=START_SECONDS, capture_output=True)
        return (done.stdout + done.stderr).decode()

    def sub(self, topic: str, *words: str, count: int = 1, seconds: int = 20) -> str:
        """What comes until there are so many."""
        command = [program("mosquitto_sub"), "-p", str(self.port), "-q", "1", "-t", topic]
        command += ["-C", str(count), "-W", str(seconds), *words]
        done = subprocess.run(command, check=False, timeout=seconds + 10, capture_output=True)
        assert done.returncode == 0, done
        return done.stdout.decode()


@contextmanager
def running(
    settings: Mapping[str, object] | None = None, lines: Sequence[str] = ()
) -> Iterator[Mosquitto]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-mosquitto-"))
    try:
        with Mosquitto(folder, settings, lines) as broker:
            yield broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    """One for all tests of a run, with topics of their own each; whoever kills it makes another."""
    with running() as broker:
        yield broker
