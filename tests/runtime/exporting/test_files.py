"""Goal: a target of files says in one line what is wrong with it, and nothing in it is overwritten,
doubled or removed that was not written by this export."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import DiskFull, Fleet, InUse, NewerFormat, UsageError, WrongFleet
from holdfast.runtime.exporting.exporter import Exporter
from tests.runtime.exporting.fleets import Drone, Tick, fleet
from tests.runtime.exporting.sinks import Sink, export, exporter, sink_named
from tests.runtime.semantics import World, opened

FILES = ["file", "folder", "parquet"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with opened(fleet, "memory", tmp_path / "world") as world:
        world.live.send_many([(Drone, f"d-{i}", Tick(n=i)) for i in range(9)])
        world.run()
        yield world


@pytest.fixture(params=FILES)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return sink_named(request.param, tmp_path, "")


def test_the_second_export_at_once_is_refused(world: World, files: Sink) -> None:
    with (
        exporter(world.engine, "events", files),
        pytest.raises(InUse, match="another export writes here"),
    ):
        export(world.engine, "events", files)
    assert export(world.engine, "events", files) == 9


def test_a_target_of_another_fleet_is_refused(world: World, files: Sink, tmp_path: Path) -> None:
    export(world.engine, "events", files)
    other = Fleet("lake", agents=[Drone])
    with (
        opened(other, "memory", tmp_path / "other") as elsewhere,
        pytest.raises(WrongFleet, match="fleet 'harbour', not of events of 'lake'"),
    ):
        export(elsewhere.engine, "events", files)
    assert len(files.rows("events")) == 9


def test_a_file_of_another_kind_is_refused(world: World, tmp_path: Path) -> None:
    to = f"ndjson:{tmp_path / 'all'}"
    made = Exporter(world.engine, "events", to)
    made.run()
    made.close()
    with pytest.raises(WrongFleet, match="belongs to an export of events"):
        Exporter(world.engine, "actions", to)
    assert (tmp_path / "all").read_text().count("\n") == 9


def test_a_folder_of_other_files_is_refused(world: World, tmp_path: Path) -> None:
    Exporter(world.engine, "events", f"ndjson:{tmp_path}/").close()
    made = Exporter(world.engine, "events", f"ndjson:{tmp_path}/")
    made.run()
    made.close()
    with pytest.raises(UsageError, match=r"belongs to an export of \.ndjson files"):
        Exporter(world.engine, "events", f"parquet:{tmp_path}")


def test_files_without_a_position_are_refused(world: World, files: Sink, tmp_path: Path) -> None:
    export(world.engine, "events", files)
    for path in (*tmp_path.rglob("_position.json"), *tmp_path.rglob("*.position")):
        path.unlink()
    with pytest.raises(UsageError, match=r"name an empty directory|no events\.ndjson\.position"):
        export(world.engine, "events", files)


def test_a_shortened_file_is_refused(world: World, tmp_path: Path) -> None:
    sink = sink_named("file", tmp_path, "")
    export(world.engine, "events", sink)
    os.truncate(tmp_path / "events.ndjson", 100)
    with pytest.raises(UsageError, match=r"has 100 bytes of the [0-9,]+ exported"):
        export(world.engine, "events", sink)


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b"{", UsageError, "is no position of an export"),
        (b'{"format":9,"fleet":"harbour","kind":"events"}', NewerFormat, "format 9"),
    ],
)
def test_a_position_that_cannot_be_read(
    world: World, files: Sink, tmp_path: Path, content: bytes, error: type[Exception], text: str
) -> None:
    export(world.engine, "events", files)
    for path in (*tmp_path.rglob("_position.json"), *tmp_path.rglob("*.position")):
        path.write_bytes(content)
    with pytest.raises(error, match=text):
        export(world.engine, "events", files)


def test_files_that_somebody_took_away_are_not_missed(world: World, tmp_path: Path) -> None:
    """Whoever loads files into something else removes them: the position stays."""
    sink = sink_named("parquet", tmp_path, "")
    export(world.engine, "events", sink)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    assert export(world.engine, "events", sink) == 0
    world.live.send(Drone, "d-1", Tick(n=1))
    world.run()
    assert export(world.engine, "events", sink) == 1
    assert [row["position"] for row in sink.rows("events")] == [9]


def test_a_name_that_cannot_be_given_is_given_later(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is the commit: from there on the rows are exported, and must not be thrown away
    because the last step failed."""
    sink = sink_named("parquet", tmp_path, "")
    export(world.engine, "actions", sink)
    rename = os.replace

    def failing(source: Path, to: Path) -> None:
        if str(to).endswith(".parquet"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, to)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(UsageError, match="Input/output error"):
            export(world.engine, "events", sink)
    assert export(world.engine, "events", sink) == 0
    assert [row["position"] for row in sink.rows("events")] == list(range(9))


