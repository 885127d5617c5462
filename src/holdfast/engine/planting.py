"""Where captured contents are planted: a new directory, or a prefix of Kafka where no fleet is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import sync_path
from holdfast.engine.sqlite.planting import check_place
from holdfast.engine.urls import parse
from holdfast.errors import UsageError

_SCHEMES = ("sqlite", "kafka", "memory")


class Target(Protocol):
    """A place where nothing is yet. `str` names it, `option` is what a command needs to open it."""

    @property
    def option(self) -> str: ...

    def check(self) -> None:
        """Raises UsageError where something is already."""

    def plant(self, contents: Contents, faults: FaultPoints) -> None:
        """Whole or not at all."""

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A directory that does not exist: what is made there may be brought here with `take`."""

    def take(self, place: Path, faults: FaultPoints) -> None:
        """The data in that directory becomes that of this target, whole or not at all."""


def target_of(text: str | Path) -> Target:
    """An engine URL, or the name of a directory."""
    if isinstance(text, Path):
        return Directory(text)
    scheme, colon, _ = text.partition(":")
    if "://" not in text and not (colon and scheme in _SCHEMES):
        return Directory(Path(text))
    wanted = parse(text)
    if wanted.kafka is not None:
        return Topics(wanted.kafka)
    if wanted.scheme == "memory":
        raise UsageError("memory: is gone with its process: name a directory, or kafka://…/PREFIX")
    return Directory(wanted.root)


class Directory(NamedTuple):
    root: Path

    def __str__(self) -> str:
        return str(self.root)

    @property
    def option(self) -> str:
        return f"--data {self.root}"

    def check(self) -> None:
        check_place(self.root)

    def plant(self, contents: Contents, faults: FaultPoints) -> None:
        SqliteEngine.plant(self.root, contents, faults)

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """Beside it, to be renamed."""
        root = self.root.resolve()
        place = root.with_name(f".{root.name}.restoring")
        shutil.rmtree(place, ignore_errors=True)  # of an attempt that was killed
        try:
            yield place
        except Exception:
            shutil.rmtree(place, ignore_errors=True)
            raise

    def take(self, place: Path, faults: FaultPoints) -> None:
        self.check()
        place.rename(self.root.resolve())
        sync_path(place.parent)


class Topics(NamedTuple):
    settings: KafkaSettings

    def __str__(self) -> str:
        return self.settings.place

    @property
    def option(self) -> str:
        return f"--engine {self.settings.place}"

    def check(self) -> None:
        from holdfast.engine.kafka.opening import check_target  # its library is an extra

        check_target(self.settings)

    def plant(self, contents: Contents, faults: FaultPoints) -> None:
        from holdfast.engine.kafka.opening import plant_on_kafka

        plant_on_kafka(self.settings, contents, faults)

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-restoring-"))
        try:
            yield folder / "data"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take(self, place: Path, faults: FaultPoints) -> None:
        engine = SqliteEngine(place)
        try:
            contents = engine.capture()
            try:
                self.plant(contents, faults)
            finally:
                contents.close()
        finally:
            engine.close()
