"""Goal: requests that go to the disk together share a transaction and nothing else: each gets its
own answer, and no convoy grows past its bounds."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from holdfast.gateway import convoy
from holdfast.gateway.convoy import CONVOYS_MAX, Convoys
from holdfast.gateway.problems import Problem
from holdfast.gateway.sending import Post, Taker
from holdfast.gateway.settings import Bounds
from holdfast.runtime.untyped import connect_untyped
from tests.gateway.served import Served
from tests.gateway.test_events import event
from tests.gateway.yard import Cart


class Bale(NamedTuple):
    body: bytes


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CONVOYS_MAX) as found:
        yield found


class Road:
    """Convoys stand still until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.seen: list[list[bytes]] = []

    def carry(self, loads: Sequence[Bale]) -> list[bytes | Exception]:
        assert self.open.wait(120)
        self.seen.append([load.body for load in loads])
        return [ValueError("spoilt") if load.body == b"bad" else load.body for load in loads]


async def sent(road: Road, threads: ThreadPoolExecutor, bodies: Sequence[bytes]) -> list[object]:
    convoys: Convoys[Bale, bytes] = Convoys(road.carry, threads)
    tasks = [asyncio.create_task(convoys.send(Bale(body))) for body in bodies]
    await asyncio.sleep(0)  # all of them have come before any is carried
    road.open.set()
    return list(await asyncio.gather(*tasks, return_exceptions=True))


def test_what_waits_goes_together_and_each_gets_its_own_answer(threads: ThreadPoolExecutor) -> None:
    road = Road()
    bodies = [b"first", b"second", *[b"%d" % n for n in range(50)], b"bad", b"last"]
    answers = asyncio.run(sent(road, threads, bodies))
    assert [each for each in answers if isinstance(each, bytes)] == [
        body for body in bodies if body != b"bad"
    ]
    assert str(answers[bodies.index(b"bad")]) == "spoilt"
    assert sorted(map(len, road.seen)) == [1, 1, 52]


def test_a_convoy_has_bounds(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convoy, "REQUESTS_MAX", 3)
    monkeypatch.setattr(convoy, "BYTES_MAX", 10)
    road = Road()
    asyncio.run(sent(road, threads, [b"a", b"b", *[b"c"] * 4, b"x" * 9, b"y" * 2, b"z" * 99]))
    assert sorted(road.seen) == sorted(
        [[b"a"], [b"b"], [b"c"] * 3, [b"c", b"x" * 9], [b"y" * 2], [b"z" * 99]]
    )


def test_too_many_who_wait_are_refused(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convoy, "WAITING_MAX", 5)
    answers = asyncio.run(sent(Road(), threads, [b"x"] * (CONVOYS_MAX + 5 + 1)))
    *taken, refused = answers
    assert taken == [b"x"] * (CONVOYS_MAX + 5)
    assert isinstance(refused, Problem)
    assert refused.status == 429


def test_a_bad_request_spoils_no_other_of_its_convoy(yard: Served) -> None:
    def post(*rows: object) -> Post:
        return Post(json.dumps(rows).encode(), "application/json", {}, "somebody", time.monotonic())

    with connect_untyped(yard.url) as live:
        taker = Taker(live, Bounds())
        answers = taker.take_all(
            [
                post(event("convoy", "Counted", {"number": 1}, source="convoy", seq=1)),
                post(event("convoy", "Nothing", {}, source="convoy", seq=2)),
                Post(b"{", "application/json", {}, "somebody", time.monotonic()),
                post(event("convoy", "Counted", {"number": 3}, source="convoy", seq=3)),
                post(event("convoy", "Counted", {"number": 1}, source="convoy", seq=1)),
                post(event("a/b", source="convoy", seq=4)),
            ]
        )
    told = [each["repeats"] if isinstance(each, dict) else type(each).__name__ for each in answers]
    assert told == [0, "UsageError", "Problem", 0, 1, "UsageError"]
    yard.live.settle()
    assert [entry.seq for entry in yard.live.history(Cart, "convoy")] == [1, 3]
