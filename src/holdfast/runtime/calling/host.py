"""A child that runs users' functions: `python -P -m holdfast.runtime.calling.host KIND FD PARENT`.

Started by `child`, never by hand. It ends when its parent does. What functions print goes to
standard error: standard output may be somebody's data.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

from holdfast.runtime.calling.running import Ended, Functions, failed, judge
from holdfast.runtime.calling.wire import Message, Reader, pack

_PR_SET_PDEATHSIG = 1


class Line:
    """Our end of the socket: messages one after the other."""

    def __init__(self, socket_: socket.socket) -> None:
        self.socket = socket_
        self.reader = Reader()
        self.waiting: list[Message] = []

    def receive(self) -> Message:
        while not self.waiting:
            try:
                data = self.socket.recv(1 << 20)
            except OSError:
                os._exit(1)  # a function has closed it, or has forked and come back twice
            if not data:
                os._exit(0)  # nobody is there any more
            self.waiting += self.reader.feed(data)
        return self.waiting.pop(0)

    def send(self, *message: object) -> None:
        try:
            self.socket.sendall(pack(*message))
        except OSError:
            os._exit(1)

    def hang_up(self) -> None:
        """In a copy of ours that a function has forked: it must not speak or hear for us."""
        self.socket.close()


def serve(line: Line) -> None:
    """One call at a time, in the main thread, where every library works."""
    functions = Functions()
    while True:
        message = line.receive()
        serial = message[1]
        prepared = functions.prepare(message)
        if isinstance(prepared, Ended):
            line.send("ended", serial, *prepared)
            continue
        line.send("begun", serial)
        try:
            ended = judge(prepared, prepared.run())
        except BaseException as error:  # sys.exit() too is only the end of this call
            ended = failed(error)
        del prepared
        line.send("ended", serial, *ended)


def _end_with(parent: int) -> None:
    """The kernel ends us when whoever started us ends, also in the middle of a function."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it died before we could ask for that


def _print_to_standard_error() -> None:
    try:
        os.dup2(2, 1)
    except OSError:  # a daemon without one
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)


def main(kind: str, descriptor: str, parent: str) -> None:
    _end_with(int(parent))
    _print_to_standard_error()
    os.set_inheritable(int(descriptor), False)  # not for programs that functions start
    line = Line(socket.socket(fileno=int(descriptor)))
    os.register_at_fork(after_in_child=line.hang_up)
    _, path = line.receive()
    assert isinstance(path, list)
    sys.path[:] = [os.fsdecode(each) for each in path]
    sys.argv[:] = [""]
    if kind == "async":
        from holdfast.runtime.calling.looping import serve_async

        serve_async(line)
    else:
        serve(line)


if __name__ == "__main__":
    main(*sys.argv[1:4])
