"""The jars of Apache Kafka, fetched once by Maven into a folder that later runs use again.

The folder is `.servers/` in the repository; HOLDFAST_SERVERS_CACHE=folder names another one.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.servers.missing import missing

POM = Path(__file__).with_name("kafka_pom.xml")
FETCH_SECONDS = 240.0  # 45 jars, 70 MB; a test that hangs is ended after 300 s


def _version() -> str:
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", POM.read_text("utf-8"))
    assert found is not None, POM
    return found[1]


def java() -> str:
    found = shutil.which("java")
    if found is None:
        missing("Java", "install the package default-jre-headless, version 17 or later")
    return found


def jars() -> Path:
    """The folder with all jars, fetched now if they are not there yet."""
    given = os.environ.get("HOLDFAST_SERVERS_CACHE")
    cache = Path(given) if given else POM.parents[2] / ".servers"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"kafka-{_version()}"
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs that start together fetch once
        if not _is_complete(place):
            _fetch(place)
    return place / "lib"


def _is_complete(place: Path) -> bool:
    """The POM comes with the jars: a change of it, not only of the version, fetches again."""
    beside = place / POM.name
    return beside.exists() and beside.read_bytes() == POM.read_bytes()


def _fetch(place: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        missing("Apache Kafka", "install the package maven, which fetches it")
    # Renamed when it is whole, so that a killed fetch leaves nothing that looks finished.
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=place.parent) as name:
        folder = Path(name) / "kafka"
        folder.mkdir()
        shutil.copy(POM, folder)
        words = ["-q", "-B", "-f", POM.name, "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [maven, *words, f"-DoutputDirectory={folder / 'lib'}"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired:
            missing("Apache Kafka", f"Maven has not fetched it within {FETCH_SECONDS:g} s")
        if done.returncode != 0:
            missing("Apache Kafka", f"Maven cannot fetch it: {(done.stdout + done.stderr)[-1000:]}")
        if place.exists():
            place.rename(Path(name) / "outdated")
        folder.rename(place)
