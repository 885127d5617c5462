"""Goal: what cannot be taken now is refused with the time to come back, what can be is taken
meanwhile, and when the reason is gone everything goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.port import Granted
from holdfast.engine.urls import open_engine
from holdfast.gateway.settings import Bounds, Settings
from tests.gateway.served import Client, Heard, gateway_on, refused
from tests.gateway.yard import Cart, fleet
from tests.run.speed import patient
from tests.servers.small_disks import SmallDisks

QUICK = Settings(bounds=Bounds(send_seconds=0.3))


def event(key: str, number: int, **more: object) -> dict[str, Any]:
    return {"agent": "Cart", "key": key, "type": "Counted", "data": {"number": number}, **more}


def made(url: str, partitions: int = 2) -> dict[int, str]:
    """The fleet's data, and a key of each partition."""
    with fleet.open(url, partitions=partitions):
        pass
    engine = open_engine(url, None)
    try:
        found: dict[int, str] = {}
        for n in range(100):
            found.setdefault(engine.catalog.layout.partition_of(f"k-{n}"), f"k-{n}")
        return found
    finally:
        engine.close()


def test_a_backlog_is_refused_and_recovers(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}?backlog_events_max=5"
    keys = made(url)
    with gateway_on(url, QUICK) as port:
        client = Client(port)
        heard = [client.events(event(keys[0], n, source="s", seq=n)) for n in range(1, 8)]
        assert [each.status for each in heard] == [200] * 5 + [429] * 2
        problem = refused(heard[-1], 429, "folded")
        assert problem["title"] == "Backlog"
        assert int(heard[-1].headers["retry-after"]) >= 1
        plain = client.events(event(keys[0], 9))
        refused(plain, 429, "folded")
        # Another partition takes what is for it, also of a request that is for both.
        assert client.events(event(keys[1], 1, source="s", seq=1)).status == 200
        both = client.events(
            event(keys[1], 2, source="s", seq=2), event(keys[0], 6, source="s", seq=6)
        )
        assert refused(both, 429, "folded")["stored"] == 1
        repeat = client.events(event(keys[0], 1, source="s", seq=1))
        assert repeat.status in (200, 429)  # a repeat needs no room, and may be told so
        with fleet.open(url) as live:
            live.settle()
            again = [client.events(event(keys[0], n, source="s", seq=n)) for n in (6, 7)]
            assert [each.status for each in again] == [200, 200]
            live.settle()
            assert live.state(Cart, keys[0]).numbers == [1, 2, 3, 4, 5, 6, 7]
            assert live.state(Cart, keys[1]).numbers == [1, 2]


def test_a_partition_that_takes_nothing_does_not_hold_up_another(tmp_path: Path) -> None:
    """A crowd wants into the full one. Who sends to the other is served at once."""
    url = f"sqlite:{tmp_path / 'data'}?backlog_events_max=1"
    keys = made(url)
    settings = Settings(bounds=Bounds(send_seconds=3.0))
    with gateway_on(url, settings) as port:
        client = Client(port)
        assert client.events(event(keys[0], 0)).status == 200
        heard: list[int] = []
        crowd = [
            threading.Thread(target=lambda: heard.append(client.events(event(keys[0], 1)).status))
            for _ in range(60)
        ]
        for each in crowd:
            each.start()
        other = client.events(event(keys[1], 1))
        before = len(heard)
        for each in crowd:
            each.join(120)
        assert set(heard) == {429}
        assert other.status == 200
        assert before < len(crowd) / 2, "it came behind the crowd"


def test_a_rescaling_is_waited_for_or_told(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    keys = made(url)
    with gateway_on(url, QUICK) as port:
        client = Client(port)
        engine = open_engine(url, None)
        try:
            granted = list(engine.assignments(list(engine.catalog.layout.numbers), 10**6))
            claims = [each.claim for each in granted if isinstance(each, Granted)]
            for claim in claims:
                engine.close_intake(claim)
            heard = client.events(event(keys[0], 1, source="s", seq=1))
            assert refused(heard, 503, "rescal")["title"] == "Rescaling"
            assert heard.headers["retry-after"] == "1"
            for claim in claims:
                engine.open_intake(claim)
        finally:
            engine.close()
        assert client.events(event(keys[0], 1, source="s", seq=1)).json()["repeats"] == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, SmallDisks]]:
    disks = SmallDisks(8 * 1024 * 1024)
    disks.mount(tmp_path)
    try:
        yield tmp_path, disks
    finally:
        disks.unmount()


def test_a_full_disk_is_told_and_recovers(small_disk: tuple[Path, SmallDisks]) -> None:
    folder, _ = small_disk
    url = f"sqlite:{folder / 'data'}?disk_reserve_bytes=1000000"
    keys = made(url)
    with gateway_on(url, QUICK) as port:
        client = Client(port)
        assert client.events(event(keys[0], 1, source="s", seq=1)).status == 200
        (folder / "ballast").write_bytes(bytes(6 * 1024 * 1024))
        heard = client.events(event(keys[0], 2, source="s", seq=2))
        assert refused(heard, 503, "")["title"] == "DiskFull"
        assert heard.headers["retry-after"] == "1"
        assert client.get("/agents/Cart").status == 200
        (folder / "ballast").unlink()
        assert client.events(event(keys[0], 2, source="s", seq=2)).status == 200


def test_sources_have_a_bound(tmp_path: Path) -> None:
    """Each Idempotency-Key is a source for ten minutes. Those that are known go on at the bound,
    and devices with a name have another one."""
    url = f"sqlite:{tmp_path / 'data'}?anonymous_sources_max=2"
    made(url, partitions=1)
    with gateway_on(url, QUICK) as port:
        client = Client(port)
        assert client.events(event("k", 1, source="device", seq=1)).status == 200
        heard: list[Heard] = [
            client.events(event("k", n), idempotency_key=f"n{n}") for n in range(4)
        ]
        assert [each.status for each in heard] == [200, 200, 429, 429]
        assert refused(heard[-1], 429, "sources")["title"] == "TooManySources"
        assert "raise anonymous_sources_max" in heard[-1].json()["detail"]
        assert client.events(event("k", 2, source="device", seq=2)).status == 200
        assert client.events(event("k", 1, source="new device", seq=1)).status == 200
        assert client.events(event("k", 0), idempotency_key="n0").json()["repeats"] == 1


def test_an_unanswered_crowd_leaves_room_for_others(tmp_path: Path) -> None:
    """Nobody folds: everybody who asks waits. Past the bound askers are told to come back."""
    url = f"sqlite:{tmp_path / 'data'}"
    made(url)
    with gateway_on(url, QUICK) as port:
        client = Client(port)
        heard: list[Heard] = []
        question = {
            **{"agent": "Cart", "key": "k", "type": "Ask"},
            **{"data": {"question": "x"}, "timeout": min(50.0, patient(3.0))},
        }
        crowd = [
            threading.Thread(target=lambda: heard.append(client.post("/ask", question)))
            for _ in range(70)
        ]
        for each in crowd:
            each.start()
        assert client.events(event("k", 1)).status == 200
        assert client.get("/healthz").status == 200
        for each in crowd:
            each.join(60)
        statuses = [each.status for each in heard]
        assert set(statuses) == {429, 504}
        assert statuses.count(504) >= 40
        late = next(each for each in heard if each.status == 429)
        assert late.headers["retry-after"] == "1"
