"""Our side of the jail: processes that run SQL, started when they are needed and killed when late.

A table is written once to memory of its own, which every process maps: so a query costs nothing per
row before it begins, and what it sees does not change under it.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdfast.errors import Busy, TimedOut, TryAgain, UsageError
from holdfast.view.sql.limits import Limits
from holdfast.view.sql.statements import Reference
from holdfast.view.sql.wire import receive, send

if TYPE_CHECKING:
    import pyarrow

START_SECONDS = 60.0  # for Python and DuckDB to be loaded, on a machine that has much to do
PARSE_SECONDS = 5.0
GRACE_SECONDS = 1.0  # a query that is told to end has so long to do so
# Other allocators take address space in advance, which the kernel would count.
VARIABLES = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
MODULE = "holdfast.view.sql.jail"
_serials = itertools.count(1)


class Shared:
    """A table in memory that other processes map."""

    def __init__(self, table: pyarrow.Table) -> None:
        import pyarrow

        self.serial = next(_serials)
        self.descriptor = os.memfd_create("holdfast-table", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.descriptor)
        with (
            pyarrow.OSFile(f"/proc/self/fd/{self.descriptor}", "wb") as file,
            pyarrow.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
        _seal(self.descriptor)


def _seal(descriptor: int) -> None:
    import fcntl

    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


CLOSED = "these queries are closed: make others"


class Result(NamedTuple):
    columns: list[tuple[str, str]]
    rows: list[list[object]]
    truncated: bool


class Prisoner:
    """One process, for one query at a time."""

    def __init__(self, limits: Limits, starting: Executor) -> None:
        self._limits = limits
        self._has: dict[str, int] = {}  # by name of a table, its serial there
        ours, theirs = socket.socketpair()
        with theirs:
            words = [str(theirs.fileno()), str(os.getpid()), str(limits.memory_bytes)]
            try:
                self._process = starting.submit(_start, words, theirs.fileno()).result()
            except BaseException:
                ours.close()
                raise
        self._line = ours
        self.is_well = True
        try:
            self._hear(START_SECONDS)
        except (UsageError, TimedOut) as error:
            self.close()
            raise TryAgain(f"the process that runs SQL did not start: {error}") from None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def parse(self, sql: str) -> list[Reference]:
        self._say(["parse", sql], [])
        (found,) = self._hear(PARSE_SECONDS)
        return [Reference(schema, name) for schema, name in found]

    def run(self, sql: str, tables: Mapping[str, Shared]) -> Result:
        limits = self._limits
        new = {n: t for n, t in tables.items() if self._has.get(n) != t.serial}
        listed = [[name, table.serial] for name, table in tables.items()]
        bounds = [limits.seconds, limits.rows_max, limits.result_bytes_max]
        self._say(["run", sql, listed, *bounds], [table.descriptor for table in new.values()])
        self._has.update({name: table.serial for name, table in new.items()})
        columns, rows, truncated = self._hear(limits.seconds + GRACE_SECONDS)
        return Result([(name, kind) for name, kind in columns], rows, truncated)

    def _say(self, message: list[Any], descriptors: list[int]) -> None:
        try:
            send(self._line, message, descriptors)
        except OSError:
            self.is_well = False
            raise TryAgain("the process that runs SQL has ended: ask again") from None

    def _hear(self, seconds: float) -> list[Any]:
        """What it answers; its refusals as our errors."""
        self._line.settimeout(seconds)
        try:
            (tired, message), _ = receive(self._line)
        except TimeoutError:
            self.is_well = False
            raise self._late() from None
        except (EOFError, OSError):
            self.is_well = False
            raise self._ended() from None
        if tired:
            self.is_well = False
        if message[0] != "refused":
            return cast("list[Any]", message[1:])
        _, kind, text = message
        if kind == "late":
            raise self._late()
        if kind == "memory":
            self.is_well = False  # whatever it holds on to
            raise UsageError(self._too_large())
        raise UsageError(text)

    def _late(self) -> TimedOut:
        return TimedOut(
            f"the query did not end within {self._limits.seconds:g} s: ask for less, or raise the "
            "bound (--seconds)"
        )

    def _too_large(self) -> str:
        return (
            f"the query needs more memory than {self._limits.memory_bytes // 1024**2:,} MiB: ask "
            "for less, or raise the bound (--memory)"
        )

    def _ended(self) -> UsageError:
        code = self._process.wait()
        if code == -signal.SIGKILL:
            return UsageError(self._too_large())
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return UsageError(f"the query ended the process that ran it ({how}): ask in another way")

    def close(self) -> None:
        """The process number is not reused before it was waited for, so this ends no other."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._line.close()


def _start(words: list[str], descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, *words],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**VARIABLES, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


class Jailer:
    """Processes in reserve; as many queries at once as the limits allow."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free: list[Prisoner] = []
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(limits.at_once_max)
        self._closed = False
        # The kernel ends a process with the thread that started it, not with its process. Who
        # asks may be gone in a moment, so a thread of our own starts them.
        self._starting = ThreadPoolExecutor(1, thread_name_prefix="holdfast-jailer")

    @contextmanager
    def prisoner(self) -> Iterator[Prisoner]:
        waited = time.monotonic()
        if not self._turns.acquire(timeout=self._limits.wait_seconds):
            raise Busy(
                f"{self._limits.at_once_max} queries run already, and none ended within "
                f"{time.monotonic() - waited:.0f} s: ask again"
            )
        try:
            prisoner = self._take() or self._make()
            try:
                yield prisoner
            except Exception:
                raise
            except BaseException:
                prisoner.is_well = False  # interrupted: an answer may be under way
                raise
            finally:
                self._give_back(prisoner)
        finally:
            self._turns.release()

    def _take(self) -> Prisoner | None:
        while True:
            with self._lock:
                if self._closed:
                    raise UsageError(CLOSED)
                if not self._free:
                    return None
                taken = self._free.pop()
            if not taken.has_ended:
                return taken
            taken.close()  # somebody has ended it while it waited

    def _make(self) -> Prisoner:
        try:
            return Prisoner(self._limits, self._starting)
        except RuntimeError:  # nothing is started any more
            if self._closed:
                raise UsageError(CLOSED) from None
            raise

    def _give_back(self, prisoner: Prisoner) -> None:
        with self._lock:
            if prisoner.is_well and not self._closed:
                self._free.append(prisoner)
                return
        prisoner.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for prisoner in free:
            prisoner.close()
        self._starting.shutdown()
