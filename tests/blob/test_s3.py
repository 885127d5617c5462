"""Goal: trouble with S3 is ridden out or told in one line; with a real server that is killed."""

import socket
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from holdfast.blob.port import Blob
from holdfast.blob.retrying import Retrying
from holdfast.blob.s3 import S3Blob
from holdfast.blob.urls import bucket_of, open_blob
from holdfast.errors import AccessDenied, HoldfastError, Missing, Unreachable, UsageError
from tests.servers.seaweed import READER, WRITER, Seaweed, running

CALLS: dict[str, Callable[[Blob], object]] = {
    "put": lambda blob: blob.put_if_absent("a", b"x"),
    "get": lambda blob: blob.get("a"),
    "list": lambda blob: list(blob.list()),
    "delete": lambda blob: blob.delete("a"),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def refused(call: Callable[[Blob], object], blob: Blob, kind: type[HoldfastError]) -> str:
    with pytest.raises(kind) as caught:
        call(blob)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@every_call
def test_wrong_keys_are_denied(seaweed: Seaweed, call: Callable[[Blob], object]) -> None:
    for wrong in ({"AWS_ACCESS_KEY_ID": "who"}, {"AWS_SECRET_ACCESS_KEY": "wrong"}):
        blob = open_blob(seaweed.url(), environment={**WRITER, **wrong})
        line = refused(call, blob, AccessDenied)
        assert "access denied" in line
        assert "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they allow" in line


def test_keys_that_may_only_read(seaweed: Seaweed) -> None:
    url = seaweed.url()
    open_blob(url, environment=WRITER).put_if_absent("a", b"x")
    blob = open_blob(url, environment=READER)
    assert blob.get("a") == b"x"
    assert "AccessDenied" in refused(CALLS["put"], blob, AccessDenied)
    refused(CALLS["delete"], blob, AccessDenied)
    assert blob.get("a") == b"x"


@every_call
def test_a_bucket_that_is_not_there(seaweed: Seaweed, call: Callable[[Blob], object]) -> None:
    url = f"s3://nobodys-bucket/x?endpoint=http://127.0.0.1:{seaweed.port}"
    line = refused(call, open_blob(url, environment=WRITER), UsageError)
    assert "there is no bucket nobodys-bucket: make it, or correct the URL" in line


@every_call
def test_nobody_listens(call: Callable[[Blob], object]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"s3://bucket?endpoint=http://127.0.0.1:{port}"
    blob = open_blob(url, environment=WRITER, patience_seconds=0.0)
    assert "cannot be reached (nobody listens there)" in refused(call, blob, Unreachable)


def test_no_machine_of_that_name() -> None:
    url = "s3://bucket?endpoint=http://nowhere.invalid"
    blob = open_blob(url, environment=WRITER, patience_seconds=0.0)
    assert "cannot be reached" in refused(CALLS["get"], blob, Unreachable)


@pytest.fixture
def own_server() -> Iterator[Seaweed]:
    yield from running()


@pytest.mark.kill
def test_a_killed_server_is_waited_for(own_server: Seaweed) -> None:
    """Killed while objects are put: after its return every acknowledged one is whole."""
    url = own_server.url()
    blob = open_blob(url, environment=WRITER, patience_seconds=60.0)
    data = b"0123456789" * 300_000
    put: list[str] = []
    enough, back = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not back.is_set() or number < 30:
            assert blob.put_if_absent(f"log/{number:04d}", data), "nobody else writes here"
            put.append(f"log/{number:04d}")
            number += 1
            if number == 10:
                enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert enough.wait(60)
    own_server.kill()
    impatient = open_blob(url, environment=WRITER, patience_seconds=0.0)
    refused(CALLS["get"], impatient, Unreachable)
    own_server.start()
    back.set()
    writer.join(120)
    assert not writer.is_alive()
    assert len(put) >= 30
    assert list(blob.list("log")) == put
    for name in put:
        assert blob.get(name) == data


class Flaky:
    """Stands in for the library: the answers of some requests are lost, before or after the act."""

    def __init__(self, blob: S3Blob, lost: list[str]) -> None:
        self._library = blob._obstore
        self._lost = lost
        blob._obstore = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        def act(*arguments: object, **options: object) -> object:
            lost = self._lost.pop(0) if self._lost else ""
            trouble = self._library.exceptions.GenericError
            if lost == "before":
                raise trouble("HTTP error: error sending request")
            result = getattr(self._library, name)(*arguments, **options)
            if lost == "after":
                raise trouble("HTTP error: operation timed out")
            return result

        return getattr(self._library, name) if name == "exceptions" else act


def flaky(url: str, lost: list[str], sleeps: list[float]) -> S3Blob:
    retrying = Retrying(sleep=sleeps.append, chance=lambda: 0.5)
    blob = S3Blob(bucket_of(url, WRITER), WRITER, retrying)
    Flaky(blob, lost)
    return blob


def test_a_put_whose_answer_was_lost_is_ours(seaweed: Seaweed) -> None:
    sleeps: list[float] = []
    blob = flaky(seaweed.url(), ["before", "after"], sleeps)
    assert blob.put_if_absent("a", b"mine")
    assert sleeps == [0.1, 0.2]
    assert blob.get("a") == b"mine"


def test_a_put_that_another_won_meanwhile_is_not_ours(seaweed: Seaweed) -> None:
    url = seaweed.url()
    open_blob(url, environment=WRITER).put_if_absent("a", b"theirs")
    blob = flaky(url, ["before"], [])
    assert not blob.put_if_absent("a", b"mine")
    assert blob.get("a") == b"theirs"


def test_refusals_are_not_tried_again(seaweed: Seaweed) -> None:
    sleeps: list[float] = []
    blob = flaky(seaweed.url(), [], sleeps)
    refused(CALLS["get"], blob, Missing)
    assert sleeps == []


def test_patience_ends() -> None:
    now = 0.0
    tries: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def attempt(number: int) -> None:
        tries.append(now)
        raise Unreachable("away")

    retrying = Retrying(10.0, monotonic=lambda: now, sleep=sleep, chance=lambda: 0.5)
    with pytest.raises(Unreachable):
        retrying.run(attempt)
    pauses = [round(after - before, 6) for before, after in pairwise(tries)]
    assert pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert set(pauses[6:]) == {2.0}
    assert tries[-1] <= 10.0
