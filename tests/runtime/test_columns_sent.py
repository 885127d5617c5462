"""Goal: a send in columns keeps the promises of every send: once, whole per partition, safe to
repeat, through a rescaling; and what was sent so is history like everything else."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy
import pytest

from holdfast import Agent, Backlog, Context, Event, Fleet, Live, UsageError, on
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import APPEND_SECONDS, Parcel, Taken
from holdfast.model.keys import Layout
from holdfast.model.marks import Width
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.rescaling import rescale
from holdfast.stepping.frame import Frame
from tests.cli.commands import holdfast, holdfast_here, json_lines
from tests.runtime.semantics import ENGINES, engine_url

CODE = """
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.model.marks import Width

class Position(Event):
    lat: float
    n: int
    name: Annotated[str, Width(16)] = "x"

class Ping(Event):
    note: str

class High(Action):
    n: int

class Drone(Agent):
    count: int = 0
    last: float = 0.0
    total: int = 0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.count += 1
        self.last = event.lat
        self.total += event.n
        if event.n > 5:
            ctx.emit(High(n=event.n))

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        self.count += 1

fleet = Fleet("drones", agents=[Drone])
"""


class Position(Event):
    lat: float
    n: int
    name: Annotated[str, Width(16)] = "x"


class Tick(Event):
    pass


class Wide(Event):
    text: Annotated[str, Width(1024)]


class Drone(Agent):
    count: int = 0
    total: int = 0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.count += 1
        self.total += event.n

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.count += 1

    @on
    def wide(self, event: Wide, ctx: Context) -> None:
        self.count += 1


fleet = Fleet("drones", agents=[Drone])
NAMES = [f"d-{i}" for i in range(40)]


def counts(live: Live) -> dict[str, int]:
    return {key: state.count for key, state in live.states(Drone)}


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_are_taken_once(engine: str, tmp_path: Path) -> None:
    """A repeat, a half repeat, and rows under the same numbers."""
    with fleet.open(engine_url(engine, tmp_path), partitions=3) as live:
        keys = live.keys(Drone, NAMES)
        n = numpy.arange(40)
        first = live.send_columns(Drone, Position, keys, lat=0.5, n=n, source="gcs", first_seq=100)
        assert first.repeats == 0
        again = live.send_columns(Drone, Position, keys, lat=0.5, n=n, source="gcs", first_seq=100)
        assert again.repeats == 40
        later = (n + 20) % 40
        half = live.send_columns(
            Drone, Position, keys[later], lat=0.5, n=n + 1000, source="gcs", first_seq=120
        )
        assert half.repeats == 20
        rows = [(Drone, key, Position(0.5, i)) for i, key in enumerate(NAMES)]
        assert live.send_many(rows, source="gcs", first_seq=100).repeats == 40
        live.settle()
        assert sum(counts(live).values()) == 60
        for i, key in enumerate(NAMES):
            seqs = [entry.seq for entry in live.history(Drone, key)]
            assert seqs == [100 + i] + ([140 + i] if i < 20 else [])
            assert live.state(Drone, key).total == i + (1020 + i if i < 20 else 0)


class Refusing(MemoryEngine):
    """Refuses one partition, as a backlog does."""

    refused: int | None = None

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        if partition == self.refused:
            return [Backlog("full") for _ in parcels]
        return super().append(partition, parcels, wait_seconds)


class Refilling(Refusing):
    """Somebody fills the array anew while its send waits."""

    array: numpy.ndarray

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        if partition == self.refused:
            self.array[:] = 7
        return super().append(partition, parcels, wait_seconds)


def test_an_array_filled_anew_while_its_send_waits_is_another_send() -> None:
    engine = Refilling("drones", 2)
    layout = Layout.even(2)
    names = [next(k for k in NAMES if layout.partition_of(k) == part) for part in (0, 1)]
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        keys = live.keys(Drone, names)
        engine.array = n = numpy.array([1, 1])
        engine.refused = 1
        with pytest.raises(Backlog):
            live.send_columns(Drone, Position, keys, lat=1.0, n=n, timeout=0.0)
        engine.refused = None
        assert live.send_columns(Drone, Position, keys, lat=1.0, n=n).repeats == 0
        live.settle()
        assert [live.state(Drone, key).total for key in names] == [8, 7]


class Place(str, Enum):  # noqa: UP042 (not a StrEnum: its text is another one)
    DOCK = "d-1"


def test_a_member_is_the_key_that_it_stands_for() -> None:
    with fleet.open("memory:") as live:
        live.send_columns(Drone, Tick, live.keys(Drone, [Place.DOCK]))
        live.settle()
        assert [key for key, _ in live.states(Drone)] == ["d-1"]


def test_the_same_columns_are_a_retry_and_equal_ones_are_not() -> None:
    engine = Refusing("drones", 2)
    layout = Layout.even(2)
    names = [next(k for k in NAMES if layout.partition_of(k) == part) for part in (0, 1)]
    with Live(fleet, engine, Embedded(fleet, engine)) as live:
        keys = live.keys(Drone, names)
        n = numpy.array([1, 1])

        def fail(name: str = "x") -> None:
            engine.refused = 1
            with pytest.raises(Backlog):
                live.send_columns(Drone, Position, keys, lat=1.0, n=n, name=name, timeout=0.0)
            engine.refused = None

        def found() -> list[int]:
            live.settle()
            return [live.state(Drone, key).count for key in names]

        fail()
        live.send_columns(Drone, Position, keys, lat=1.0, n=n.copy())
        assert found() == [2, 1], "equal columns are new events"
        live.send_columns(Drone, Position, keys[[0, 1]], lat=1.0, n=n)
        assert found() == [2, 2], "the same columns are a retry, however the keys were indexed"
        live.send_columns(Drone, Position, keys, lat=1.0, n=n)
        assert found() == [3, 3], "a retry that succeeded is over"
        fail()
        n[0] = 7  # the producer gave up, and fills its array with something new
        live.send_columns(Drone, Position, keys, lat=1.0, n=n)
        assert found() == [5, 4], "the same array with other values is another send"
        n[0] = 1
        live.send_columns(Drone, Position, keys, lat=2.0, n=n)
        assert found() == [6, 5], "so is another value for all rows"
        live.send_columns(Drone, Position, keys, lat=1.0, n=n)
        assert found() == [6, 6], "this is the retry"
        fail(name="".join(["dr", "one"]))
        live.send_columns(Drone, Position, keys, lat=1.0, n=n, name="".join(["dr", "one"]))
        assert found() == [7, 7], "a text for all rows is a value: an equal one is the same"


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (1, 3)])
def test_a_rescaling_splits_what_is_under_way(tmp_path: Path, before: int, after: int) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url, partitions=before).close()
    n = numpy.arange(40)
    with fleet.connect(url) as producer:
        keys = producer.keys(Drone, NAMES)
        producer.send_columns(Drone, Position, keys, lat=1.0, n=n, source="gcs", first_seq=1)
        done = rescale(fleet, url, after)
        # The handle knows the old layout only; so do the keys.
        again = producer.send_columns(
            Drone, Position, keys, lat=1.0, n=n, source="gcs", first_seq=1
        )
        assert again.repeats == 40
        fresh = producer.send_columns(
            Drone, Position, keys[::-1], lat=1.0, n=n, name="ä", source="gcs", first_seq=41
        )
        assert fresh.repeats == 0
        assert {number for number, _ in fresh.positions} == set(done.partitions)
        with fleet.open(url):
            producer.settle()
        assert counts(producer) == dict.fromkeys(NAMES, 2)
        entries = producer.history(Drone, "d-3")
        assert [entry.event for entry in entries] == [Position(1.0, 3), Position(1.0, 36, "ä")]
        assert [entry.seq for entry in entries] == [4, 41 + 36]
        for number in done.partitions:  # what a rescaling splits stays in columns
            for stored in producer._reading.views()[number].frames(0, 100):
                assert Frame.decode(stored.frame).columns["key"].kind == "names"


def test_a_send_that_is_too_large_is_refused_whole() -> None:
    with fleet.open("memory:", partitions=1) as live:
        keys = live.keys(Drone, NAMES)[numpy.arange(20_000) % 40]
        texts = numpy.full(20_000, "😀" * 1024)
        with pytest.raises(UsageError, match=r"exceed the bound of 67,108,864: send fewer"):
            live.send_columns(Drone, Wide, keys, text=texts)
        live.send_columns(Drone, Wide, keys[:100], text=texts[:100])
        live.settle()
        assert sum(counts(live).values()) == 100


def test_one_value_for_all_rows_costs_the_space_of_one() -> None:
    engine = MemoryEngine("drones", 1)
    with Live(fleet, engine) as live:
        keys = live.keys(Drone, NAMES)[numpy.arange(60_000) % 40]
        live.send_columns(Drone, Wide, keys, text="x" * 1024, event_time=3.0)
        (stored,) = engine.view(0).frames(0, 1)
        assert len(stored.frame) < 70_000


def test_the_async_twin_sends_columns() -> None:
    async def run() -> tuple[int, float]:
        async with fleet.open_async("memory:") as live:
            keys = await live.keys(Drone, NAMES)
            receipt = await live.send_columns(
                Drone, Position, keys[:5], lat=[1.0] * 5, n=4, source="gcs", first_seq=1
            )
            state = await live.state(Drone, "d-4", after=receipt)
            return len(receipt.positions), state.total

    assert asyncio.run(run()) == (1, 4)


def test_without_numpy_columns_are_refused_and_read(tmp_path: Path) -> None:
    """Rows are sent, columns are folded and read; only sending columns asks for the extra."""
    url = f"sqlite:{tmp_path / 'data'}"
    fill(tmp_path)
    program = """
