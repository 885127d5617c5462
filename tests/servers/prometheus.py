"""A real Prometheus for tests: one process in a temporary folder, on a loopback port."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers import processes
from tests.servers.missing import missing
from tests.servers.ports import free_ports

START_SECONDS = 60.0
_CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: holdfast
    static_configs: [{{targets: ["127.0.0.1:{target}"]}}]
"""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing(name, "apt-get install prometheus")
    return found


def promtool(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *map(str, words)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Prometheus:
    """Scrapes a port of this machine every second, and evaluates a file of rules as often."""

    def __init__(self, folder: Path, target: int, rules: Path) -> None:
        [self.port] = free_ports(1)
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(rules=rules, target=target), "utf-8")
        self._process = processes.start(
            *(program("prometheus"), f"--config.file={config}", "--log.level=warn"),
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            log=self._log,
        )

    def wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(self._url("/-/ready"), timeout=1).close()
                return
            except OSError:  # an answer that it is not ready is one, too
                time.sleep(0.1)
        tail = self._log.read_text("utf-8", "replace")[-2000:]
        raise AssertionError(f"Prometheus does not start:\n{tail}")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant query; what is no valid expression raises with what Prometheus says."""
        words = urllib.parse.urlencode({"query": expression})
        result = self._get(f"/api/v1/query?{words}")["result"]
        assert isinstance(result, list)
        return result

    def firing(self) -> set[str]:
        found = self._get("/api/v1/alerts")["alerts"]
        return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}

    def targets(self) -> list[dict[str, Any]]:
        found = self._get("/api/v1/targets")["activeTargets"]
        assert isinstance(found, list)
        return found

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self._url(path), timeout=10) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode('utf-8', 'replace')}") from None
        data = body["data"]
        assert isinstance(data, dict)
        return data

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Prometheus:
        self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
