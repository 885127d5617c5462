"""A child that runs users' functions: `python -P -m holdfast.runtime.calling.host KIND FD PARENT`.

Started by `child`, never by hand. It ends when its parent does. What functions print goes to
standard error: standard output may be somebody's data.
"""

from __future__ import annotations

import os
import socket
import sys

from holdfast.runtime.calling.running import Ended, Functions, failed, judge
from holdfast.runtime.calling.wire import Line
from holdfast.runtime.supervised import end_with


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


def _print_to_standard_error() -> None:
    try:
        os.dup2(2, 1)
    except OSError:  # a daemon without one
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)


def main(kind: str, descriptor: str, parent: str) -> None:
    end_with(int(parent))
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
