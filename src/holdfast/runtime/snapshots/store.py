"""The snapshots of one fleet in a blob store: finding, loading and deleting them.

Objects: `snapshots/NUMBER.NAME` are manifests, `chunks/ab/abcdef…` what they refer to, and
`garbage/…` notes of chunks that nobody refers to any more (retention.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.blob.port import Blob
from holdfast.errors import DamagedData, Missing, UsageError, WrongFleet
from holdfast.runtime.snapshots.manifest import Manifest, check_name, decode, encode


class Listed(NamedTuple):
    number: int
    name: str

    @property
    def object(self) -> str:
        return f"snapshots/{self.number:08d}.{self.name}"


def default_store(root: Path) -> str:
    """Beside the data: against mistakes, not against the loss of the disk."""
    return f"file:{root / 'snapshots'}"


class SnapshotStore:
    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self._read: dict[Listed, Manifest] = {}

    def listed(self) -> list[Listed]:
        """Every snapshot by its number: in the order in which they were made."""
        found = []
        for name in self.blob.list("snapshots"):
            number, dot, rest = name.removeprefix("snapshots/").partition(".")
            if dot and number.isdigit():
                found.append(Listed(int(number), rest))
        return sorted(found)

    def find(self, name: str) -> Listed:
        check_name(name)
        for listed in self.listed():
            if listed.name == name:
                return listed
        raise UsageError(
            f"{self.blob.url}: there is no snapshot {name}: `holdfast snapshot list` has them"
        )

    def load(self, listed: Listed) -> Manifest:
        """Manifests are never changed, so each is read once."""
        if listed not in self._read:
            where = f"{self.blob.url}: snapshot {listed.name}"
            try:
                data = self.blob.get(listed.object)
            except Missing:
                raise UsageError(f"{where}: was deleted a moment ago: take another") from None
            manifest = decode(where, data)
            if (manifest.number, manifest.name) != listed:
                raise DamagedData(f"{where}: damaged (it is the manifest of {manifest.name})")
            self._read[listed] = manifest
        return self._read[listed]

    def newest(self) -> Manifest | None:
        listed = self.listed()
        return self.load(listed[-1]) if listed else None

    def check_fleet(self, manifest: Manifest, fleet: str) -> None:
        if manifest.fleet != fleet:
            raise WrongFleet(
                f"{self.blob.url}: snapshot {manifest.name} is of fleet {manifest.fleet!r}, not "
                f"{fleet!r}: name another place with --to or --snapshots"
            )

    def add(self, manifest: Manifest) -> None:
        """The last step of a snapshot. Refused if one of its name or number was made meanwhile."""
        listed = Listed(manifest.number, manifest.name)
        if not self.blob.put_if_absent(listed.object, encode(manifest)):
            raise self.taken(manifest.name)
        self._read[listed] = manifest

    def taken(self, name: str) -> UsageError:
        return UsageError(
            f"{self.blob.url}: there is a snapshot {name} already: choose another name, or delete "
            f"it with `holdfast snapshot delete {name}`"
        )

    def delete(self, listed: Listed) -> None:
        self.blob.delete(listed.object)
        self._read.pop(listed, None)
