"""Goal: the kit for stores stands for every sentence of the port, and notices who breaks one."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.blob import port
from holdfast.blob.port import Blob, check_folder, check_name, check_size
from holdfast.errors import Missing
from holdfast.testing.conformance import BlobConformance
from holdfast.testing.conformance.promises import promises_of
from tests.engine.sentences import astray, sentences_of, unclaimed

ROOT = Path(__file__).parents[2]
# What no kit can see from outside, and where it is shown.
ELSEWHERE = {
    "The blob port": "tests/blob/test_kit.py",
    "returns after the object is durable": "tests/blob/test_files.py",
    "nobody sees a part of an object, also after a crash": "tests/blob/test_files.py",
    "What is worth trying again was tried again": "tests/blob/test_s3.py",
    "What a killed writer left half done": "tests/blob/test_files.py",
    "Where it is, for messages": "tests/blob/test_urls.py",
}
NOT_GUARANTEED = [
    "that a put which raised did not happen: put again, and take False for an answer",
    'that a name can also be a folder of other names ("a" beside "a/b")',
    "that `list` shows an object that is put or deleted while it runs",
    "that bytes do not rot: whoever stores something adds a checksum",
]


_one_at_a_time = threading.Lock()


class Sound:
    """A store in a dictionary; those below have one thing wrong each."""

    url = "memory:"

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def put_if_absent(self, name: str, data: bytes) -> bool:
        check_name(name)
        check_size(name, data)
        with _one_at_a_time:
            if name in self.objects:
                return False
            self.objects[name] = data
            return True

    def get(self, name: str) -> bytes:
        check_name(name)
        if name not in self.objects:
            raise Missing(f"there is no {name}")
        return self.objects[name]

    def list(self, folder: str = "") -> Iterator[str]:
        inside = f"{check_folder(folder)}/".lstrip("/")
        return iter(sorted(name for name in list(self.objects) if name.startswith(inside)))

    def delete(self, name: str) -> None:
        check_name(name)
        self.objects.pop(name, None)

    def close(self) -> None:
        pass


class Overwriting(Sound):
    def put_if_absent(self, name: str, data: bytes) -> bool:
        new = super().put_if_absent(name, data)
        self.objects[name] = data
        return new


class LookingFirst(Sound):
    """Not atomic: between the look and the write others may have written."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if name in self.objects:
            return False
        time.sleep(0.001)  # as a disk takes
        self.objects[name] = data
        return True


class InParts(Sound):
    """Half of an object is there until somebody has looked."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects)
        self._looked = threading.Event()

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if not super().put_if_absent(name, data[: len(data) // 2]):
            return False
        self._looked.wait(60.0)
        self.objects[name] = data
        return True

    def get(self, name: str) -> bytes:
        found = super().get(name)
        self._looked.set()
        return found


class Empty(Sound):
    def get(self, name: str) -> bytes:
        check_name(name)
        return self.objects.get(name, b"")


class Unsorted(Sound):
    def list(self, folder: str = "") -> Iterator[str]:
        return iter(list(super().list(folder))[::-1])


class ByLetters(Sound):
    def list(self, folder: str = "") -> Iterator[str]:
        return iter(sorted(n for n in list(self.objects) if n.startswith(check_folder(folder))))


class FirstPage(Sound):
    def list(self, folder: str = "") -> Iterator[str]:
        return iter(list(super().list(folder))[:1_000])


class Undeleting(Sound):
    def delete(self, name: str) -> None:
        check_name(name)


class Strict(Sound):
    def delete(self, name: str) -> None:
        self.get(name)
        super().delete(name)


class AnyName(Sound):
    def get(self, name: str) -> bytes:
        return self.objects.get(name, b"")


class Kit(BlobConformance):
    def __init__(self, kind: type[Sound]) -> None:
        self.kind = kind
        self.objects: dict[str, bytes] = {}

    def make_blob(self) -> Blob:
        return self.kind(self.objects)


NOTICED: list[tuple[type[Sound], str, tuple[object, ...]]] = [
    (Overwriting, "a_name_is_taken_once", ()),
    (Overwriting, "one_of_many_writers_wins", ()),
    (LookingFirst, "one_of_many_writers_wins", ()),
    (InParts, "nobody_sees_a_part", ()),
    (Empty, "what_was_not_put_is_missing", ()),
    (Unsorted, "a_folder_is_listed_by_whole_segments", ()),
    (ByLetters, "a_folder_is_listed_by_whole_segments", ()),
    (FirstPage, "a_long_list_is_whole", ()),
    (Undeleting, "a_deleted_name_is_free", ()),
    (Strict, "a_deleted_name_is_free", ()),
    (AnyName, "what_is_no_name_is_refused", ("../a",)),
]


@pytest.mark.planted("conformance kit for stores")
@pytest.mark.parametrize(("kind", "test", "arguments"), NOTICED)
def test_a_broken_store_is_noticed(
    kind: type[Sound], test: str, arguments: tuple[object, ...]
) -> None:
    getattr(Kit(Sound), f"test_{test}")(*arguments)
    with pytest.raises((AssertionError, Missing, pytest.fail.Exception)):
        getattr(Kit(kind), f"test_{test}")(*arguments)


def quotes() -> list[str]:
    tests = [getattr(BlobConformance, name) for name in dir(BlobConformance)]
    return [quote for test in tests for quote in promises_of(test)]


def test_every_sentence_is_claimed_by_a_test() -> None:
    found = sentences_of(Path(port.__file__).read_text("utf-8"))
    assert unclaimed(found.promised, [*quotes(), *ELSEWHERE]) == []
    assert astray(found.promised, [*quotes(), *ELSEWHERE]) == []
    assert found.not_promised == NOT_GUARANTEED
    for place in ELSEWHERE.values():
        assert "def test_" in (ROOT / place).read_text("utf-8")
