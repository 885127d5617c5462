"""`holdfast run` and its clients as real processes, and the hand that kills and stops them."""

import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from holdfast.testing.linearizability import Operation
from tests.kills.harness import PATIENCE_SECONDS, Site, children, ended, strike, wait_until
from tests.linearizability.client import target
from tests.linearizability.record import Recorder, histories
from tests.linearizability.registers import Look, fleet

# Every run has all of them, in an order of its own.
FAULTS = (
    *["kill a worker"] * 4,
    "kill two workers",
    *["kill the supervisor"] * 2,
    *["kill a client"] * 3,
    *["stop a worker for good"] * 2,
    *["stop a worker for a while"] * 2,
    "stop a client for a while",
    "stop a worker, kill the supervisor",
)
STRUCK_MIN = 15


class Chaos:
    def __init__(self, place: Site, seed: int, clients: int) -> None:
        self.place = place
        self.seed = seed
        self.chance = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.moments: list[float] = []  # of each fault, on the clients' clock
        self.start = time.monotonic_ns()
        self.supervisor = self._supervisor()
        wait_until(
            (place.folder / "data" / "fleet.db").exists,
            PATIENCE_SECONDS,
            "the directory is laid out",
        )
        self.clients = {name: self._client(name) for name in map("c{}".format, range(clients))}

    def _supervisor(self) -> subprocess.Popen[bytes]:
        words = ["run", self.place.fleet, "--engine", self.place.url, "--workers", "2"]
        return self.place.start("run", ["tests.linearizability.command", *words])

    def _client(self, name: str) -> subprocess.Popen[bytes]:
        words = [self.place.url, name, str(self.seed), str(self.start), str(self.place.folder)]
        return self.place.start(name, ["tests.linearizability.client", *words])

    def histories(self) -> dict[str, list[Operation]]:
        return histories(self._paths(), self.start)

    def _paths(self) -> list[Path]:
        return sorted(self.place.folder.glob("*.history"))

    def lines(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self._paths())

    def check_alive(self) -> None:
        for process in (self.supervisor, *self.clients.values()):
            assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"

    def struck(self) -> list[Operation]:
        """Completed operations that were under way when a fault came."""
        return [o for history in self.histories().values() for o in history if self._struck(o)]

    def _struck(self, operation: Operation) -> bool:
        end = operation.returned
        return end is not None and any(operation.invoked <= at <= end for at in self.moments)

    # Faults.

    def rage(self, seconds: float, lines: int) -> None:
        """All faults once, and more until the time is over and enough was under way when they
        came. Between them clients go on: `lines` are written down, however slow the machine is."""
        end = time.monotonic() + seconds
        deck = self.chance.sample(FAULTS, len(FAULTS))
        while deck or time.monotonic() < end or len(self.struck()) < STRUCK_MIN:
            time.sleep(self.chance.uniform(0.0, 0.8))
            self._go_on(lines)
            self.check_alive()
            self.fault(deck.pop() if deck else self.chance.choice(FAULTS))

    def _go_on(self, lines: int) -> None:
        enough = self.lines() + lines
        wait_until(lambda: self.lines() >= enough, 120.0, "clients go on")

    def fault(self, what: str) -> None:
        workers = self._workers()
        self.chance.shuffle(workers)
        client = self.chance.choice(sorted(self.clients))
        self.moments.append((time.monotonic_ns() - self.start) / 1e9)
        if what == "kill a worker":
            self._kill(workers[:1])
        elif what == "kill two workers":
            self._kill(workers[:2])
        elif what == "kill a client":
            ended(self.clients[client])
            self.clients[client] = self._client(client)
        elif what == "stop a worker for a while":
            self._nap(workers[:1])
        elif what == "stop a client for a while":
            self._nap([self.clients[client].pid])
        elif what == "stop a worker for good":
            self._stop(workers[:1])
        elif what == "kill the supervisor":
            self._replace_supervisor()
        elif what == "stop a worker, kill the supervisor":
            self._stop(workers[:1])
            self._replace_supervisor()
        else:
            raise AssertionError(what)
        self.faults[what] += 1

    def _workers(self) -> list[int]:
        """Children that run as workers already.

        One stopped between fork and exec would keep its supervisor's lock, and wait for a person.
        """
        return children(self.supervisor.pid, "holdfast.runtime.process")

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            strike(pid)

    def _stop(self, pids: list[int]) -> None:
        for pid in pids:
            self.place.stop(pid)

    def _nap(self, pids: list[int]) -> None:
        """Shorter or longer than a supervisor is patient."""
        self._stop(pids)
        time.sleep(self.chance.choice((0.2, 0.7, 1.3)))
        for pid in pids:
            strike(pid, signal.SIGCONT)  # unless it was taken for dead, and ended

    def _replace_supervisor(self) -> None:
        ended(self.supervisor)
        time.sleep(self.chance.choice((0.0, 0.3)))
        self.supervisor = self._supervisor()

    # The end.

    def calm(self) -> None:
        """Let the clients finish, then ask every agent once more: what is there now?"""
        (self.place.folder / "stop").touch()
        for name, process in self.clients.items():
            assert process.wait(60.0) == 0, self.place.log(name)
        keys = list(self.histories())
        last = Recorder(self.place.folder / "last.history")
        with closing(last) as recorder, fleet.connect(self.place.url) as live:
            for number, key in enumerate(keys):
                begun = recorder.begin(
                    name=f"last.{number}", client="last", key=key, kind="ask", call=["Look"]
                )
                told = live.ask(*target(key), Look(), timeout=30.0)
                value, version = getattr(told, "value"), getattr(told, "version")  # noqa: B009
                recorder.end(begun, result=[value, version, True])
