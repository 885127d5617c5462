"""Conformance: what every store of objects has to do, as one class of tests.

    class TestMyStore(BlobConformance):
        def make_blob(self):
            return MyStore(...)

Every call of `make_blob` within a test gives another handle on the same, at first empty, place.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import pytest

from holdfast.blob.port import NAME_BYTES_MAX, OBJECT_BYTES_MAX, Blob
from holdfast.errors import Missing, UsageError
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import together

PAGE = 1_000  # what S3 lists with one answer


class BlobConformance:
    """Every sentence of the blob port, as a test."""

    many = PAGE + 50

    @abstractmethod
    def make_blob(self) -> Blob: ...

    # One object.

    @promise("`get` gives the bytes that were put", "whole objects under names")
    @pytest.mark.parametrize("size", [0, 1, 1_000, 5 * 1024 * 1024 + 1])
    def test_what_was_put_can_be_got(self, size: int) -> None:
        data = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert self.make_blob().put_if_absent("chunks/ab/abc", data)
        assert self.make_blob().get("chunks/ab/abc") == data

    @promise("raises Missing where there are none")
    def test_what_was_not_put_is_missing(self) -> None:
        blob = self.make_blob()
        for name in ("nothing", "chunks/ab/nothing"):
            with pytest.raises(Missing, match=name):
                blob.get(name)
        blob.put_if_absent("folder/object", b"x")
        with pytest.raises(Missing, match="folder"):
            blob.get("folder")

    @promise("written once", "False means: an object of this name is there")
    def test_a_name_is_taken_once(self) -> None:
        blob = self.make_blob()
        assert blob.put_if_absent("a/b", b"first")
        for data in (b"second", b"first", b""):
            assert not blob.put_if_absent("a/b", data)
            assert not self.make_blob().put_if_absent("a/b", data)
        assert blob.get("a/b") == b"first"

    @promise("`delete` is durable", "of a name that is not there it does nothing")
    def test_a_deleted_name_is_free(self) -> None:
        blob = self.make_blob()
        blob.delete("a/b")
        blob.put_if_absent("a/b", b"first")
        blob.put_if_absent("a/c", b"other")
        blob.delete("a/b")
        blob.delete("a/b")
        with pytest.raises(Missing):
            self.make_blob().get("a/b")
        assert list(self.make_blob().list()) == ["a/c"]
        assert blob.put_if_absent("a/b", b"second")
        assert blob.get("a/b") == b"second"

    @pytest.mark.parametrize(
        "name",
        [
            *("", "/a", "a/", "a//b", "../a", "a/./b", ".hidden", "a/.b", "a b", "ä", "a\n"),
            *("a\\b", "a" * (NAME_BYTES_MAX + 1)),
        ],
    )
    def test_what_is_no_name_is_refused(self, name: str) -> None:
        blob = self.make_blob()
        calls: list[Callable[[], object]] = [
            lambda: blob.put_if_absent(name, b"x"),
            lambda: blob.get(name),
            lambda: blob.delete(name),
        ]
        for call in calls:
            with pytest.raises(UsageError, match="cannot be the name of an object"):
                call()

    def test_what_is_too_large_is_refused(self) -> None:
        blob = self.make_blob()
        with pytest.raises(UsageError, match="split it"):
            blob.put_if_absent("large", bytes(OBJECT_BYTES_MAX + 1))
        assert list(blob.list()) == []

    # Several names.

    @promise(
        "`list` gives the names inside a folder",
        "those of the folders in it, sorted by name",
        '"" is everything',
    )
    def test_a_folder_is_listed_by_whole_segments(self) -> None:
        blob = self.make_blob()
        names = ["a-b/c", "a/b", "a/b2/d", "a/b2-1", "a.c", "ab", "log/1", "logs/1", "Z"]
        for name in names:
            blob.put_if_absent(name, b"")
        assert list(blob.list()) == sorted(names)
        assert list(blob.list("")) == sorted(names)
        assert list(blob.list("a")) == ["a/b", "a/b2-1", "a/b2/d"]
        assert list(blob.list("a/")) == list(blob.list("a"))
        assert list(blob.list("a/b2")) == ["a/b2/d"]
        assert list(blob.list("log")) == ["log/1"]
        assert list(blob.list("nothing/here")) == []

    @promise("All that was put before is in it")
    def test_a_long_list_is_whole(self) -> None:
        blob = self.make_blob()
        names = [f"log/{number:06d}" for number in range(self.many)]

        def put(share: list[str]) -> None:
            for name in share:
                blob.put_if_absent(name, b"x")

        together(*(partial(put, names[start::8]) for start in range(8)))
        assert list(self.make_blob().list("log")) == names

    # Several writers.

    @promise("Of several who put under one name at once, one wins", "the others get False")
    def test_one_of_many_writers_wins(self) -> None:
        handles = [self.make_blob() for _ in range(6)]
        for turn in range(10):
            won = _winners(handles, f"race/{turn}")
            assert len(won) == 1, f"{len(won)} of {len(handles)} were told that they put it"
            assert self.make_blob().get(f"race/{turn}") == _bytes_of(won[0])

    @promise("All of it is there or nothing", "Any thread may call at any time")
    def test_nobody_sees_a_part(self) -> None:
        blob = self.make_blob()
        data = b"0123456789abcdef" * 200_000
        seen: set[int] = set()
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(8):
                    assert blob.put_if_absent(f"big/{number}", data)
            finally:
                done.set()

        def read() -> None:
            while not done.is_set():
                for name in blob.list("big"):
                    found = blob.get(name)
                    seen.add(len(found))
                    assert found == data, f"{name} has {len(found)} of {len(data)} bytes"

        together(write, read, read)
        assert list(blob.list("big")) == [f"big/{number}" for number in range(8)]
        assert seen <= {len(data)}


def _bytes_of(writer: int) -> bytes:
    return str(writer).encode() * 100_000


def _winners(handles: list[Blob], name: str) -> list[int]:
    """All write at once, each something else: who was told that it has put the object."""
    won: list[int] = []

    def write(number: int) -> None:
        if handles[number].put_if_absent(name, _bytes_of(number)):
            won.append(number)

    together(*(partial(write, number) for number in range(len(handles))))
    return won
