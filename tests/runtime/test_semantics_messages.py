"""Goal: messages between agents arrive once, in order per pair, with their sender, also across
partitions and restarts; loops end, and partitions that flood each other do not lock up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, Live, on
from holdfast.engine.port import Limits
from holdfast.errors import Busy
from holdfast.model.context import HOPS_MAX
from holdfast.model.keys import Layout
from tests.runtime.semantics import ENGINES, World, engine_url, opened

PARTITIONS = 4
LAYOUT = Layout.even(PARTITIONS)


def key_in(partition: int, prefix: str = "k") -> str:
    """Some key that lives in that partition."""
    return next(
        key
        for key in (f"{prefix}-{n}" for n in range(10_000))
        if LAYOUT.partition_of(key) == partition
    )


class Tell(Event):
    """Ask an agent to pass numbers on to others."""

    to: list[str]
    numbers: list[int]


class Number(Event):
    value: int


class Ping(Event):
    pass


class Pong(Event):
    who: str


class Loop(Event):
    to: str
    hops: int = 0


class Burst(Event):
    to: str
    size: int
    rounds: int


class Announce(Action):
    text: str


class Node(Agent):
    got: list[str] = []
    pongs: list[str] = []
    senders: list[str] = []
    hops: int = 0
    bursts: int = 0

    @on
    def tell(self, event: Tell, ctx: Context) -> None:
        assert ctx.sender is None
        for number in event.numbers:
            for key in event.to:
                ctx.send(Node, key, Number(number))

    @on
    def number(self, event: Number, ctx: Context) -> None:
        assert ctx.sender is not None
        assert ctx.sender.agent == "Node"
        self.got.append(f"{ctx.sender.key}:{event.value}")
        ctx.emit(Announce(f"{ctx.key} {event.value}"))

    @on
    def loop(self, event: Loop, ctx: Context) -> None:
        self.hops += 1
        ctx.send(Node, event.to, Loop(ctx.key, event.hops + 1))

    @on
    def burst(self, event: Burst, ctx: Context) -> None:
        self.bursts += 1
        if event.rounds:
            for n in range(event.size):
                rounds = event.rounds - 1 if n == 0 else 0
                ctx.send(Node, event.to, Burst(ctx.key, event.size, rounds))


class Caller(Agent):
    answers: list[str] = []

    @on
    def tell(self, event: Tell, ctx: Context) -> None:
        for key in event.to:
            ctx.send(Echo, key, Ping())

    @on
    def pong(self, event: Pong, ctx: Context) -> None:
        assert ctx.sender is not None
        self.answers.append(f"{event.who} from {ctx.sender.agent}/{ctx.sender.key}")


class Echo(Agent):
    pings: int = 0

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        self.pings += 1
        ctx.reply(Pong(ctx.key))


fleet = Fleet("nodes", agents=[Node, Caller, Echo])


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path), partitions=PARTITIONS) as made:
        yield made


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path, PARTITIONS) as made:
        yield made


def node(live: Live, key: str) -> Node:
    live.settle()
    found = live.state(Node, key)
    assert found is not None
    return found


def test_messages_reach_every_partition_in_order_per_pair(live: Live) -> None:
    senders = [key_in(n, "s") for n in range(PARTITIONS)]
    receivers = [key_in(n, "r") for n in range(PARTITIONS)]
    for block in range(5):
        numbers = list(range(block * 20, block * 20 + 20))
        live.send_many([(Node, key, Tell(receivers, numbers)) for key in senders])
    for receiver in receivers:
        got = node(live, receiver).got
        for sender in senders:
            mine = [line for line in got if line.startswith(f"{sender}:")]
            assert mine == [f"{sender}:{n}" for n in range(100)]
        assert len(got) == 100 * PARTITIONS
    actions = list(live.actions())
    assert len({action.id for action in actions}) == len(actions) == 400 * PARTITIONS


def test_an_agent_may_write_to_itself(live: Live) -> None:
    live.send(Node, "k-1", Tell(["k-1"], [1, 2, 3]))
    assert node(live, "k-1").got == ["k-1:1", "k-1:2", "k-1:3"]


def test_a_reply_goes_back_to_the_agent_that_asked(live: Live) -> None:
    echoes = [key_in(n, "e") for n in range(PARTITIONS)]
    live.send(Caller, key_in(0, "c"), Tell(echoes, []))
    live.settle()
    caller = live.state(Caller, key_in(0, "c"))
    assert caller is not None
    assert sorted(caller.answers) == sorted(f"{key} from Echo/{key}" for key in echoes)


def test_a_reply_to_nobody_is_no_error(live: Live) -> None:
    live.send(Echo, "e-1", Ping())
    live.settle()
    assert live.dead_letters() == []
    found = live.state(Echo, "e-1")
    assert found is not None
    assert found.pings == 1


@pytest.mark.parametrize("other", [0, 1])
def test_a_loop_ends_as_one_dead_letter(live: Live, other: int) -> None:
    one, two = key_in(0, "a"), key_in(other, "b")
    live.send(Node, one, Loop(two))
    assert node(live, one).hops + node(live, two).hops == HOPS_MAX
    [letter] = live.dead_letters()
    assert f"{HOPS_MAX} hops" in letter.error
    assert letter.event == Loop(one if letter.key == two else two, HOPS_MAX)


def test_a_redriven_message_still_has_its_sender_and_hops(live: Live) -> None:
    live.send(Node, "a-1", Loop("a-1"))
    live.settle()
    [letter] = live.dead_letters()
    live.redrive(letter.id)
    live.settle()
    assert [x.error for x in live.dead_letters()] == [letter.error] * 2


def test_a_message_carries_the_time_it_was_sent_and_is_taken_later(world: World) -> None:
    world.live.send(Node, key_in(0), Tell([key_in(1)], [1]))
    world.run()
    [entry] = world.live.history(Node, key_in(1))
    assert (entry.origin, entry.event) == ("message", Number(1))
    assert entry.sender == f"Node/{key_in(0)}"


@pytest.mark.parametrize("engine", ENGINES)
def test_partitions_that_flood_each_other_do_not_lock_up(engine: str, tmp_path: Path) -> None:
    """Tiny bounds everywhere: each burst is far beyond what either outbox or backlog may hold."""
    limits = Limits(outbox_messages_max=1, backlog_events_max=10, disk_reserve_bytes=1)
    with opened(fleet, engine, tmp_path, PARTITIONS, limits) as world:
        one, two = key_in(0, "a"), key_in(1, "b")
        world.live.send(Node, one, Burst(two, 50, 20))
        world.live.send(Node, two, Burst(one, 50, 20))
        world.run()
        assert all(progress.lag == 0 for progress in world.live.positions().values())
        bursts = [world.live.state(Node, key) for key in (one, two)]
        assert sum(each.bursts for each in bursts if each is not None) == 2 * (1 + 20 * 50)
        assert world.worker.alarms == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_flood_goes_on_beside_a_producer_at_the_bound(engine: str, tmp_path: Path) -> None:
    url = engine_url(engine, tmp_path, outbox_messages_max=1, backlog_events_max=10)
    with fleet.open(url, partitions=PARTITIONS) as live:
        one, two = key_in(0, "a"), key_in(1, "b")
        for _ in range(20):
            live.send(Node, one, Burst(two, 30, 3), timeout=30.0)
            live.send(Node, two, Burst(one, 30, 3), timeout=30.0)
        assert node(live, one).bursts + node(live, two).bursts == 40 * (1 + 3 * 30)


@pytest.mark.parametrize("point", ["append.before", "append.inside", "append.after"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_delivery_cut_short_is_neither_lost_nor_doubled(
    tmp_path: Path, point: str, restart: bool
) -> None:
    """The commit is durable, the delivery fails before, inside or after it became durable."""
    with opened(fleet, "sqlite", tmp_path, PARTITIONS) as world:
        receivers = [key_in(n, "r") for n in range(PARTITIONS)]
        for number in range(4):
            world.live.send(Node, key_in(0, "s"), Tell(receivers, [number]))
            world.faults[point] = Busy("somebody holds the inbox")
            world.run()
            assert world.faults == {}, "a delivery met the fault"
            assert world.worker.alarms == {0: "somebody holds the inbox"}
            if restart:
                world.restart()
            world.pass_time(2.0)
        for receiver in receivers:
            found = world.live.state(Node, receiver)
            assert found is not None
            assert found.got == [f"{key_in(0, 's')}:{n}" for n in range(4)]
