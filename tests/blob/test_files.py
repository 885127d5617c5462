"""Goal: objects in a folder are whole or not there, whoever is killed; trouble gets one line."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.blob import files
from holdfast.blob.files import PARTIAL_SECONDS, FileBlob
from holdfast.errors import AccessDenied, DiskFull, HoldfastError, Missing, Unreachable, UsageError

ROOT = Path(__file__).parents[2]


def leftovers(root: Path) -> list[Path]:
    return list((root / ".partial").iterdir())


@pytest.mark.kill
@pytest.mark.parametrize("point", ["blob.inside", "blob.before", "blob.after"])
def test_a_killed_writer_leaves_whole_objects_or_none(tmp_path: Path, point: str) -> None:
    command = [sys.executable, "-m", "tests.blob.writer", str(tmp_path), point, "2"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -9, done.stderr
    assert done.stdout.split() == ["0", "1"], "acknowledged"
    blob = FileBlob(tmp_path)
    named = ["log/0", "log/1", *(["log/2"] if point == "blob.after" else [])]
    assert list(blob.list()) == named
    for name in named:
        assert blob.get(name) == name[-1].encode() * 1_000_000
    if point != "blob.after":
        with pytest.raises(Missing, match="there is no log/2"):
            blob.get("log/2")
    # Who comes after it can put the object, and what is left over goes when it is old.
    assert blob.put_if_absent("log/2", b"again") is (point != "blob.after")
    assert len(leftovers(tmp_path)) == (point != "blob.after")
    for leftover in leftovers(tmp_path):
        long_ago = time.time() - PARTIAL_SECONDS - 1
        os.utime(leftover, (long_ago, long_ago))
    FileBlob(tmp_path).put_if_absent("log/3", b"x")
    assert leftovers(tmp_path) == []


def test_young_leftovers_are_left_alone(tmp_path: Path) -> None:
    """They may be of a writer that lives."""
    FileBlob(tmp_path).put_if_absent("a", b"x")
    (tmp_path / ".partial" / "1-abc").write_bytes(b"half")
    FileBlob(tmp_path).put_if_absent("b", b"x")
    assert [each.name for each in leftovers(tmp_path)] == ["1-abc"]
    assert list(FileBlob(tmp_path).list()) == ["a", "b"]


def test_a_put_syncs_the_object_then_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data before the name, the name before the answer; also where another has put it."""
    blob = FileBlob(tmp_path)
    blob.put_if_absent("log/0", b"x")
    order: list[str] = []
    sync, link = os.fsync, os.link

    def seen_sync(descriptor: int) -> None:
        order.append(_kind_of(descriptor))
        sync(descriptor)

    def seen_link(old: Path, new: Path) -> None:
        order.append("link")
        link(old, new)

    monkeypatch.setattr(os, "fsync", seen_sync)
    monkeypatch.setattr(os, "link", seen_link)
    assert blob.put_if_absent("log/1", b"y")
    made, order[:] = list(order), []
    assert made[made.index("file") :] == ["file", "link", "log"]
    assert not blob.put_if_absent("log/1", b"y")
    assert order[-1] == "log"


def _kind_of(descriptor: int) -> str:
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return path.name if path.is_dir() else "file"


def test_a_full_disk_gets_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    full = True

    def faults(point: str) -> None:
        if full and point == "blob.inside":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    blob = FileBlob(tmp_path, faults)
    with pytest.raises(DiskFull, match="the disk is full: free some space"):
        blob.put_if_absent("a", b"x")
    assert list(blob.list()) == []
    assert leftovers(tmp_path) == []
    full = False
    assert blob.put_if_absent("a", b"x")


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EACCES, AccessDenied, "no permission"),
        (errno.EROFS, AccessDenied, "no permission"),
        (errno.EDQUOT, DiskFull, "disk is full"),
        (errno.ESTALE, Unreachable, "check the disk or share"),
        (errno.EIO, Unreachable, "check the disk or share"),
    ],
)
def test_what_the_system_refuses_gets_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[HoldfastError],
    words: str,
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(files, "sync_path", refuse)
    with pytest.raises(kind, match=words) as caught:
        FileBlob(tmp_path).put_if_absent("a", b"x")
    assert "\n" not in str(caught.value)


def test_a_file_system_without_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UsageError, match="no hard links"):
        FileBlob(tmp_path).put_if_absent("a", b"x")
    assert list(FileBlob(tmp_path).list()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("x", "utf-8")
    for call in (lambda: FileBlob(place).put_if_absent("a", b"x"), lambda: FileBlob(place).list()):
        with pytest.raises(UsageError, match="a folder is needed"):
            call()
