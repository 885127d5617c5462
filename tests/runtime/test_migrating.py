"""Goal: a migration touches the form of states and nothing else, in as many commits as it takes,
and one that was cut short is finished by the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, Live, SchemaError, on
from holdfast.engine.port import Claim
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime import migrating
from holdfast.runtime.migrating import Migrated, migrate
from holdfast.stepping.commit import Commit
from tests.run.speed import patient

KEYS = [f"m-{i}" for i in range(40)]
TIMED = "m-1"  # its timer fires when it will, on a busy machine even before the migration


class Tick(Event):
    pass


class Later(Event):
    seconds: float


class Beep(Action):
    pass


def first_fleet() -> tuple[Fleet, type[Agent]]:
    class Meter(Agent):
        count: int = 0

        @on
        def tick(self, event: Tick, ctx: Context) -> None:
            self.count += 1
            ctx.emit(Beep())

        @on
        def later(self, event: Later, ctx: Context) -> None:
            ctx.after(event.seconds, Tick())

    return Fleet("meters", agents=[Meter], events=[Tick]), Meter


def second_fleet() -> tuple[Fleet, type[Agent]]:
    class Meter(Agent):
        total: str = ""

        @on
        def tick(self, event: Tick, ctx: Context) -> None:
            self.total = str(int(self.total or 0) + 1)
            ctx.emit(Beep())

        @on
        def later(self, event: Later, ctx: Context) -> None:
            ctx.after(event.seconds, Tick())

    return Fleet("meters", agents=[Meter], events=[Tick]), Meter


def script(agent: str, key: str, state: dict[str, object]) -> dict[str, object] | None:
    return {"total": str(state["count"])}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Meters in two partitions with a count of 1; one has a timer, one is paused with an event."""
    url = f"sqlite:{tmp_path / 'data'}"
    fleet, meter = first_fleet()
    with fleet.open(url, partitions=2) as live:
        live.send_many([(meter, key, Tick()) for key in KEYS])
        live.send(meter, TIMED, Later(seconds=1.5))
        live.settle()  # a pause overtakes what waits
        live.pause(meter, "m-2", "worn")
        live.send(meter, "m-2", Tick())
        live.settle()
    return url


def totals_in(live: Live, meter: type[Agent]) -> dict[str, object]:
    found = {key: state.total for key, state in live.states(meter)}  # type: ignore[attr-defined]
    assert found.keys() == set(KEYS)
    assert found.pop(TIMED).endswith(("1", "2"))
    return found


def totals(url: str) -> dict[str, object]:
    fleet, meter = second_fleet()
    with fleet.open(url) as live:
        return totals_in(live, meter)


def test_many_small_commits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "COMMIT_BYTES", 1)
    fleet, meter = second_fleet()
    assert migrate(fleet, url, script) == [Migrated("Meter", len(KEYS), len(KEYS))]
    with fleet.open(url) as live:
        assert set(totals_in(live, meter).values()) == {"1"}
        # What an agent has beside its state is as it was, and its version goes on.
        assert [(x.key, x.reason, x.held) for x in live.paused()] == [("m-2", "worn", 1)]
        live.wait_for(live.resume(meter, "m-2"))
        assert dict(live.states(meter))["m-2"].total == "2"  # type: ignore[attr-defined]
        live.wait_for(live.send(meter, "m-3", Tick()))
        ids = [x.id for x in live.actions() if x.key == "m-3"]
        assert ids == ["meters/Meter/m-3/1/0", "meters/Meter/m-3/2/0"]
        # The timer that was set before the migration fires after it.
        deadline = time.monotonic() + patient(20.0)
        while "meters/Meter/m-1/3/0" not in [x.id for x in live.actions()]:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_one_that_was_cut_short(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "COMMIT_BYTES", 1)
    committed = 0
    commit = SqliteEngine.commit

    def failing(self: SqliteEngine, batches: Sequence[tuple[Claim, Commit]]) -> None:
        nonlocal committed
        if committed == 7:
            raise KeyboardInterrupt
        committed += 1
        commit(self, batches)

    monkeypatch.setattr(SqliteEngine, "commit", failing)
    fleet, _ = second_fleet()
    with pytest.raises(KeyboardInterrupt):
        migrate(fleet, url, script)
    monkeypatch.setattr(SqliteEngine, "commit", commit)
    # Half-way neither program reads the wrong form: the old one is refused, the new one too.
    with pytest.raises(SchemaError, match=r"Meter\.count is stored"):
        totals(url)
    left = len(KEYS) - 7
    assert migrate(fleet, url, script) == [Migrated("Meter", len(KEYS), left)]
    assert set(totals(url).values()) == {"1"}


def test_a_dry_run_writes_nothing(url: str) -> None:
    fleet, _ = second_fleet()
    folder = Path(url.partition(":")[2])
    before = {path: path.read_bytes() for path in folder.rglob("*.db*") if "shm" not in path.name}
    assert migrate(fleet, url, script, dry_run=True)[0].changed == len(KEYS)
    after = {path: path.read_bytes() for path in folder.rglob("*.db*") if "shm" not in path.name}
    assert after == before


def test_without_a_script_an_upcast_is_applied_to_every_state(url: str) -> None:
    class Meter(Agent):
        total: str = ""

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            return {"total": f"was {old['count']}"}

        @on
        def tick(self, event: Tick, ctx: Context) -> None: ...

        @on
        def later(self, event: Later, ctx: Context) -> None: ...

    fleet = Fleet("meters", agents=[Meter], actions=[Beep])
    assert migrate(fleet, url) == [Migrated("Meter", len(KEYS), len(KEYS))]
    assert migrate(fleet, url) == [Migrated("Meter", len(KEYS), 0)]
    assert set(totals(url).values()) == {"was 1"}