import sys
sys.modules["numpy"] = sys.modules["numba"] = None  # any import of them fails
from fleet import Drone, Ping, Position, fleet
from holdfast import UsageError

with fleet.open(sys.argv[1]) as live:
    live.settle()
    live.send(Drone, "d-1", Ping("by rows"))
    live.settle()
    print(live.state(Drone, "d-1").count, [e.event for e in live.history(Drone, "d-1")][-2:])
    for wrong in (
        lambda: live.keys(Drone, ["d-1"]),
        lambda: live.send_columns(Drone, Position, None, lat=[1.0], n=[1]),
    ):
        try:
            wrong()
        except UsageError as error:
            print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    refusal = "columns need numpy: pip install 'holdfast[compiled]', or use send_many"
    assert done.stdout.splitlines() == [
        "21 [Position(lat=9.5, n=9, name='turn 9'), Ping(note='by rows')]",
        refusal,
        refusal,
    ]


# ---------------------------------------------------------------- history

FILL = """
import sys
import numpy
from fleet import Drone, Ping, Position, fleet

with fleet.open("sqlite:./data", partitions=2) as live:
    keys = live.keys(Drone, [f"d-{i}" for i in range(10)])
    for turn in range(10):
        live.send_many([(Drone, f"d-{i}", Ping(f"turn {turn}")) for i in range(10)])
        lat = numpy.arange(10) / 2 + turn
        live.send_columns(Drone, Position, keys, lat=lat, n=turn, name=f"turn {turn}")
        live.settle()
"""


