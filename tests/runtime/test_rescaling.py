"""Goal: another number of partitions under the hands of producers, readers and timers: nothing is
lost, doubled or fired twice, and what is in the way is said by name."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import (
    Action,
    Agent,
    Context,
    Event,
    Fleet,
    InUse,
    Live,
    Receipt,
    Rescaling,
    SchemaError,
    TimedOut,
    UsageError,
    on,
)
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine
from holdfast.engine.stamping import Instant
from holdfast.runtime.rescaling import Rescale, rescale
from holdfast.runtime.untyped import connect_untyped
from holdfast.runtime.worker import Worker
from tests.runtime.semantics import ENGINES, World, opened

AGENTS = 40
KEYS = [f"m-{i}" for i in range(AGENTS)]


class Tick(Event):
    pass


class Note(Event):
    pass


class Later(Event):
    seconds: float


class Every(Event):
    seconds: float


class Fail(Event):
    pass


class Question(Event):
    pass


class Reply(Event):
    count: int


class Chatter(Event):
    pass


class Beep(Action):
    count: int


class Meter(Agent):
    count: int = 0
    notes: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.count += 1
        ctx.emit(Beep(count=self.count))
        ctx.send(Meter, neighbour(ctx.key), Note())

    @on
    def note(self, event: Note, ctx: Context) -> None:
        self.notes += 1

    @on
    def later(self, event: Later, ctx: Context) -> None:
        ctx.after(event.seconds, Tick(), name="later")

    @on
    def every(self, event: Every, ctx: Context) -> None:
        ctx.every(event.seconds, Tick(), name="every")

    @on
    def fail(self, event: Fail, ctx: Context) -> None:
        raise ValueError("no")

    @on
    def asked(self, event: Question, ctx: Context) -> None:
        ctx.reply(Reply(count=self.count))

    @on
    def chatter(self, event: Chatter, ctx: Context) -> None:
        ctx.send(Meter, neighbour(ctx.key), Chatter())


def neighbour(key: str) -> str:
    return KEYS[(KEYS.index(key) + 1) % AGENTS]


FLEET = Fleet("meters", agents=[Meter])


def run(job: Rescale) -> None:
    for _ in range(10_000):
        if job.step():
            return
    raise AssertionError("it never ends")


def fresh(world: World) -> Engine:
    """The data through the eyes of a process that has claimed nothing."""
    if isinstance(world.engine, MemoryEngine):
        world.engine._granted.clear()  # its data lives in this object: there is no other process
        return world.engine
    return world._open_sqlite()


def rescaled(world: World, partitions: int) -> None:
    """As another process does it on the same data; then a worker folds the new partitions."""
    engine = fresh(world)
    run(Rescale(world.fleet, engine, partitions, world.clock))
    if engine is not world.engine:
        engine.close()
    world.worker = Worker(world.fleet, world.engine, numbers(world.engine), world.clock)


def ticking(world: World, seconds: float) -> Callable[[], Instant]:
    """A clock that moves a little at every look."""

    def clock() -> Instant:
        world.clock.pass_time(seconds)
        return world.clock()

    return clock


def numbers(engine: Engine) -> range:
    return engine.catalog.layout.numbers


def totals(live: Live) -> tuple[int, int]:
    states = [state for _, state in live.states(Meter)]
    return sum(s.count for s in states), sum(s.notes for s in states)


# End to end, with real handles.


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (1, 3)])
def test_a_connected_handle_survives_a_rescaling(tmp_path: Path, before: int, after: int) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    rows = [(Meter, key, Tick()) for key in KEYS]
    with FLEET.open(url, partitions=before) as live:
        old = live.send_many(rows, source="gcs", first_seq=1)
        live.settle()
    with FLEET.connect(url) as producer:
        cursor = producer.actions().cursor
        waiting = producer.send_many(rows, source="gcs", first_seq=AGENTS + 1)
        done = rescale(FLEET, url, after)
        assert (done.before, done.after, done.agents) == (before, after, AGENTS)
        assert done.partitions == range(before, before + after)
        # What it had sent before is known to whoever owns the keys now.
        again = producer.send_many(rows, source="gcs", first_seq=AGENTS + 1)
        assert again.repeats == AGENTS
        assert {number for number, _ in again.positions} == set(done.partitions)
        # Old receipts are good, and what waited was folded.
        assert producer.state(Meter, KEYS[0], after=old).count == 2
        assert producer.state(Meter, KEYS[0], after=waiting).count == 2
        fresh = producer.send_many(rows, source="gcs", first_seq=2 * AGENTS + 1)
        assert fresh.repeats == 0
        with FLEET.open(url):
            producer.settle()
        assert set(producer.positions()) == set(done.partitions)
        assert totals(producer) == (3 * AGENTS, 3 * AGENTS)
        page = producer.actions(after=cursor)
        assert sorted((a.key, a.action.count) for a in page) == sorted(  # type: ignore[attr-defined]
            (key, count) for key in KEYS for count in (2, 3)
        )
        assert len({a.id for a in producer.actions()}) == 3 * AGENTS
        assert producer.actions(after=page.cursor) == []
        for key in KEYS:
            taken = producer.history(Meter, key)
            assert [e.seq for e in taken if e.origin == "external"] == [
                KEYS.index(key) + 1 + n * AGENTS for n in range(3)
            ]
            assert sum(e.origin == "message" for e in taken) == 3


def test_producers_that_send_all_the_time_lose_and_double_nothing(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    FLEET.open(url, partitions=2).close()
    stop = threading.Event()
    sent: Counter[str] = Counter()
    failures: list[BaseException] = []

    def produce(name: str) -> None:
        try:
            with FLEET.connect(url) as live:
                while not stop.is_set():
                    rows = [(Meter, key, Tick()) for key in KEYS]
                    numbered = {"source": name, "first_seq": sent[name] + 1} if name else {}
                    live.send_many(rows, timeout=60.0, **numbered)  # type: ignore[arg-type]
                    sent[name] += len(rows)
                    stop.wait(0.01)  # the rescaling needs a processor too
        except BaseException as error:
            failures.append(error)

    producers = [threading.Thread(target=produce, args=(name,)) for name in ("gcs", "uav", "")]
    for thread in producers:
        thread.start()
    for partitions in (5, 1, 3):
        rescale(FLEET, url, partitions)
    stop.set()
    for thread in producers:
        thread.join()
    assert failures == []
    assert all(sent[name] for name in ("gcs", "uav", ""))
    with FLEET.open(url) as live:
        live.settle()
        total = sum(sent.values())
        assert totals(live) == (total, total)
        assert {state.count for _, state in live.states(Meter)} == {total // AGENTS}
        assert live.dead_letters() == []


def test_who_asks_while_it_is_rescaled_gets_the_answer(tmp_path: Path) -> None:
    """The question waits, the rescaling folds it, and the answer is in a retired partition."""
    url = f"sqlite:{tmp_path / 'data'}"
    FLEET.open(url, partitions=2).close()
    answers: list[object] = []
    with FLEET.connect(url) as live:
        receipt = live.send(Meter, "m-1", Tick())

        def ask() -> None:
            answers.append(live.ask(Meter, "m-1", Question(), timeout=30.0))

        asking = threading.Thread(target=ask)
        asking.start()
        before = receipt.positions[0]
        while live.positions()[before[0]].inbox == before[1]:
            pass  # until the question is in the inbox
        rescale(FLEET, url, 3)
        asking.join()
    assert answers == [Reply(count=1)]


# Time stands still until a test moves it, on both engines.


@pytest.mark.parametrize("engine", ENGINES)
def test_timers_move_and_fire_once(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send_many([(Meter, key, Later(seconds=10.0)) for key in KEYS])
        world.live.send(Meter, "m-0", Every(seconds=4.0))
        world.run()
        rescaled(world, 5)
        world.pass_time(5.0)
        rescaled(world, 1)
        world.pass_time(4.9)
        assert totals(world.live) == (2, 2), "the timer of m-0, twice"
        world.pass_time(0.2)
        assert totals(world.live) == (AGENTS + 2, AGENTS + 2)
        world.pass_time(100.0)
        assert world.live.state(Meter, "m-1").count == 1
        origins = [e.origin for e in world.live.history(Meter, "m-2")]
        assert origins == ["external", "timer", "message"]


@pytest.mark.parametrize("engine", ENGINES)
def test_timers_that_never_rest_do_not_keep_it_from_ending(engine: str, tmp_path: Path) -> None:
    """While it drains, what becomes due is left to the partitions to come."""
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send_many([(Meter, key, Every(seconds=0.001)) for key in KEYS])
        world.run()
        world.clock.pass_time(1.0)
        run(Rescale(FLEET, fresh(world), 3, ticking(world, 0.0005)))
        count, notes = totals(world.live)
        assert count == notes > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_paused_agents_and_dead_letters_move_along(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        live = world.live
        live.send_many([(Meter, key, Fail()) for key in KEYS])
        world.run()
        live.pause(Meter, "m-3", "inspection")
        live.send(Meter, "m-3", Tick())
        world.run()
        old = live.dead_letters()
        live.redrive(old[0].id)
        world.run()
        rescaled(world, 3)
        assert [(p.key, p.reason, p.held) for p in live.paused()] == [("m-3", "inspection", 1)]
        letters = live.dead_letters()
        assert sorted(x.key for x in letters) == sorted(KEYS), "one failed again, none twice"
        with pytest.raises(UsageError, match="no dead letter"):
            live.redrive(old[1].id)
        live.redrive(letters[0].id)
        live.resume(Meter, "m-3")
        world.run()
        assert live.state(Meter, "m-3").count == 1
        assert [x.redriven for x in live.dead_letters()].count(True) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_redrive_that_meets_a_rescaling_is_not_another_letters(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters get new numbers: the old number may be somebody else's in the new partition."""
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send_many([(Meter, key, Fail()) for key in KEYS])
        world.run()
        found = world.live.dead_letters()
        rescaled(world, 1)
        monkeypatch.setattr(world.live, "dead_letters", lambda: found)
        with pytest.raises(UsageError, match="has another number since the fleet was rescaled"):
            world.live.redrive(found[-1].id)
        world.run()
        monkeypatch.undo()
        assert not any(x.redriven for x in world.live.dead_letters())


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_follow_their_agent(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send(Meter, "m-3", Tick())
        world.run()
        rescaled(world, 3)
        world.live.pause(Meter, "m-3")
        world.run()
        assert [p.key for p in world.live.paused()] == ["m-3"]


# What is in the way.


class Unknown(Event):
    pass


def newer_fleet() -> Fleet:
    class Meter(Agent):
        count: int = 0
        notes: int = 0

        @on
        def unknown(self, event: Unknown, ctx: Context) -> None:
            pass

    return Fleet("meters", agents=[Meter], events=[Tick, Note])


def send_newer(engine: Engine) -> None:
    fleet = newer_fleet()
    Live(fleet, engine).send(fleet.agents["Meter"], "m-1", Unknown())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_partition_that_newer_classes_hold_up_is_named(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send(Meter, "m-1", Tick())
        send_newer(world.engine)
        job = Rescale(FLEET, fresh(world), 3, ticking(world, 0.05))
        number = world.engine.catalog.layout.partition_of("m-1")
        with pytest.raises(TimedOut, match=rf"partition {number} cannot be drained: .*Unknown"):
            run(job)
        assert numbers(world.engine) == range(2)
        assert world.live.send(Meter, "m-2", Tick()).repeats == 0, "the intake is open again"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_does_not_end_in_time_is_given_up(engine: str, tmp_path: Path) -> None:
    """Sixty-four hops of messages, more than fit into the time it has."""
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send_many([(Meter, key, Chatter()) for key in KEYS])
        job = Rescale(FLEET, fresh(world), 3, ticking(world, 0.05), drain_seconds=0.5)
        with pytest.raises(TimedOut, match=r"is not drained: .* run the fleet until"):
            run(job)
        assert numbers(world.engine) == range(2)
        world.live.send(Meter, "m-2", Tick(), timeout=0.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_after_a_failure_the_same_fleet_goes_on(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        world.live.send_many([(Meter, key, Chatter()) for key in KEYS])
        with pytest.raises(TimedOut):
            run(Rescale(FLEET, fresh(world), 3, ticking(world, 0.05), drain_seconds=0.5))
        rescaled(world, 3)
        world.live.send_many([(Meter, key, Tick()) for key in KEYS])
        world.run()
        assert totals(world.live) == (AGENTS, AGENTS)


def test_an_intake_that_a_crash_left_closed_is_opened_by_the_next_run(tmp_path: Path) -> None:
    with opened(FLEET, "sqlite", tmp_path, partitions=2) as world:
        job = Rescale(FLEET, fresh(world), 3, world.clock)
        job._worker.tick()
        job._close()
        with pytest.raises(Rescaling, match=r"world/p00\d: the fleet is being given other parti"):
            world.live.send(Meter, "m-1", Tick(), timeout=0.0)
        world.restart()
        world.run()
        world.live.send(Meter, "m-1", Tick(), timeout=0.0)
        world.run()
        assert world.live.state(Meter, "m-1").count == 1


def test_who_interrupts_it_leaves_the_intake_open(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    FLEET.open(url, partitions=2).close()

    def interrupted(point: str) -> None:
        if point == "rescale.before":
            with pytest.raises(Rescaling):
                live.send(Meter, "m-1", Tick(), timeout=0.0)
            raise KeyboardInterrupt

    with FLEET.connect(url) as live:
        with pytest.raises(KeyboardInterrupt):
            rescale(FLEET, url, 3, faults=interrupted)
        live.send(Meter, "m-1", Tick(), timeout=0.0)
        assert set(live.positions()) == {0, 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_number_and_impossible_ones_are_refused(engine: str, tmp_path: Path) -> None:
    with opened(FLEET, engine, tmp_path, partitions=2) as world:
        with pytest.raises(UsageError, match="there are 2 partitions already"):
            Rescale(FLEET, world.engine, 2, world.clock)
        for wrong in (0, 2000):
            with pytest.raises(UsageError, match=f"{wrong} partitions"):
                run(Rescale(FLEET, fresh(world), wrong, world.clock))
        world.live.send(Meter, "m-1", Tick(), timeout=0.0)


def test_a_class_that_is_gone_is_refused_before_anything_happens(tmp_path: Path) -> None:
    class Other(Agent):
        pass

    with opened(FLEET, "sqlite", tmp_path, partitions=2) as world:
        world.live.send(Meter, "m-1", Tick())
        world.run()
        with pytest.raises(SchemaError, match="Meter agents are stored"):
            Rescale(Fleet("meters", agents=[Other]), world.engine, 3, world.clock)


def test_a_fleet_that_runs_is_not_rescaled(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with FLEET.open(url), pytest.raises(InUse, match="runs this fleet already"):
        rescale(FLEET, url, 2)
    with pytest.raises(UsageError, match="keeps nothing that could be rescaled"):
        rescale(FLEET, "memory:", 2)


def test_a_receipt_of_other_data_is_still_refused(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    FLEET.open(url, partitions=2).close()
    rescale(FLEET, url, 3)
    with connect_untyped(url) as live:
        live.wait_for(Receipt(((0, 0), (4, 0))), timeout=0.0)
        with pytest.raises(UsageError, match="of another fleet's data"):
            live.wait_for(Receipt(((5, 0),)), timeout=0.0)


def test_cursors_of_other_data_are_still_refused(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    FLEET.open(url, partitions=2).close()
    with FLEET.open(f"sqlite:{tmp_path / 'other'}", partitions=3) as other:
        cursor = other.actions().cursor
    rescale(FLEET, url, 3)
    wrong = pytest.raises(UsageError, match="belongs to a fleet with 3 partitions")
    with FLEET.connect(url) as live, wrong:
        live.actions(after=cursor)
