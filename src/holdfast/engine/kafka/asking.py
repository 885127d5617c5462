"""Reading a partition from its owner, over the line that serving.py answers.

Whoever asks has the address from the topic of owners. `NotServed` means: not from
there, not now. It comes before anything of an answer was given away, so that the caller can go on
with another owner, or with a copy of its own.
"""

from __future__ import annotations

import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast

import msgspec

from holdfast.engine.kafka.lines import SHARED, Address, Connections
from holdfast.engine.kafka.lines import NotServed as NotServed  # noqa: PLC0414 (raised here)
from holdfast.engine.kafka.questions import (
    DONE,
    FAILED,
    MORE,
    NOT_OWNED,
    QUESTIONS,
    REQUEST_BYTES_MAX,
    Reply,
    Request,
    pack,
    unpack_error,
    unpack_text,
)
from holdfast.engine.port import Change
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

# For each frame of an answer. An owner may have to read its inbox to the end for the first, or all
# of its agents: a million takes some seconds.
READ_SECONDS = 10.0
SPOOL_BYTES = 16 * 1024 * 1024  # of records that wait to be taken; what is more goes to a file
IDS_AT_ONCE = 200  # an id has a few hundred bytes at most, a request 64 KiB
_AROUND_BYTES = 1024  # a request has more in it than its arguments
_LENGTH = struct.Struct(">I")


class Standing(NamedTuple):
    """How new an answer is: whose claim it was, and how many commits it shows at least."""

    epoch: int
    commits: int


class RemoteView:
    """A `View`. For any thread; one that has seen a claim or a commit never sees an older one."""

    def __init__(
        self,
        address: str,
        partition: int,
        timeout: float = READ_SECONDS,
        *,
        least_epoch: int = 0,
        connections: Connections = SHARED,
    ) -> None:
        """`least_epoch`: of the newest claim that is known. Who has an older one was superseded.

        NotServed at once for an empty address: an owner that does not serve.
        """
        self._address = Address.of(address)
        self._partition = partition
        self._timeout = timeout
        self._connections = connections
        self._lock = threading.Lock()
        self._seen = Standing(least_epoch, 0)

    @property
    def standing(self) -> Standing:
        """The newest that any answer had."""
        return self._seen

    # Asking.

    def _ask(self, take: Callable[[msgspec.Raw], object], method: str, *arguments: object) -> None:
        """Hands over every payload. Only after the last is it certain that they count."""
        request = self._request(method, arguments)
        least = self._seen  # when it is asked: what others see meanwhile may come earlier
        replies = self._connections.to(self._address).exchange(request, self._timeout)
        with closing(replies):
            for reply in replies:
                try:
                    self._check(reply, least)
                    take(reply.payload)
                except msgspec.MsgspecError as error:
                    raise self._refused(f"{method}: another release? {error}") from None
        with self._lock:
            self._seen = max(self._seen, Standing(reply.epoch, reply.commits))

    def _request(self, method: str, arguments: tuple[object, ...]) -> Request:
        try:
            packed = pack(arguments)
        except (OverflowError, UnicodeError) as error:
            raise self._refused(f"{method}: {error}") from None
        if len(packed) > REQUEST_BYTES_MAX - _AROUND_BYTES:
            raise self._refused(f"{method}: arguments of {len(packed):,} bytes")
        return Request(self._address.token, self._partition, method, msgspec.Raw(packed))

    def _check(self, reply: Reply, least: Standing) -> None:
        if reply.status == NOT_OWNED:
            raise self._refused("it does not own it now")
        if reply.status not in (DONE, MORE, FAILED):
            raise self._refused(unpack_text(reply.payload))
        if reply.epoch < least.epoch:
            raise self._refused(
                f"its claim has epoch {reply.epoch}, there is one with {least.epoch}"
            )
        if reply.status == FAILED:
            raise unpack_error(reply.payload)
        if reply.commits < least.commits:
            raise self._refused(f"of {least.commits} commits it has {reply.commits}")

    def _refused(self, why: str) -> NotServed:
        return NotServed(f"partition {self._partition} at {self._address}: {why}")

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
