"""Objects that say what they are, so that a newer format is told from damage.

magic, 4 bytes | version u8 | BLAKE2b of the rest, 16 bytes | the rest: a body, by zstd
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import zstandard

from holdfast.errors import DamagedData, NewerFormat

DIGEST_BYTES = 16
BODY_BYTES_MAX = 512 * 1024 * 1024  # unpacked: what claims to be larger is not ours


class Seal(NamedTuple):
    """One kind of objects."""

    magic: bytes
    version: int
    level: int  # of compression
    way_out: str  # for whoever has a damaged one

    def close(self, body: bytes) -> bytes:
        packed = pack(body, self.level)
        return self.magic + bytes([self.version]) + digest_of(packed) + packed

    def open(self, name: str, data: bytes) -> bytes:
        head = len(self.magic) + 1 + DIGEST_BYTES
        if not data.startswith(self.magic) or len(data) < head:
            raise self.damaged(name, "it does not begin as such an object does")
        version, packed = data[len(self.magic)], data[head:]
        digest = data[head - DIGEST_BYTES : head]
        if version > self.version:
            raise NewerFormat(
                f"{name}: format {version}, this release reads {self.version}: "
                "install the release of Holdfast that wrote it"
            )
        if not version or digest_of(packed) != digest:
            raise self.damaged(name, "it has a wrong checksum")
        try:
            return unpack(packed, BODY_BYTES_MAX)
        except ValueError as error:
            raise self.damaged(name, str(error)) from None

    def damaged(self, name: str, reason: str) -> DamagedData:
        return DamagedData(f"{name}: damaged ({reason}): {self.way_out}")


def pack(body: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level).compress(body)


def unpack(packed: bytes, most: int) -> bytes:
    """ValueError if it is not what `pack` makes, or larger than `most` bytes."""
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= most:
            raise ValueError(f"it says that it has {size:,} bytes")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def digest_of(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
