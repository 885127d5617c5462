"""The blob port: whole objects under names, written once.

Guaranteed by every adapter:
- `put_if_absent` returns after the object is durable, as durable as the store makes it. All of it
  is there or nothing: nobody sees a part of an object, also after a crash.
- Of several who put under one name at once, one wins; the others get False, and its bytes stay.
- False means: an object of this name is there, and as durable as if this call had written it.
- `get` gives the bytes that were put, and raises Missing where there are none.
- `list` gives the names inside a folder (whole segments: "log" has "log/1", not "logs/1"), and
  those of the folders in it, sorted by name. "" is everything. All that was put before is in it.
- `delete` is durable; of a name that is not there it does nothing.
- What is worth trying again was tried again, for `patience_seconds`, before an error comes out.
- What a killed writer left half done is removed in the end, and was never visible.
- Any thread may call at any time.

Not guaranteed:
- that a put which raised did not happen: put again, and take False for an answer.
- that a name can also be a folder of other names ("a" beside "a/b").
- that `list` shows an object that is put or deleted while it runs.
- that bytes do not rot: whoever stores something adds a checksum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from holdfast.errors import UsageError

OBJECT_BYTES_MAX = 128 * 1024 * 1024  # one request of S3: 60 s at 2.2 MB/s
NAME_BYTES_MAX = 512
PATIENCE_SECONDS = 10.0
_SEGMENT = re.compile(r"[A-Za-z0-9_~=+@,-][A-Za-z0-9._~=+@,-]*")  # no "." first: those are ours


class Blob(Protocol):
    @property
    def url(self) -> str:
        """Where it is, for messages: without keys."""

    def put_if_absent(self, name: str, data: bytes) -> bool: ...
    def get(self, name: str) -> bytes: ...
    def list(self, folder: str = "") -> Iterator[str]: ...
    def delete(self, name: str) -> None: ...
    def close(self) -> None: ...


def check_name(name: str) -> None:
    fits = all(_SEGMENT.fullmatch(segment) for segment in name.split("/"))
    if not fits or len(name) > NAME_BYTES_MAX:
        raise UsageError(
            f"{name[:80]!r} cannot be the name of an object: letters, digits and ._~=+@,- in "
            f'segments with "/" between them, none beginning with a dot, {NAME_BYTES_MAX} in all'
        )


def check_folder(folder: str) -> str:
    folder = folder.removesuffix("/")
    if folder:
        check_name(folder)
    return folder


def check_size(name: str, data: bytes) -> None:
    if len(data) > OBJECT_BYTES_MAX:
        raise UsageError(
            f"{name}: {len(data):,} bytes, an object has at most {OBJECT_BYTES_MAX:,}: split it"
        )
