"""A disk as a power loss may find it: what a sync made certain, and the changes made since.

A file is its durable bytes and the writes and cuts since its last sync. A folder is its durable
entries and the changes of names since its own last sync: a synced file in an unsynced folder may
have no name yet. Of the changes that are not durable any subset may survive, in their order, so a
later one may be there without an earlier one. A surviving write may be torn, or may have made the
file longer without its bytes having come.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

SECTOR = 512


class Write(NamedTuple):
    path: str
    offset: int
    data: bytes


class Cut(NamedTuple):
    path: str
    size: int


class Make(NamedTuple):
    path: str
    folder: bool


class Rename(NamedTuple):
    path: str
    to: str


class Unlink(NamedTuple):
    path: str


class Sync(NamedTuple):
    """Of a file, or of the names in a folder."""

    path: str


Operation = Write | Cut | Make | Rename | Unlink | Sync

# What becomes of a change that is not durable. A number above zero: so many bytes of a write.
LOST, WHOLE, ZEROS = 0, -1, -2


@dataclass(eq=False)
class File:
    durable: bytes = b""
    changes: list[Write | Cut] = field(default_factory=list)
    _seen: dict[tuple[int, ...], tuple[bytes, bytes]] = field(default_factory=dict)

    def change(self, change: Write | Cut) -> None:
        self.changes.append(change)
        self._seen.clear()

    def sync(self) -> None:
        self.durable = self.survives((WHOLE,) * len(self.changes))[0]
        self.changes.clear()
        self._seen.clear()

    def survives(self, fates: tuple[int, ...]) -> tuple[bytes, bytes]:
        """The bytes that are left, and their digest."""
        found = self._seen.get(fates)
        if found is None:
            content = bytearray(self.durable)
            for change, fate in zip(self.changes, fates, strict=True):
                if fate != LOST:
                    _put(content, change, fate)
            left = bytes(content)
            found = self._seen[fates] = (left, hashlib.blake2b(left, digest_size=12).digest())
        return found


def _put(content: bytearray, change: Write | Cut, fate: int) -> None:
    if isinstance(change, Cut):
        if fate == WHOLE:
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        return
    end = change.offset + len(change.data)
    if fate == ZEROS:
        content.extend(bytes(max(0, end - len(content))))
        return
    data = change.data if fate == WHOLE else change.data[:fate]
    content.extend(bytes(max(0, change.offset + len(data) - len(content))))
    content[change.offset : change.offset + len(data)] = data


@dataclass(eq=False)
class Folder:
    """A change of names is a mapping, so that a rename is one change: all of it or nothing."""

    durable: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[dict[str, File | Folder | None]] = field(default_factory=list)
    now: dict[str, File | Folder] = field(default_factory=dict)

    def change(self, change: dict[str, File | Folder | None]) -> None:
        self.changes.append(change)
        _rename(self.now, change)

    def sync(self) -> None:
        self.durable = dict(self.now)
        self.changes.clear()

    def survives(self, fates: tuple[int, ...]) -> dict[str, File | Folder]:
        entries = dict(self.durable)
        for change, fate in zip(self.changes, fates, strict=True):
            if fate != LOST:
                _rename(entries, change)
        return entries


def _rename(entries: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


Fates = dict[File | Folder, tuple[int, ...]]


class Image(NamedTuple):
    """What is on a disk: the bytes of each file, None for a folder; and a digest of each."""

    entries: dict[str, bytes | None]
    digests: dict[str, bytes]

    def digest(self, under: str = "") -> bytes:
        parts = [path.encode() + b"\0" + self.digests[path] for path in self._under(under)]
        return hashlib.blake2b(b"".join(parts), digest_size=12).digest()

    def _under(self, place: str) -> list[str]:
        """Without locks: nothing is read from those."""
        inside = [path for path in self.digests if path.startswith(place)]
        return [path for path in inside if not path.endswith((".lock", ".queue"))]

    def write(self, place: Path) -> None:
        for path, content in self.entries.items():
            if content is None:
                (place / path).mkdir()
            else:
                (place / path).write_bytes(content)


class Disk:
    def __init__(self) -> None:
        self.root = Folder()

    def copy(self) -> Disk:
        return copy.deepcopy(self)

    def apply(self, operation: Operation) -> None:
        match operation:
            case Write() | Cut():
                node = self._node(operation.path)
                assert isinstance(node, File)
                node.change(operation)
            case Make():
                parent, name = self._parent(operation.path)
                parent.change({name: Folder() if operation.folder else File()})
            case Rename():
                parent, name = self._parent(operation.path)
                target, new_name = self._parent(operation.to)
                assert target is parent, "a move between folders is two changes: not modelled"
                parent.change({name: None, new_name: parent.now[name]})
            case Unlink():
                parent, name = self._parent(operation.path)
                parent.change({name: None})
            case Sync():
                self._node(operation.path).sync()

    def _node(self, path: str) -> File | Folder:
        node: File | Folder = self.root
        for part in PurePosixPath(path).parts:
            assert isinstance(node, Folder)
            node = node.now[part]
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent = self._node(str(PurePosixPath(path).parent))
        assert isinstance(parent, Folder)
        return parent, PurePosixPath(path).name

    def is_folder(self, path: str) -> bool:
        return isinstance(self._node(path), Folder)

    def uncertain(self) -> list[File | Folder]:
        """Everything a power loss may find changed or not, in an order that does not vary."""
        found: list[File | Folder] = []

        def visit(folder: Folder) -> None:
            if folder.changes:
                found.append(folder)
            for node in dict.fromkeys(_reachable(folder)):
                if isinstance(node, Folder):
                    visit(node)
                elif node.changes and node not in found:
                    found.append(node)

        visit(self.root)
        return found

    def image(self, fates: Fates) -> Image:
        """The disk after a power loss with these fates; what has none of its own survives whole."""
        image = Image({}, {})
        for path, node in _walk(self.root, "", fates):
            if isinstance(node, Folder):
                image.entries[path], image.digests[path] = None, b""
            else:
                survived = node.survives(fates.get(node, (WHOLE,) * len(node.changes)))
                image.entries[path], image.digests[path] = survived
        return image


def _reachable(folder: Folder) -> Iterator[File | Folder]:
    yield from folder.durable.values()
    for change in folder.changes:
        yield from (node for node in change.values() if node is not None)


def _walk(folder: Folder, path: str, fates: Fates) -> Iterator[tuple[str, File | Folder]]:
    entries = folder.survives(fates.get(folder, (WHOLE,) * len(folder.changes)))
    for name in sorted(entries):
        node = entries[name]
        yield f"{path}{name}", node
        if isinstance(node, Folder):
            yield from _walk(node, f"{path}{name}/", fates)
