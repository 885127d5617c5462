"""The demo's directory: an engine's data, and beside it what the audit has to know of the run.

demo.json    the settings from which the script follows, and the kill: when, whom, how long
sent.json    how far the producer has come: numbers attempted and numbers acknowledged
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import msgspec

from holdfast.demo.script import Script
from holdfast.engine.sqlite.locks import HolderLock
from holdfast.errors import DamagedData, UsageError

FORMAT = 1  # grows when the script, the fleet or its rules change: old data has other truths
_KNOWN = re.compile(
    r"demo\.json(\.new)?|sent\.json|fleet\.db(-wal|-shm|\.new.*)?|(holder|create)\.lock|"
    r"metrics|p\d{3,}"
)


class Kill(msgspec.Struct):
    """A worker that was ended with SIGKILL, and how long its partitions stood still."""

    at: float  # seconds after the start
    process: int
    partitions: list[int]
    recovery_seconds: dict[int, float] = {}  # by partition; one that is missing never recovered


class Manifest(msgspec.Struct):
    holdfast_demo: int
    seed: int
    drones: int
    rounds_per_second: float
    workers: int
    kill: Kill | None = None

    def script(self) -> Script:
        return Script(self.seed, self.drones, self.rounds_per_second)


class Sent(msgspec.Struct):
    """Numbers up to `acknowledged` are durable; up to `attempted` they may be."""

    attempted: int = 0
    acknowledged: int = 0


class DemoDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:{path}"

    def begin(self, manifest: Manifest) -> None:
        """An empty directory with this manifest. Data of an earlier demo goes, any other stays."""
        if "?" in str(self.path):
            raise UsageError(f"{self.path}: a ? begins the settings of an engine URL: leave it out")
        if self.path.exists():
            self._clear()
        else:
            self.path.mkdir(parents=True)
        # First of all, so that whatever an interrupted start leaves behind is known as ours.
        self.write(manifest)

    def _clear(self) -> None:
        if not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; name a directory with --data DIR")
        entries = sorted(self.path.iterdir())
        if not entries:
            return
        foreign = [entry.name for entry in entries if not _KNOWN.fullmatch(entry.name)]
        if foreign or not self.recognised():
            reason = f"{foreign[0]} is not of a demo" if foreign else "it holds no demo data"
            raise UsageError(
                f"{self.path}: not removed, because {reason}: name another directory with --data"
            )
        lock = HolderLock(self.path / "holder.lock")
        lock.acquire()  # InUse while another demo runs here
        try:
            for entry in entries:
                if entry.name != "demo.json":
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        finally:
            lock.release()

    def recognised(self) -> bool:
        try:
            self.manifest()
        except (UsageError, DamagedData):
            return False
        return True

    def manifest(self) -> Manifest:
        path = self.path / "demo.json"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"{self.path}: no demo has run here: make one with `holdfast demo --data "
                f"{self.path}`"
            ) from None
        except msgspec.DecodeError as error:
            raise DamagedData(f"{path}: {error}: run the demo again") from None
        if manifest.holdfast_demo != FORMAT:
            raise UsageError(f"{path}: written by another release: run the demo again")
        return manifest

    def write(self, manifest: Manifest) -> None:
        unfinished = self.path / "demo.json.new"
        unfinished.write_bytes(msgspec.json.encode(manifest) + b"\n")
        unfinished.rename(self.path / "demo.json")

    def sent(self) -> Sent:
        path = self.path / "sent.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Sent)
        except FileNotFoundError:
            return Sent()
        except msgspec.DecodeError as error:
            raise DamagedData(f"{path}: {error}: run the demo again") from None


class SentRecord:
    """The producer's note of how far it is: one small write before and after every send."""

    def __init__(self, directory: DemoDirectory) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(directory.path / "sent.json", flags, 0o644)
        self.write(Sent())

    def write(self, sent: Sent) -> None:
        # Padded: every write replaces the one before wholly. It has to outlive the producer,
        # not the machine, so nothing is synced.
        os.pwrite(self._descriptor, msgspec.json.encode(sent).ljust(64), 0)

    def close(self) -> None:
        os.close(self._descriptor)
