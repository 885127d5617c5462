"""A real PostgreSQL for tests: a server of its own in a temporary folder, on a free loopback port.

HOLDFAST_TEST_POSTGRES=url uses one that is there; then tests that restart the server are skipped.
PostgreSQL refuses to run as root, so root starts it as `postgres` or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.servers import processes
from tests.servers.missing import missing
from tests.servers.ports import free_ports

START_SECONDS = 60.0
PASSWORD = "sea/shanty?"  # has to be escaped in a URL


class PostgresServer:
    """`url` is for its superuser; `database()` gives a fresh database that goes with the server."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._user = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)
        self.url = f"postgres://tester:sea%2Fshanty%3F@127.0.0.1:{self.port}/postgres"
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            *("--pgdata", str(folder / "data"), "--username=tester", "--auth=scram-sha-256"),
            *(f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync"),
        )

    def _as_user(self) -> dict[str, object]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(  # type: ignore[call-overload]
            [self._binaries / program, *words],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            **self._as_user(),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",  # the machine does not crash in these tests, only processes do
            "max_connections": 30,
            "shared_buffers": "32MB",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = processes.start(
            self._binaries / "postgres",
            *("-D", self._folder / "data", *words),
            log=self._folder / "log",
            cwd=self._folder,
            user=self._user,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is a fast shutdown, SIGQUIT one without any goodbye."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)
            self._process = None


def _unprivileged() -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    known = {each.pw_name: each for each in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else None


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop and start."""
    binaries = _binaries()
    if binaries is None:
        missing("PostgreSQL", "install the package postgresql, or set HOLDFAST_TEST_POSTGRES=url")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    server = PostgresServer(binaries, folder)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


@contextmanager
def some_server() -> Iterator[str]:
    """The URL of a server, for tests that leave it alone."""
    given = os.environ.get("HOLDFAST_TEST_POSTGRES")
    if given:
        yield given
        return
    with own_server() as server:
        yield server.url


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """A database of its own, dropped afterwards."""
    name = f"holdfast_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