def fill(folder: Path) -> None:
    (folder / "fleet.py").write_text(CODE)
    (folder / "fill.py").write_text(FILL)
    subprocess.run([sys.executable, "fill.py"], cwd=folder, check=True, timeout=120)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drones")
    fill(folder)
    (folder / "changed.py").write_text(CODE.replace("event.n > 5", "event.n > 7"))
    return folder


def test_the_command_line_reads_both(place: Path) -> None:
    done = holdfast_here("history", "Drone/d-3", "--json", "--data", "data", cwd=place)
    lines = json_lines(done.stdout)
    assert len(lines) == 20
    assert [line["data"] for line in lines[:2]] == [
        {"note": "turn 0"},
        {"lat": 1.5, "n": 0, "name": "turn 0"},
    ]
    at = lines[9]["now"]
    words = ("state", "Drone/d-3", "--json", "--data", "data", "--at", at, "--fleet", "fleet.py")
    (found,) = json_lines(holdfast_here(*words, cwd=place).stdout)
    assert found["state"] == {"count": 10, "last": 5.5, "total": 10}


def test_replay_repeats_both(place: Path) -> None:
    done = holdfast("replay", "fleet.py", "--data", "data", cwd=place)
    assert [": equal: " in line for line in done.stdout.splitlines()] == [True, True]
    words = ("replay", "fleet.py", "--agent", "Drone/d-3", "--data", "data")
    assert "equal: 20 events" in holdfast_here(*words, cwd=place).stdout


def test_a_fork_takes_both(place: Path) -> None:
    same = holdfast_here("fork", "fleet.py", "--data", "data", "--fail-above", 0, cwd=place)
    assert same.stdout.splitlines()[-1] == "no difference"
    other = holdfast_here("fork", "changed.py", "--data", "data", cwd=place)
    assert "High" in other.stdout


def test_a_snapshot_keeps_both(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "data", tmp_path / "data")
    (tmp_path / "fleet.py").write_text(CODE)
    holdfast_here("snapshot", "create", "now", "--data", "data", cwd=tmp_path)
    holdfast_here("doctor", "--data", "data", cwd=tmp_path)


def test_an_export_has_both(place: Path) -> None:
    text = holdfast("export", "events", "--to", "ndjson:-", "--data", "data", cwd=place).stdout
    assert text.count('"name":"turn 7"') == 10
    assert text.count('"note":"turn 7"') == 10
