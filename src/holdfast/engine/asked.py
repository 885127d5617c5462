"""A view whose answers come from elsewhere: each method of `View` is one of the questions."""

from __future__ import annotations

import struct
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from holdfast.engine.port import Change
from holdfast.engine.questions import QUESTIONS
from holdfast.errors import DiskFull
from holdfast.stepping.commit import (
    Answer,
    Call,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.inputs import StoredFrame

SPOOL_BYTES = 16 * 1024 * 1024  # of records that wait to be taken; what is more goes to a file
IDS_AT_ONCE = 200  # an id has a few hundred bytes at most, a request 64 KiB
_LENGTH = struct.Struct(">I")


class AskedView(ABC):
    """A `View`. How a question travels is up to who inherits from it."""

    @abstractmethod
    def _ask(self, take: Callable[[msgspec.Raw], object], method: str, *arguments: object) -> None:
        """Hand over every payload of the answer. Only after the last is it certain that they
        count."""

    def _one(self, method: str, *arguments: object) -> Any:
        unpack = QUESTIONS[method].unpack
        found: list[Any] = []
        self._ask(lambda payload: found.append(unpack(payload)), method, *arguments)
        return found[-1]

    def _many(self, method: str, *arguments: object) -> list[Any]:
        unpack = QUESTIONS[method].unpack
        found: list[Any] = []
        self._ask(lambda payload: found.extend(unpack(payload)), method, *arguments)
        return found

    # Where it stands.

    def head(self) -> Head:
        return cast(Head, self._one("head"))

    def inbox_next(self) -> int:
        return cast(int, self._one("inbox_next"))

    def urgent_next(self) -> int:
        return cast(int, self._one("urgent_next"))

    def inbox_first(self) -> int:
        return cast(int, self._one("inbox_first"))

    def position_of(self, following: int) -> int | None:
        return cast("int | None", self._one("position_of", following))

    def sent_next(self) -> dict[int, int]:
        return cast(dict[int, int], self._one("sent_next"))

    def marks(self) -> dict[str, int]:
        return cast(dict[str, int], self._one("marks"))

    def incarnation(self) -> str:
        return cast(str, self._one("incarnation"))

    def owner(self) -> str:
        return cast(str, self._one("owner"))

    # States.

    def record(self, agent: str, key: str) -> Record | None:
        return cast("Record | None", self._one("record", agent, key))

    def records(self, agent: str | None = None) -> Iterator[Record]:
        """Every agent, as of one commit. All of them are here when it returns."""
        return self._spooled("records", agent)

    def changes(self, since: int) -> Iterator[Change]:
        return self._spooled("changes", since)

    def _spooled(self, method: str, *arguments: object) -> Iterator[Any]:
        spooled = _Spooled(QUESTIONS[method].unpack)
        self._ask(spooled.put, method, *arguments)
        return spooled

    # Inputs and outputs.

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        return self._many("frames", first, most)

    def journal(self, first: int, most: int) -> list[Journalled]:
        return self._many("journal", first, most)

    def commits(self, first: int, most: int) -> list[CommitNote]:
        return self._many("commits", first, most)

    def actions(self, first: int, most: int) -> list[Issued]:
        return self._many("actions", first, most)

    def letters(self) -> list[tuple[Letter, bool]]:
        return self._many("letters")

    def letter(self, letter_id: int) -> Letter | None:
        return cast("Letter | None", self._one("letter", letter_id))

    def answer(self, position: int) -> Answer | None:
        return cast("Answer | None", self._one("answer", position))

    def fates(self) -> list[Fate]:
        return self._many("fates")

    def fates_of(self, ids: Sequence[str]) -> list[Fate]:
        some = [list(ids[i : i + IDS_AT_ONCE]) for i in range(0, len(ids), IDS_AT_ONCE)]
        return [fate for part in some for fate in self._many("fates_of", part)]

    def calls(self, after: int, most: int) -> list[Call]:
        return self._many("calls", after, most)


class _Spooled:
    """Rows that came in chunks, packed until they are taken.

    So whoever takes them slowly holds no line and no thread of the owner, and needs little memory.
    """

    def __init__(self, unpack: Callable[[bytes], list[Any]]) -> None:
        self._unpack = unpack
        self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (with this object)
        self._end = self._read = 0
        self._rows: Iterator[Any] = iter(())

    def put(self, payload: msgspec.Raw) -> None:
        packed = bytes(payload)
        self._unpack(packed)  # now: later there is no way back to another owner
        try:
            self._file.write(_LENGTH.pack(len(packed)) + packed)
        except OSError as error:
            raise DiskFull(
                f"{tempfile.gettempdir()}: no room for the agents of a partition ({error}): "
                "make some, or let TMPDIR name another place"
            ) from None
        self._end = self._file.tell()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            for row in self._rows:
                return row
            if self._read >= self._end:
                self._file.close()
                raise StopIteration
            self._file.seek(self._read)
            (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            self._rows = iter(self._unpack(self._file.read(length)))
            self._read = self._file.tell()

    def __del__(self) -> None:
        self._file.close()
