"""Histories on disk: each client appends one line before a call and one after it.

A client that is killed leaves a call without an end. Times are CLOCK_MONOTONIC, the same clock for
all processes of a machine. A line is written with one system call, so that a killed client leaves
all of it or, at worst, a piece at the end of the file, which counts as not written: the call had
not been made then, or its outcome is unknown.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.testing.linearizability import Operation

TAIL_BYTES = 8192


class Begun(NamedTuple):
    """A call as it was written down before it was made."""

    name: str
    client: str
    key: str  # Agent/key
    kind: str
    call: list[object]
    at: int
    seq: int | None = None
    after: Sequence[str] = ()


class Ended(NamedTuple):
    """How it ended: with a result, or with an error after which its outcome is unknown."""

    name: str
    key: str
    at: int
    result: list[object] | None = None
    receipt: list[list[int]] | None = None
    error: str = ""


class Recorder:
    def __init__(self, path: Path) -> None:
        lines = list(read(path))
        ends = {line.name for line in lines if isinstance(line, Ended)}
        begun = [line for line in lines if isinstance(line, Begun)]
        self.unfinished = [line for line in begun if line.name not in ends]
        self.count = len(begun)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, b"\n")  # behind whatever the one before us left

    def begin(self, **fields: Any) -> Begun:
        self.count += 1
        line = Begun(**fields, at=time.monotonic_ns())
        self._write("begun", line)
        return line

    def end(self, begun: Begun, **fields: Any) -> None:
        self._write("ended", Ended(begun.name, begun.key, time.monotonic_ns(), **fields))

    def close(self) -> None:
        os.close(self._file)

    def _write(self, what: str, line: Begun | Ended) -> None:
        os.write(self._file, (json.dumps([what, *line]) + "\n").encode())


def read(path: Path, last_bytes: int = 0) -> Iterator[Begun | Ended]:
    if not path.exists():
        return
    content = path.read_bytes()
    for line in content[-last_bytes:].split(b"\n")[bool(last_bytes) : -1]:
        try:
            what, *fields = json.loads(line)
        except ValueError:
            continue  # its writer was killed
        yield Begun(*fields) if what == "begun" else Ended(*fields)


def histories(paths: Sequence[Path], start: int) -> dict[str, list[Operation]]:
    """All clients' operations, by key. Times in seconds since `start`."""
    lines = [line for path in paths for line in read(path)]
    ends = {line.name: line for line in lines if isinstance(line, Ended) and not line.error}
    begun = [line for line in lines if isinstance(line, Begun)]
    found: dict[str, list[Operation]] = {}
    for line in begun:
        end = ends.get(line.name)
        found.setdefault(line.key, []).append(
            Operation(
                name=line.name,
                client=line.client,
                kind=line.kind,  # type: ignore[arg-type]
                call=frozen(line.call),
                invoked=(line.at - start) / 1e9,
                returned=None if end is None else (end.at - start) / 1e9,
                result=None if end is None else frozen(end.result),
                after=tuple(line.after),
            )
        )
    return found


def frozen(value: object) -> object:
    return tuple(map(frozen, value)) if isinstance(value, list) else value
