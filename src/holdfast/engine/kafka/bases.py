"""Base copies: the mirror of a partition as it was after some commit, for all workers to find.

A mirror that is new begins with the newest base copy and reads only what came after it. What is
before the base copy, and older than retention keeps history, is then deleted from the topics. They
are kept in a topic of the fleet, or in a store of objects if the URL names one (`base=s3://…`),
which is the better place for states of gigabytes.

A base copy is a zstd-compressed tar of a state file and an inbox that begins at its position.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import apsw
import msgspec
import zstandard

from holdfast.blob.port import Blob
from holdfast.blob.urls import open_blob
from holdfast.engine.kafka.appending import Appender
from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import header
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import bases_topic
from holdfast.engine.sqlite.files import explained, open_existing
from holdfast.engine.sqlite.standing import read_head
from holdfast.errors import DamagedData, Missing
from holdfast.stepping.commit import Head

PART_BYTES = 900_000  # of a record: brokers take a million unless told otherwise
OBJECT_BYTES = 64 * 1024 * 1024
PART_SECONDS = 30.0  # for one that has to travel far; less than the producer goes on trying
LEVEL = 3


class BaseCopy(msgspec.Struct, frozen=True):
    """What is said of a base copy. Offsets are those at which its mirror reads on."""

    number: int
    incarnation: str
    commits: int
    changelog: int
    inbox: int
    size: int
    born: str = ""  # of the fleet it is for: under one prefix another may have been begun before


class BaseStore(Protocol):
    def put(self, facts: BaseCopy, packed: bytes) -> None: ...  # older ones may go
    def add(self, facts: BaseCopy, packed: bytes) -> None: ...  # everything else stays
    def newest(self, number: int, incarnation: str) -> tuple[BaseCopy, bytes] | None: ...
    def close(self) -> None: ...


# ---------------------------------------------------------------- making and using


def pack(mirror: Mirror, scratch: Path) -> tuple[BaseCopy, bytes]:
    """The mirror as of its newest commit. Commits and what comes in wait for a moment only."""
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "inbox").mkdir(parents=True)
    try:
        head, changelog = _copy_state(mirror, scratch / "state.db")
        offset = mirror.inbox.copy_to(scratch / "inbox", head)
        packed = _tar(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    facts = BaseCopy(
        mirror.number, mirror.incarnation, head.commits, changelog, offset, len(packed)
    )
    return facts, packed


def pack_folder(folder: Path, number: int, incarnation: str) -> tuple[BaseCopy, bytes]:
    """A partition that begins with this."""
    packed = _tar(folder)
    return BaseCopy(number, incarnation, 0, 0, 0, len(packed)), packed


def _copy_state(mirror: Mirror, path: Path) -> tuple[Head, int]:
    """The head and where the changelog goes on, of the copy itself."""
    with (
        closing(open_existing(mirror.folder / "state.db", read_only=True)) as source,
        explained(path),
        closing(apsw.Connection(str(path))) as copy,
    ):
        with copy.backup("main", source, "main") as backup:
            backup.step(-1)
        head = read_head(copy, path).head
        changelog = copy.execute("SELECT value FROM about WHERE name='changelog'").get
        copy.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return head, int(changelog or 0)


def _tar(folder: Path) -> bytes:
    buffer = io.BytesIO()
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        compressor.stream_writer(buffer, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock", ".queue")):
                archive.add(path, arcname=str(path.relative_to(folder)))
    return buffer.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Into an empty folder."""
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            archive.extractall(folder, filter="data")
    except (zstandard.ZstdError, tarfile.TarError, EOFError) as error:
        raise DamagedData(
            f"{folder}: the base copy cannot be read ({error}): restore the fleet from a snapshot"
        ) from None


# ---------------------------------------------------------------- where they are


