"""Goal: machines come and go while events flow: nothing is lost or doubled, only partitions that
move pause, and `lag` says for how long each of them did."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.lagging import Lag, as_metrics, lags
from tests.kafka.drones import Drone, Note, fleet
from tests.kafka.ledger import Claim, Reader
from tests.kafka.test_unchanged import holdfast
from tests.kills.harness import key_in, wait_until
from tests.run.speed import patient

PARTITIONS = 4
KEYS = [key_in(number, PARTITIONS) for number in range(PARTITIONS)]
MOVE_SECONDS = patient(30.0)
Record = Callable[[str, object], None]


def claims(bootstrap: str, prefix: str) -> list[int]:
    """How often each partition was claimed, by its changelog."""
    changelogs = Reader(bootstrap, PARTITIONS, prefix).read().changelogs
    return [sum(isinstance(e, Claim) for e in changelogs[n]) for n in range(PARTITIONS)]


@contextmanager
def events_flow(live: Live) -> Iterator[dict[str, list[str]]]:
    """A note to an agent of each partition, again and again. Yields what was sent, per agent."""
    sent: dict[str, list[str]] = {key: [] for key in KEYS}
    over = threading.Event()

    def send(key: str) -> None:
        while not over.is_set():
            sent[key].append(str(len(sent[key])))
            live.send(Drone, key, Note(text=sent[key][-1]), timeout=30.0)
            over.wait(0.01)  # all the others need the machine too

    senders = [threading.Thread(target=send, args=(key,)) for key in KEYS]
    for each in senders:
        each.start()
    try:
        yield sent
    finally:
        over.set()
        for each in senders:
            each.join()


def flows_on(sent: dict[str, list[str]]) -> None:
    seen = {key: len(texts) for key, texts in sent.items()}
    wait_until(lambda: all(len(sent[k]) > seen[k] + 20 for k in sent), 60.0, "events flow")


def here(url: str) -> set[int]:
    """The partitions whose owner is on the machine with this cache."""
    engine = open_engine(url, None)
    try:
        return {n for n in engine.catalog.layout.numbers if engine.folds_here(n)}
    finally:
        engine.close()


def wait_until_here(url: str, count: int) -> set[int]:
    """A handle that was just opened may not have heard of all owners yet."""
    found: set[int] = set()

    def look() -> bool:
        time.sleep(0.1)  # each look opens an engine
        found.clear()
        found.update(here(url))
        return len(found) == count

    wait_until(look, MOVE_SECONDS, f"{count} partitions are at {url}")
    return found


def looked_at(url: str) -> list[Lag]:
    engine = open_engine(url, None)
    try:
        return lags(engine)
    finally:
        engine.close()


def notes(live: Live, key: str) -> list[str]:
    return [each.event.text for each in live.history(Drone, key) if isinstance(each.event, Note)]


@pytest.mark.slow
@pytest.mark.parametrize("standby", ["no", "yes"])
def test_only_what_moves_pauses(
    kafka: str, tmp_path: Path, standby: str, record_property: Record
) -> None:
    prefix = f"scaling-{uuid.uuid4().hex[:8]}"
    url = f"kafka://{kafka}/{prefix}?cache={tmp_path}"
    with fleet.open(f"{url}/north", partitions=PARTITIONS) as north:
        wait_until_here(f"{url}/north", PARTITIONS)
        with events_flow(north) as sent:
            flows_on(sent)
            assert claims(kafka, prefix) == [1] * PARTITIONS
            with fleet.open(f"{url}/south&standby={standby}"):
                moved = wait_until_here(f"{url}/south", PARTITIONS // 2)
                flows_on(sent)
                assert claims(kafka, prefix) == [1 + (n in moved) for n in range(PARTITIONS)]
                out = {lag.partition: lag.paused_seconds for lag in looked_at(f"{url}/third")}
            wait_until_here(f"{url}/north", PARTITIONS)
            flows_on(sent)
            assert claims(kafka, prefix) == [1 + 2 * (n in moved) for n in range(PARTITIONS)]
        north.settle(timeout=60.0)
        found = looked_at(f"{url}/third")
        lines = holdfast("lag", "--json", "--engine", url).splitlines()
        assert {key: notes(north, key) for key in KEYS} == sent
    back = {lag.partition: lag.paused_seconds for lag in found}
    record_property("pauses", f"out {out}, in {back}")
    for pauses in (out, back):
        assert {n for n, seconds in pauses.items() if seconds} <= moved, "0 where nothing waited"
    assert any(out.values()) or any(back.values())
    told = [json.loads(line) for line in lines]
    assert {each["partition"]: each["paused_seconds"] for each in told} == back
    gauge = f'holdfast_handover_pause_seconds{{fleet="delivery",partition="{min(moved)}"}} '
    assert gauge + str(back[min(moved)]) in as_metrics("delivery", found)
