"""Goal: trouble in one place stays there: one inbox, one partition, one commit, one event."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast import Agent, Busy, Context, DamagedData, Event, Fleet, UsageError, on
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import (
    APPEND_SECONDS,
    Claim,
    Granted,
    Limits,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.locks import Turnstile
from holdfast.model.keys import Layout
from holdfast.runtime import fleet as fleet_module
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.live import Live
from holdfast.runtime.partition import Partition
from holdfast.runtime.worker import IDLE_SECONDS_MAX, Worker
from holdfast.stepping.inputs import Inputs, StoredFrame
from holdfast.testing.conformance.workbench import (
    FLEET,
    HandClock,
    Owner,
    append,
    parcel,
    record,
    refusal,
)


class Poke(Event):
    pass


class Bell(Agent):
    pokes: int = 0

    @on
    def poked(self, event: Poke, ctx: Context) -> None:
        self.pokes += 1
        if ctx.sender is None:
            for key in KEYS:
                ctx.send(Bell, key, Poke())


fleet = Fleet("bells", agents=[Bell])
KEYS = [
    next(f"b-{i}" for i in range(99) if Layout.even(2).partition_of(f"b-{i}") == n) for n in (0, 1)
]


class OneInboxIsHeld(MemoryEngine):
    """Relayed messages to partition 1 find its append lock held."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        if partition == 1:
            raise Busy("somebody holds it")
        return super().append(partition, parcels, wait_seconds)


class Ticking(Agent):
    @on
    def poked(self, event: Poke, ctx: Context) -> None:
        ctx.after(1.0, Poke())
        for _ in range(5):
            ctx.send(Ticking, KEYS[1], Poke())


def test_a_worker_with_a_full_outbox_sleeps_though_a_timer_is_due() -> None:
    """Found by simulation: it turned without a pause until its messages were taken."""
    clock = HandClock()
    ticking = Fleet("ticking", agents=[Ticking])
    engine = OneInboxIsHeld("ticking", 2, Limits(outbox_messages_max=2), clock)
    worker = Worker(ticking, engine, [0], clock)
    Live(ticking, engine).send(Ticking, KEYS[0], Poke())
    while worker.tick():
        pass
    clock.pass_time(2.0)
    assert not worker.tick()
    assert worker.idle_seconds() == IDLE_SECONDS_MAX


def test_an_inbox_that_is_held_stops_neither_the_fold_nor_other_messages() -> None:
    engine = OneInboxIsHeld("bells", 2)
    worker = Worker(fleet, engine, [0])
    live = Live(fleet, engine)
    for count in (1, 2, 3):
        live.send(Bell, KEYS[0], Poke())
        for _ in range(5):
            worker.tick()
        record = engine.view(0).record("Bell", KEYS[0])
        assert record is not None
        assert record.version == 2 * count, "its own event and its own message"
    assert worker.alarms == {0: "somebody holds it"}


def test_a_send_waits_no_longer_for_the_lock_than_it_was_told(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url).close()
    held = Turnstile(tmp_path / "data" / "p000", "append")
    held.acquire(1.0)
    with fleet.connect(url) as live:
        taken = []
        for _ in range(3):  # a machine that stands still does so once
            begin = time.monotonic()
            with pytest.raises(Busy):
                live.send(Bell, "b-1", Poke(), timeout=0.3)
            taken.append(time.monotonic() - begin)
        # Far from the 5 s that an append waits by itself.
        assert min(taken) < APPEND_SECONDS / 2
    held.release()
    held.close()


class Suspicious(MemoryEngine):
    """Grants its partition as after deaths: fold one by one, the first event is condemned."""

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        for change in super().assignments(wanted, generation):
            assert isinstance(change, Granted)
            old = change.claim
            yield Granted(Claim(old.partition, old.epoch, old.incarnation, self.attempts, True))

    attempts = 0


def test_one_by_one_decodes_a_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = Partition._decode

    def counted(self: Partition, stored: StoredFrame) -> Inputs:
        decoded.append(stored.first)
        return decode(self, stored)

    monkeypatch.setattr(Partition, "_decode", counted)
    engine = Suspicious("bells", 1)
    Live(fleet, engine).send_many([(Bell, "b-1", Poke()) for _ in range(50)])
    worker = Worker(fleet, engine, [0])
    for _ in range(50):
        worker.tick()
    assert engine.view(0).head().position >= 50
    assert len(decoded) <= 3, "50 events of one frame"


def test_behind_the_culprit_batches_return() -> None:
    engine = Suspicious("bells", 1)
    engine.attempts = 2
    Live(fleet, engine).send_many([(Bell, "b-1", Poke()) for _ in range(50)])
    worker = Worker(fleet, engine, [0])
    worker.tick()
    assert [letter.position for letter, _ in engine.view(0).letters()] == [0]
    worker.tick()
    assert engine.view(0).head().position >= 50


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    SqliteEngine.create(tmp_path / "data", FLEET, 2)
    made = SqliteEngine(tmp_path / "data")
    yield made
    made.close()


def test_a_commit_that_stands_is_done(engine: SqliteEngine) -> None:
    """It was durable although it raised: its worker repeats it, and must not be called damaged."""
    owner = Owner.of(engine)
    commit = owner.prepare([record("d-1", "kept")])
    engine.commit([(owner.claim, commit)])
    engine.commit([(owner.claim, commit)])
    owner.head = commit.head
    owner.commit([record("d-2", "next")])
    assert [each.key for each in engine.view(0).records()] == ["d-1", "d-2"]


def test_a_compaction_that_meets_damage_does_not_fail_the_commit(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner.of(engine)
    state = engine._states[0]

    def damaged(*arguments: object) -> None:
        raise DamagedData("the base")

    monkeypatch.setattr(type(state), "wants_compaction", True)
    monkeypatch.setattr(state, "compact", damaged)
    owner.commit([record("d-1", "kept")])
    assert engine.view(0).record("Drone", "d-1") is not None


def test_upkeep_of_one_partition_does_not_wait_for_another(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(engine.assignments([0, 1], 1))
    kept: list[int] = []

    def maintain(number: int, claim: Claim, forget: bool) -> None:
        kept.append(number)
        if number == 0:
            raise DamagedData("the first")

    monkeypatch.setattr(engine, "_maintain", maintain)
    with pytest.raises(DamagedData, match="the first"):
        engine.maintain()
    assert kept == [0, 1]


def test_an_ordered_source_numbers_from_one(engine: SqliteEngine) -> None:
    """0 says that nothing came before, so no event can have it."""
    zero = parcel(["a0"], source="up", seqs=[0], keys=["a"], previous=[0])
    assert isinstance(refusal(engine, zero), UsageError)
    append(engine, parcel(["a1"], source="up", seqs=[1], keys=["a"], previous=[0]))


def test_a_handle_that_cannot_be_made_leaves_no_worker_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[int] = []
    stop = Embedded.stop

    def failing(*arguments: object, **more: object) -> None:
        raise Busy("the catalog")

    def counted(self: Embedded) -> None:
        stopped.append(1)
        stop(self)

    monkeypatch.setattr(Embedded, "stop", counted)
    monkeypatch.setattr(fleet_module, "Live", failing)
    with pytest.raises(Busy):
        fleet.open(f"sqlite:{tmp_path / 'other'}")
    assert stopped == [1]


def test_without_a_command_the_help_is_readable() -> None:
    command = [str(Path(sys.executable).parent / "holdfast")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert len(result.stdout.splitlines()) > 10
