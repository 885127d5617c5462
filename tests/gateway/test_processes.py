"""Goal: the gateway's process can be killed, stopped and doubled while producers send through it:
nothing is lost, nothing is doubled, and what cannot start says why in one line.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import (
    SCRIPT,
    Running,
    children_of,
    environment,
    eventually,
    holdfast,
    holdfast_here,
)
from tests.cli.commands import refused as refused_command
from tests.gateway import yard as yard_module
from tests.gateway.raw import Raw, cart_event, heard_in, request
from tests.gateway.served import Client
from tests.gateway.yard import Cart, fleet

pytestmark = pytest.mark.kill
CODE = f"{yard_module.__file__}:fleet"


def gateway_of(supervisor: int) -> int | None:
    for pid in children_of(supervisor):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if b"holdfast.gateway.process" in words:
            return pid
    return None


def port_in(line: str) -> int:
    assert "gateway at http://" in line, line
    return int(line.strip().rpartition(":")[2])


def second_line(run: Running) -> str:
    assert run.process.stdout is not None
    return run.process.stdout.readline()


def until_taken(port: int, source: str, number: int) -> None:
    """A producer that is told nothing sends the same again."""
    row = json.loads(cart_event(source, number)) | {"source": source, "seq": number}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if Client(port).events(row).status == 200:
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
    raise AssertionError(f"{source} {number} was never taken")


def kill_and_replace(supervisor: int, sent: Callable[[], int]) -> None:
    least = sent() + 10
    eventually("producers get on", lambda: sent() > least)
    pid = gateway_of(supervisor)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually("another one starts", lambda: gateway_of(supervisor) not in (None, pid))


def test_a_gateway_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with Running(CODE, "--engine", url, "--port", "0", cwd=tmp_path) as run:
        port = port_in(second_line(run))
        names = [f"p-{n}" for n in range(3)]
        last = dict.fromkeys(names, 0)
        stop = threading.Event()

        def produce(name: str) -> None:
            while not stop.is_set():
                until_taken(port, name, last[name] + 1)
                last[name] += 1

        threads = [threading.Thread(target=produce, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        supervisor = run.process.pid
        try:
            for _ in range(3):
                kill_and_replace(supervisor, lambda: sum(last.values()))
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        with fleet.connect(url) as live:
            live.settle()
            for name in names:
                sent = list(range(1, last[name] + 1))
                assert live.state(Cart, name).numbers == sent[-100:]
                assert [entry.seq for entry in live.history(Cart, name)] == sent
        assert run.stop() == 0


class Alone:
    """`holdfast gateway`."""

    def __init__(self, url: str, cwd: Path) -> None:
        words = [str(SCRIPT), "gateway", "--engine", url, "--port", "0"]
        self.process = subprocess.Popen(
            words, cwd=cwd, env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = port_in(self.process.stdout.readline())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def test_two_side_by_side_and_an_end_that_lets_requests_finish(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        first, second = Alone(url, tmp_path), Alone(url, tmp_path)
        for number in range(1, 21):
            until_taken((first, second)[number % 2].port, "both", number)
            until_taken((first, second)[(number + 1) % 2].port, "both", number)  # a repeat
        live.settle()
        assert live.state(Cart, "both").numbers == list(range(1, 21))
        whole = request("POST", "/events", cart_event("late"))
        with Raw(first.port) as raw:
            raw.send(whole[:-5])
            eventually("it listens", lambda: Client(first.port).get("/healthz").status == 200)
            first.process.send_signal(signal.SIGTERM)
            eventually("nobody new comes in", lambda: not _listens(first.port))
            raw.send(whole[-5:])
            (heard,) = heard_in(raw.rest())
        assert heard.status == 200
        assert first.stop() == 0
        live.settle()
        assert live.state(Cart, "late").numbers == [1]
        until_taken(second.port, "both", 21)
        assert second.stop() == 0


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_who_waits_for_an_answer_does_not_hold_up_the_end(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url):
        pass  # nobody folds
    alone = Alone(url, tmp_path)
    question = {"agent": "Cart", "key": "k", "type": "Ask", "data": {"question": "x"}}
    body = json.dumps({**question, "timeout": 55}).encode()
    with Raw(alone.port) as raw:
        raw.send(request("POST", "/ask", body))
        eventually("it runs", lambda: Client(alone.port).get("/healthz").status == 200)
        begun = time.monotonic()
        alone.stop()
        assert time.monotonic() - begun < 50


def test_what_cannot_start_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = holdfast("run", CODE, "--port", port, cwd=tmp_path, code=None)
        refused_command(done, f"127.0.0.1:{port} cannot be listened on", "give another --port")
    done = holdfast_here("run", CODE, "--host", "0.0.0.0", "--port", 0, cwd=tmp_path, code=None)
    refused_command(done, "--tokens FILE")
