"""What lies in the archive, and under which names.

    log/<incarnation>/<first>        inbox frames from position `first` on
    journal/<incarnation>/<first>    journal rows from number `first` on
    …/<first>m                       many of those in one, made later
    catalog/<number>                 fleet, layout, incarnations and schemas; the last one counts

Only `first` is in a name: of two who ship from the same position one is refused, however far each
wanted to go, and the refused one goes on behind what is there. So there are no gaps and overlaps.

An object is: magic "HFAR" | version u8 | BLAKE2b of the body, 16 bytes | body: msgpack, by zstd.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeVar

import msgspec
import zstandard

from holdfast.errors import DamagedData, NewerFormat

MAGIC = b"HFAR"
VERSION = 1
DIGEST_BYTES = 16
BODY_BYTES_MAX = 512 * 1024 * 1024  # unpacked: what claims to be larger is not ours
LEVEL = 1  # frames shrink to a third or less; higher levels cost time that the fold needs
_HEAD_BYTES = len(MAGIC) + 1 + DIGEST_BYTES

Kind = Literal["log", "journal"]
B = TypeVar("B", bound=msgspec.Struct)


class Run(msgspec.Struct, array_like=True, frozen=True):
    """A frame of an inbox, or a row of a journal (which has no stamp)."""

    first: int
    count: int
    stamp: float
    frame: bytes

    @property
    def next(self) -> int:
        return self.first + self.count


class Shipment(msgspec.Struct, frozen=True):
    """Runs that follow each other. One without runs says why `first` to `next` are missing."""

    kind: str
    fleet: str
    incarnation: str
    first: int
    next: int
    runs: list[Run]
    shipped: float  # when, by the shipper's clock
    gap: str = ""
    folded: int = 0  # of a log: up to here the archive has all of the journal


class Picture(msgspec.Struct, frozen=True):
    """The catalog of a fleet at one moment."""

    fleet: str
    first: int  # number of the first live partition
    slots: list[tuple[int, int]]  # of the live partitions
    retired: dict[int, tuple[int, int]]
    incarnations: dict[int, str]
    schemas: dict[int, str]  # as JSON


def folder_of(kind: Kind, incarnation: str) -> str:
    return f"{kind}/{incarnation}"


def name_of(kind: Kind, incarnation: str, first: int, *, merged: bool = False) -> str:
    return f"{kind}/{incarnation}/{first:020d}{'m' if merged else ''}"


def first_of(name: str) -> int:
    digits = name.rpartition("/")[2].removesuffix("m")
    if not digits.isdigit():
        raise DamagedData(f"{name}: is not of a log archive: remove it, or use another store")
    return int(digits)


def is_merged(name: str) -> bool:
    return name.endswith("m")


def picture_name(number: int) -> str:
    return f"catalog/{number:08d}"


def encode(body: msgspec.Struct) -> bytes:
    packed = zstandard.ZstdCompressor(level=LEVEL).compress(msgspec.msgpack.encode(body))
    return MAGIC + bytes([VERSION]) + _digest(packed) + packed


def decode(name: str, data: bytes, kind: type[B]) -> B:
    if data[: len(MAGIC)] != MAGIC or len(data) < _HEAD_BYTES:
        raise damaged(name, "it does not begin as one of the archive's objects")
    if data[len(MAGIC)] > VERSION:
        raise NewerFormat(
            f"{name}: format {data[len(MAGIC)]}, this release reads {VERSION}: "
            "install the release of Holdfast that wrote it"
        )
    packed = data[_HEAD_BYTES:]
    if data[len(MAGIC)] < VERSION or _digest(packed) != data[len(MAGIC) + 1 : _HEAD_BYTES]:
        raise damaged(name, "it does not match its checksum")
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= BODY_BYTES_MAX:
            raise damaged(name, f"it says that it has {size:,} bytes")
        return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed), type=kind)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise damaged(name, str(error)) from None


def damaged(name: str, reason: str) -> DamagedData:
    return DamagedData(f"{name}: damaged ({reason}): put back the object from a copy of the store")


def _digest(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=DIGEST_BYTES).digest()
