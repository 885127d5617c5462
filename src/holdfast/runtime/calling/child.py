"""A child process from our side: start it, talk to it without ever waiting, end it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from holdfast.errors import TheirBug
from holdfast.runtime.calling.port import Attempt
from holdfast.runtime.calling.targets import Target
from holdfast.runtime.calling.wire import Message, Reader, is_of_a_child, pack

HOST = "holdfast.runtime.calling.host"


class Child:
    """In a session of its own: a Ctrl-C is for the parent to decide about, and whatever processes
    a function has started end with it."""

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", HOST),
                    *(kind, str(theirs.fileno()), str(os.getpid())),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._reader = Reader()
        self._output = bytearray()
        self._exit = os.pidfd_open(self._process.pid)
        self.pid = self._process.pid
        self.used = 0.0  # when it was last given back
        # Whatever else a program has put there, Python itself ignores.
        self._say("hello", [os.fsencode(each) for each in sys.path if isinstance(each, str)])

    def run(self, attempt: Attempt, target: Target) -> None:
        call, arguments, reply = attempt.call, attempt.arguments, attempt.reply
        file = os.fsencode(target.file)
        self._say("run", attempt.serial, target.module, file, target.name, call, arguments, reply)

    def cancel(self, serial: int) -> None:
        self._say("cancel", serial)

    def _say(self, *message: object) -> None:
        self._output += pack(*message)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._output:
                del self._output[: self._socket.send(self._output)]
        except BlockingIOError:
            pass  # the rest goes with the next one
        except OSError:
            self._output.clear()  # it has ended: `ended` tells

    def hear(self) -> list[Message]:
        """What it has said since; also the last words of one that has ended."""
        self._flush()
        found: list[Message] = []
        try:
            while data := self._socket.recv(1 << 20):
                found += self._reader.feed(data)
        except BlockingIOError:
            pass  # that was all for now
        except (OSError, TheirBug):
            self.kill()  # whatever speaks there is not our host
        if not all(is_of_a_child(message) for message in found):
            self.kill()
            return []
        return found

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""
        if not self._has_ended():
            return None
        self.kill()  # what it has left running
        code = self._process.wait()
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"its process was ended by {names.get(-code, f'signal {-code}')}"
        return f"its process ended with exit code {code}"

    def _has_ended(self) -> bool:
        """Without reaping it."""
        if self._process.returncode is not None:
            return True
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.pid, look) is not None
        except ChildProcessError:
            return self._process.poll() is not None  # the program reaps whatever ends itself

    def descriptors(self) -> Sequence[tuple[int, bool]]:
        """What to wait on, and whether for room to write as well."""
        return (self._socket.fileno(), bool(self._output)), (self._exit, False)

    def kill(self) -> None:
        """It and what it has started. Not reaped yet, its number can be nobody else's."""
        if self._process.returncode is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()  # it has not come so far as to have a session

    def close(self) -> None:
        """After `kill`: SIGKILL needs no waiting worth mentioning."""
        self.kill()
        self._process.wait()
        self._socket.close()
        os.close(self._exit)