def test_files_of_others_in_the_folder_stay(world: World, tmp_path: Path) -> None:
    sink = sink_named("parquet", tmp_path, "")
    own = tmp_path / "parquet" / "events" / "compacted.parquet"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    export(world.engine, "events", sink)
    with exporter(world.engine, "events", sink) as made:
        made.clear()
    assert [path.name for path in own.parent.glob("*.parquet")] == ["compacted.parquet"]


def test_names_say_partition_and_range(world: World, tmp_path: Path) -> None:
    sink = sink_named("parquet", tmp_path, "")
    export(world.engine, "events", sink)
    export(world.engine, "states", sink)
    names = sorted(str(p.relative_to(tmp_path / "parquet")) for p in tmp_path.rglob("*.parquet"))
    assert names == [
        "events/p000-000000000000+000000000-000000000009+000000000.parquet",
        "states/Drone/p000-000000000000+000000000-000000000009+000000000-000.parquet",
    ]
    position = json.loads((tmp_path / "parquet" / "events" / "_position.json").read_text())
    assert [place[2] for place in position["places"]] == [9]


# ---------------------------------------------------------------- no room, no permission

FULL = """
import resource, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.runtime.exporting.fleets import fleet, Drone, Tick
from tests.runtime.exporting.sinks import export, sink_named
from tests.runtime.semantics import opened
from holdfast import DiskFull
folder = Path({folder!r})
sink = sink_named({name!r}, folder, "")
with opened(fleet, "memory", folder) as world:
    world.live.send_many([(Drone, "d-1", Tick(n=i)) for i in range(3)])
    world.run()
    export(world.engine, "events", sink)
    world.live.send_many([(Drone, "d-1", Tick(n=i, note=str(i * 7919) * 40)) for i in range(3000)])
    world.run()
    # A file may not grow past this: the kernel says EFBIG where a full disk says ENOSPC.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for _ in range(2):
        try:
            export(world.engine, "events", sink)
        except DiskFull as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert len(sink.rows("events")) == 3
    assert export(world.engine, "events", sink) == 3000
    assert [row["position"] for row in sink.rows("events")] == list(range(3003))
"""


@pytest.mark.parametrize("name", FILES)
def test_without_room_nothing_is_half_written_and_it_goes_on_later(
    name: str, tmp_path: Path
) -> None:
    root = str(Path(__file__).parents[3])
    code = FULL.format(root=root, folder=str(tmp_path), name=name)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("no room left (File too large): free some space") == 2


def test_a_full_disk_has_a_line_of_its_own(
    world: World, files: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    export(world.engine, "actions", files)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskFull, match="no room left"):
            export(world.engine, "events", files)
    assert export(world.engine, "events", files) == 9


def test_a_path_that_is_none_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"Not a directory|File exists"):
        Exporter(world.engine, "events", f"parquet:{tmp_path}/file")
    with pytest.raises(UsageError, match="No such file or directory"):
        Exporter(world.engine, "events", f"ndjson:{tmp_path}/nowhere/file")
