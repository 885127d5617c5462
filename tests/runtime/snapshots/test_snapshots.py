"""Goal: a snapshot of a working fleet, restored elsewhere, is that fleet at one moment: it goes on
there with nothing lost and nothing doubled, whatever was on the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast import Live, UsageError
from holdfast.runtime.checkup import Checkup
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.restoring import restore, verify
from tests.runtime.semantics import until
from tests.runtime.snapshots.convoy import (
    KEYS,
    Break,
    Load,
    Remind,
    Truck,
    create,
    fleet,
    picture,
    store_at,
    tokens,
)


def rich(live: Live) -> None:
    """Dead letters (one redriven), a paused agent that holds events, a timer, ordered sources."""
    live.send_many([(Truck, key, Load(tokens=3)) for key in KEYS], source="depot", first_seq=1)
    live.send(Truck, "t-1", Break())
    live.send(Truck, "t-2", Break())
    live.settle()
    live.redrive(live.dead_letters()[0].id)
    live.settle()
    live.send(Truck, "t-3", Remind(seconds=3600.0), source="bells", seq=1, previous=0)
    live.pause(Truck, "t-4", "inspection")
    live.send(Truck, "t-4", Load(tokens=5))
    live.settle()


@pytest.fixture
def at_rest(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    with fleet.open(f"sqlite:{data}", partitions=3) as live:
        rich(live)
    return data


def test_what_is_restored_is_what_was_captured(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    restore(store, "here", tmp_path / "there")
    assert picture(tmp_path / "there") == picture(at_rest)


def test_a_restored_fleet_goes_on(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    restore(store, "here", tmp_path / "there")
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        before = tokens(live)
        live.send_many([(Truck, key, Load(tokens=3)) for key in KEYS], source="depot", first_seq=1)
        live.settle()
        assert tokens(live) == before  # all of them repeats
        assert [letter.redriven for letter in live.dead_letters()].count(True) == 1
        assert [paused.reason for paused in live.paused()] == ["inspection"]
        live.resume(Truck, "t-4")
        live.settle()
        assert tokens(live) == before + 5  # the event it held
        live.send(Truck, "t-3", Remind(seconds=0.01), source="bells", seq=2, previous=1)
        until(lambda: live.state(Truck, "t-3").rings == 1, "the timer rings")


def test_timers_of_a_restored_fleet_ring(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        live.send(Truck, "t-1", Remind(seconds=0.3))
        live.settle()
        create(tmp_path / "data", store, "set")
    restore(store, "set", tmp_path / "there")
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        until(lambda: live.state(Truck, "t-1").rings == 1, "the timer rings")


def test_history_begins_at_the_snapshot_and_cursors_stay_good(
    at_rest: Path, tmp_path: Path
) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    with fleet.connect(f"sqlite:{at_rest}") as live:
        page = live.actions()
        assert len(page) >= len(KEYS)
        assert live.history(Truck, "t-1") != []
    restore(store, "here", tmp_path / "there")
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        assert live.history(Truck, "t-1") == []
        assert live.actions() == []
        live.send(Truck, "t-1", Load(tokens=1))
        live.settle()
        assert next(entry.event for entry in live.history(Truck, "t-1")) == Load(tokens=1)
        later = live.actions(after=page.cursor)
        assert [(action.agent, action.key) for action in later] == [("Truck", "t-1")]


def test_under_traffic_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Tokens wander between partitions while snapshots are taken; each one is restored."""
    store, data = store_at(tmp_path), tmp_path / "data"
    sent: list[str] = []  # the key of each number
    over = threading.Event()
    with fleet.open(f"sqlite:{data}", partitions=3) as live:

        def produce() -> None:
            while not over.is_set():
                keys = KEYS[len(sent) % 7 :: 7]
                rows = [(Truck, key, Load(tokens=1)) for key in keys]
                live.send_many(rows, source="depot", first_seq=len(sent))
                sent.extend(keys)

        producer = threading.Thread(target=produce)
        producer.start()
        taken: list[tuple[str, int]] = []
        for number in range(4):
            acknowledged = len(sent)
            taken.append((create(data, store, f"cut-{number}").manifest.name, acknowledged))
        over.set()
        producer.join()
    for name, acknowledged in taken:
        restore(store, name, tmp_path / name)
        with fleet.open(f"sqlite:{tmp_path / name}") as live:
            live.settle()
            there = tokens(live)
            assert acknowledged <= there <= len(sent)
            assert sum(truck.loads for _, truck in live.states(Truck)) == there
            again = [(Truck, key, Load(tokens=1)) for key in sent[:acknowledged][-1000:]]
            live.send_many(again, source="depot", first_seq=max(0, acknowledged - 1000))
            live.settle()
            assert tokens(live) == there  # a resend of what was acknowledged is a repeat


def test_restored_into_another_number_of_partitions(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    there = tmp_path / "there"
    restore(store, "here", there)
    rescale(fleet, f"sqlite:{there}", 5)
    create(there, store, "five")
    restore(store, "five", tmp_path / "again")
    with fleet.open(f"sqlite:{at_rest}") as one, fleet.open(f"sqlite:{tmp_path / 'again'}") as two:
        assert len(two.positions()) == 5
        assert dict(two.states(Truck)) == dict(one.states(Truck))
        assert two.actions() == []  # walks through the retired partitions too


def test_a_restored_directory_is_healthy(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    there = tmp_path / "there"
    restore(store, "here", there)
    findings = Checkup(f"sqlite:{there}").findings()
    assert [finding for finding in findings if finding.level == "bad"] == []


def test_verify_counts_what_is_there(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    made = create(at_rest, store, "here")
    found = verify(store, "here", "convoy")
    assert found.agents == len(KEYS)
    assert found.chunks == made.chunks
    assert found.bytes == made.bytes


def test_names_are_taken_once(at_rest: Path, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(at_rest, store, "here")
    with pytest.raises(UsageError, match="already"):
        create(at_rest, store, "here")
    with pytest.raises(UsageError, match="given by Holdfast"):
        create(at_rest, store, "auto-1")
    with pytest.raises(UsageError, match="cannot name"):
        create(at_rest, store, "../there")
