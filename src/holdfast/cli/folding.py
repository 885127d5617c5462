"""`run --engine memory:`: a fleet in this process, fed and read through its standard streams."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable

from holdfast.cli.output import print_json
from holdfast.cli.reading import action_json
from holdfast.cli.sending import LINES_PER_SEND, Line, numbered_lines, send_lines
from holdfast.engine.urls import open_engine
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.untyped import UntypedLive

LOOK_SECONDS = 0.05  # how late an action of a timer may be shown


def fold_standard_input(fleet: Fleet, url: str, partitions: int) -> None:
    """Events in, actions out, until the input ends and nothing waits; future timers may."""
    engine = open_engine(url, fleet.name, create_partitions=partitions)
    with UntypedLive(engine, Embedded(fleet, engine)) as live:
        # A file of our own: at its end Python locks sys.stdin, which a blocked read would hold.
        lines = Lines(os.fdopen(os.dup(sys.stdin.fileno()), "rb"))
        cursor = ""
        try:
            while not lines.ended:
                if batch := lines.take():
                    send_lines(live, batch)
                cursor = _print_actions(live, cursor)
        finally:
            live.settle()
            _print_actions(live, cursor)


def _print_actions(live: UntypedLive, cursor: str) -> str:
    while page := live.actions(after=cursor):
        for issued in page:
            print_json(action_json(issued))
        cursor = page.cursor
    return cursor


class Lines:
    """Lines as they come, read on a thread, so that actions are shown while nothing comes."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._queue: queue.Queue[Line | Exception | None] = queue.Queue(LINES_PER_SEND)
        self.ended = False
        # A daemon: a read that blocks must not keep the process from ending.
        threading.Thread(target=self._read, args=(file,), daemon=True).start()

    def _read(self, file: Iterable[bytes]) -> None:
        try:
            for line in numbered_lines(file):
                self._queue.put(line)
            self._queue.put(None)
        except Exception as error:
            self._queue.put(error)

    def take(self) -> list[Line]:
        """What has come, after a moment's wait for the first; empty when nothing did."""
        found: list[Line] = []
        try:
            item = self._queue.get(timeout=LOOK_SECONDS)
            while True:
                if item is None:
                    self.ended = True
                    break
                if isinstance(item, Exception):
                    raise item
                found.append(item)
                if len(found) >= LINES_PER_SEND:
                    break
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        return found