class TopicBases:
    """In a topic: parts, then what they are. Only the newest whole one counts."""

    def __init__(
        self,
        settings: KafkaSettings,
        feed: Feed,
        appender: Appender,
        first_of: Callable[[int], int],
        born: str,
    ) -> None:
        """`born` tells this fleet from others that were begun under the same prefix."""
        self._settings = settings
        self._born = born
        self._feed = feed
        self._appender = appender
        self._first_of = first_of

    def _place(self, number: int) -> Place:
        first = self._first_of(number)
        return Place(bases_topic(self._settings.prefix or "", first), number - first)

    def put(self, facts: BaseCopy, packed: bytes) -> None:
        """1 see what is there, 2 add ours, 3 delete what was there if that is older.

        Who stood still for long and was replaced may come with an old one: it deletes nothing.
        """
        place = self._place(facts.number)
        begun = self._feed.end(place)
        newest = self._last(place, begun)
        self.add(facts, packed)
        if newest is not None and newest.commits <= facts.commits:
            self._feed.delete_before(place, begun)

    def _last(self, place: Place, end: int) -> BaseCopy | None:
        """What the last record says, if it ends a base copy, and not one that is being written."""
        for record in read_all(self._settings, self._feed, place, end - 1):
            if header(record.headers(), "whole") is not None:
                return msgspec.json.decode(record.value() or b"", type=BaseCopy)
        return None

    def add(self, facts: BaseCopy, packed: bytes) -> None:
        place = self._place(facts.number)
        # A name of its own: parts of an attempt that was given up half-way are none of it.
        name = f"{facts.commits}-{uuid.uuid4().hex[:12]}"
        for start in range(0, len(packed), PART_BYTES):
            part = packed[start : start + PART_BYTES]
            self._appender.write(*place, part, [("base", name)], PART_SECONDS)
        told = msgspec.json.encode(msgspec.structs.replace(facts, born=self._born))
        self._appender.write(*place, told, [("whole", name)])

    def newest(self, number: int, incarnation: str) -> tuple[BaseCopy, bytes] | None:
        parts: dict[str, list[bytes]] = {}
        found: tuple[BaseCopy, bytes] | None = None
        for record in read_all(self._settings, self._feed, self._place(number)):
            (kind, named), *_ = list(record.headers() or [("", "")])
            name = named.decode() if isinstance(named, bytes) else str(named)
            value = record.value() or b""
            if kind == "base":
                parts.setdefault(name, []).append(value)
            elif kind == "whole":
                facts = msgspec.json.decode(value, type=BaseCopy)
                packed = b"".join(parts.pop(name, []))
                ours = facts.incarnation == incarnation and facts.born in ("", self._born)
                newer = found is None or facts.commits >= found[0].commits
                if ours and newer and len(packed) == facts.size:
                    found = facts, packed
        return found

    def close(self) -> None:
        """The feed and the appender are others'."""


class BlobBases:
    """In a store of objects, under the prefix of the fleet."""

    def __init__(self, settings: KafkaSettings, born: str) -> None:
        self._blob: Blob = open_blob(settings.base or "")
        self._folder = f"{settings.prefix}/{born}"

    def add(self, facts: BaseCopy, packed: bytes) -> None:
        # A name of its own: an attempt that was given up half-way must not be mixed with it.
        name = f"{self._folder}/p{facts.number:03d}/{facts.commits:020d}-{uuid.uuid4().hex[:8]}"
        for part, start in enumerate(range(0, len(packed), OBJECT_BYTES)):
            self._blob.put_if_absent(f"{name}/{part:06d}", packed[start : start + OBJECT_BYTES])
        self._blob.put_if_absent(f"{name}/whole", msgspec.json.encode(facts))

    def put(self, facts: BaseCopy, packed: bytes) -> None:
        self.add(facts, packed)
        for older in self._names(facts.number)[:-2]:  # the one before stays: somebody may read it
            for each in sorted(self._blob.list(older), reverse=True):
                self._blob.delete(each)

    def _names(self, number: int) -> list[str]:
        """Of those that are whole, from old to new."""
        folder = f"{self._folder}/p{number:03d}"
        found = (name for name in self._blob.list(folder) if name.endswith("/whole"))
        return sorted(name.removesuffix("/whole") for name in found)

    def newest(self, number: int, incarnation: str) -> tuple[BaseCopy, bytes] | None:
        names = self._names(number)
        try:
            return self._newest_of(names, incarnation)
        except Missing:
            if names == self._names(number):
                raise
            return self.newest(number, incarnation)  # newer ones took the place of it meanwhile

    def _newest_of(self, names: list[str], incarnation: str) -> tuple[BaseCopy, bytes] | None:
        for name in reversed(names):
            facts = msgspec.json.decode(self._blob.get(f"{name}/whole"), type=BaseCopy)
            if facts.incarnation != incarnation:
                continue
            packed = b"".join(self._parts(name, facts.size))
            if len(packed) == facts.size:
                return facts, packed
        return None

    def _parts(self, name: str, size: int) -> Iterator[bytes]:
        for part in range(-(-size // OBJECT_BYTES)):
            yield self._blob.get(f"{name}/{part:06d}")

    def close(self) -> None:
        self._blob.close()
