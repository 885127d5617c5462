"""What an engine behind a gateway says on the line, as msgpack. The gateway answers it.

`GET /engine` tells of the fleet. `POST /engine/PARTITION/append` takes parcels and gives a result
for each. `POST /engine/PARTITION/METHOD` asks a `View`; the answer is a run of replies, each behind
its length, of which the last is not MORE.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from holdfast.engine.admission import Picked
from holdfast.engine.port import Parcel
from holdfast.errors import UsageError
from holdfast.stepping.frame import Frame

MEDIA = "application/vnd.holdfast.engine"
LENGTH = struct.Struct(">I")
APPEND_BYTES_MAX = 80 * 1024 * 1024  # a frame may have 64 MiB
FRAMES_BYTES = 8 * 1024 * 1024  # of parcels in one request, unless one alone is larger


class Told(msgspec.Struct, frozen=True):
    """Of the fleet: what its catalog says."""

    fleet: str
    first: int  # number of the first partition that lives
    slots: list[tuple[int, int]]
    retired: dict[int, tuple[int, int]]
    schemas: dict[int, dict[str, object]]
    limits: dict[str, int | float]
    capabilities: dict[str, bool]


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """A parcel. Numbers are a run from `first`, or those of it whose flag is 1, or all of them."""

    frame: bytes
    source: str | None
    first: int = 0
    flags: bytes | None = None
    numbers: list[int] | None = None

    def parcel(self) -> Parcel:
        frame = Frame.decode(self.frame)
        seqs: range | Sequence[int] = range(0)
        if self.source is not None:
            if self.numbers is not None:
                seqs = self.numbers
            elif self.flags is not None:
                if self.flags.count(1) + self.flags.count(0) != len(self.flags):
                    raise UsageError("flags of numbers that are neither 0 nor 1")
                seqs = Picked(self.first, self.flags)
            else:
                seqs = range(self.first, self.first + frame.count)
        external = frame.constant("origin") == "external"
        return Parcel(frame, self.frame, self.source, seqs, external=external)


def packed(parcel: Parcel) -> Packed:
    if parcel.mark is not None:
        raise UsageError("messages between agents do not go through a gateway")
    seqs = parcel.seqs
    if isinstance(seqs, Picked):
        return Packed(parcel.encoded, parcel.source, seqs.first, seqs.flags)
    if isinstance(seqs, range) and seqs.step == 1:
        return Packed(parcel.encoded, parcel.source, seqs.start)
    return Packed(parcel.encoded, parcel.source, numbers=list(seqs))


class Result(msgspec.Struct, array_like=True, frozen=True):
    """Of a parcel: where it went, or the class and the text of a refusal."""

    next: int = 0
    new: int = 0
    stamp: float = 0.0
    error: str = ""
    text: str = ""
    urgent: int = 0  # of a parcel that is so in part


pack = msgspec.msgpack.Encoder().encode
unpack_told = msgspec.msgpack.Decoder(Told).decode
unpack_parcels = msgspec.msgpack.Decoder(list[Packed]).decode
unpack_results = msgspec.msgpack.Decoder(list[Result]).decode
