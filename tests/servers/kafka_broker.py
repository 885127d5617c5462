"""One Kafka broker, a controller too: a Java process to kill, to pause and to start again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import processes
from tests.servers.kafka_jars import jars, java

STOP_SECONDS = 60.0


@dataclass
class KafkaBroker:
    """Stays the same over a kill: `start` again serves the same data on the same ports."""

    number: int
    folder: Path
    port: int  # where clients connect; they may be told another one, of a proxy
    internal_port: int  # where brokers, and the tests' own administration, connect
    controller_port: int
    java_options: list[str]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    paused: bool = False

    @property
    def settings_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def metadata(self) -> Path:
        return self.folder / "metadata"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"broker {self.number} is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """It ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def format(self, settings: Mapping[str, object], words: list[str]) -> subprocess.Popen[bytes]:
        """Prepare the empty folders for a first start; the caller waits for the process."""
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self.settings_file.write_text(text, "utf-8")
        return self._java("kafka.tools.StorageTool", "format", "-c", self.settings_file, *words)

    def start(self) -> None:
        """Only starts it: `wait_ready` of the cluster waits until it serves."""
        assert not self.is_running, f"broker {self.number} runs already"
        self.paused = False
        self._process = self._java("kafka.Kafka", self.settings_file)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """With a goodbye: leaderships move away first."""
        if self.paused:
            self.resume()
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.paused = False

    def log_tail(self, characters: int = 3000) -> str:
        return self.log.read_text("utf-8", "replace")[-characters:] if self.log.exists() else ""

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(STOP_SECONDS)
            self._process = None

    def _java(self, *words: str | Path) -> subprocess.Popen[bytes]:
        options = (*("-cp", f"{jars()}/*"), *self.java_options)
        return processes.start(java(), *options, *words, log=self.log, cwd=self.folder)
