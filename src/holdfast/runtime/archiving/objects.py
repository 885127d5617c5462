"""What lies in the archive, and under which names.

    log/<incarnation>/<first>        inbox frames from position `first` on
    journal/<incarnation>/<first>    journal rows from number `first` on
    …/<first>m                       many of those in one, made later
    catalog/<number>                 fleet, layout, incarnations and schemas; the last one counts

Only `first` is in a name: of two who ship from the same position one is refused, however far each
wanted to go, and the refused one goes on behind what is there. So there are no gaps and overlaps.

An object is msgpack under a seal (blob/sealing.py).
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from holdfast.blob.sealing import Seal
from holdfast.errors import DamagedData

# Level 1: frames shrink to a third or less; higher levels cost time that the fold needs.
SEAL = Seal(b"HFAR", 1, 1, "put back the object from a copy of the store")

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
    return SEAL.close(msgspec.msgpack.encode(body))


def decode(name: str, data: bytes, kind: type[B]) -> B:
    try:
        return msgspec.msgpack.decode(SEAL.open(name, data), type=kind)
    except msgspec.MsgspecError as error:
        raise SEAL.damaged(name, str(error)) from None
