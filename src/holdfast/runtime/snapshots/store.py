"""The snapshots of one fleet in a blob store: finding, loading and deleting them.

Objects: `snapshots/NUMBER.NAME` are manifests, `chunks/ab/abcdef…` what they refer to,
`numbers/NUMBER` the newest numbers given out, and `garbage/…` notes of chunks that nobody refers to
any more (retention.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.blob.port import Blob
from holdfast.engine.urls import parse
from holdfast.errors import DamagedData, Missing, TheirBug, UsageError, WrongFleet
from holdfast.runtime.snapshots.manifest import (
    WAY_OUT,
    Manifest,
    check_name,
    decode,
    encode,
    is_name,
)


class Listed(NamedTuple):
    number: int
    name: str

    @property
    def object(self) -> str:
        return f"snapshots/{self.number:08d}.{self.name}"


def default_store(root: Path) -> str:
    """Beside the data: against mistakes, not against the loss of the disk."""
    return f"file:{root / 'snapshots'}"


def store_of(given: str | None, url: str) -> str:
    """The store that is meant: the one that is given, or that beside the data of an engine URL."""
    if given is not None:
        return given
    wanted = parse(url)
    if wanted.kafka is not None:
        raise UsageError(
            f"{wanted.kafka.place}: there is no folder beside topics: say where snapshots are, "
            "with --snapshots file:PATH or s3://bucket/prefix"
        )
    return default_store(wanted.root)


class SnapshotStore:
    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self._read: dict[Listed, Manifest] = {}

    def listed(self) -> list[Listed]:
        """Every snapshot by its number: in the order in which they were made."""
        found = []
        for name in self.blob.list("snapshots"):
            number, dot, rest = name.removeprefix("snapshots/").partition(".")
            if dot and number.isdigit() and is_name(rest):
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
        found = self.look(listed)
        if found is None:
            where = f"{self.blob.url}: snapshot {listed.name}"
            raise UsageError(f"{where}: was deleted a moment ago: take another")
        return found

    def look(self, listed: Listed) -> Manifest | None:
        """None if it was deleted since it was listed. Never changed, so each is read once."""
        if listed not in self._read:
            where = f"{self.blob.url}: snapshot {listed.name}"
            try:
                data = self.blob.get(listed.object)
            except Missing:
                if listed in self.listed():
                    raise DamagedData(f"{where}: is listed and cannot be read: {WAY_OUT}") from None
                return None
            manifest = decode(where, data)
            if (manifest.number, manifest.name) != listed:
                text = f"{where}: damaged (it is the manifest of {manifest.name}): {WAY_OUT}"
                raise DamagedData(text)
            self._read[listed] = manifest
        return self._read[listed]

    def readable(self) -> Iterator[Manifest]:
        """The oldest first, without those that are damaged, just deleted or of a newer release."""
        for listed in self.listed():
            try:
                found = self.look(listed)
            except TheirBug:
                continue
            if found is not None:
                yield found

    def newest(self) -> Manifest | None:
        return next(self.from_newest(), None)

    def from_newest(self) -> Iterator[Manifest]:
        """Without those that are deleted meanwhile; one that is damaged is an error."""
        return filter(None, map(self.look, reversed(self.listed())))

    def check_fleet(self, manifest: Manifest, fleet: str) -> None:
        if manifest.fleet != fleet:
            raise WrongFleet(
                f"{self.blob.url}: snapshot {manifest.name} is of fleet {manifest.fleet!r}, not "
                f"{fleet!r}: name another place"
            )

    def claim(self) -> int:
        """A number higher than all, that nobody else gets: not now, nor when it was deleted."""
        numbers = [0, *(each.number for each in self.listed()), *self._claimed()]
        number = max(numbers) + 1
        while not self.blob.put_if_absent(f"numbers/{number:08d}", b"given out"):
            number += 1
        return number

    def _claimed(self) -> list[int]:
        names = [name.rpartition("/")[2] for name in self.blob.list("numbers")]
        return [int(name) for name in names if name.isdigit()]

    def forget_claims(self, before: int) -> None:
        """Those that manifests with higher numbers stand for."""
        for number in self._claimed():
            if number < before:
                self.blob.delete(f"numbers/{number:08d}")

    def add(self, manifest: Manifest) -> None:
        """The last step of a snapshot. Refused if one of its name was made meanwhile."""
        listed = Listed(manifest.number, manifest.name)
        if not self.blob.put_if_absent(listed.object, encode(manifest)):
            raise self.taken(manifest.name)
        if any(each.name == listed.name and each != listed for each in self.listed()):
            self.blob.delete(listed.object)
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
