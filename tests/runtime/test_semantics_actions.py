"""Goal: through a real fleet, in memory and on disk: what becomes of an action is recorded once and
stands; agents that want to know are told once; what is expired or settled is handed out no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Live, UsageError
from holdfast.runtime.replaying.running import compare
from tests.runtime.couriers import (
    FLIES,
    Buoy,
    Courier,
    Drop,
    Fly,
    Land,
    Order,
    Poison,
    fleet,
    handle,
)
from tests.runtime.semantics import ENGINES, World, opened

DROP, FLY = "harbour/Courier/c-1/1/0", "harbour/Courier/c-1/1/1"


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path) as world:
        yield world
        for number in world.engine.catalog.layout.numbers:
            assert compare(world.engine, fleet, number).difference is None, "a replay is equal"


@pytest.fixture
def live(world: World) -> Live:
    live = handle(world)
    live.send(Courier, "c-1", Order())
    world.run()
    return live


def heard(live: Live, key: str = "c-1") -> list[str]:
    return list(live.state(Courier, key).heard)


def test_an_acknowledgement_is_recorded_and_told_once(world: World, live: Live) -> None:
    assert live.action(FLY).status == "issued"
    assert live.delivered([FLY], by="gateway") == {}
    assert live.action(FLY).status == "delivered"
    for _ in range(2):
        assert live.acknowledge(FLY, by="d-1") == {}
        assert heard(live) == ["Fly by d-1"]
        world.clock.pass_time(1.0)
    life = live.action(FLY)
    assert (life.status, life.name, life.by, life.late) == ("acknowledged", "Fly", "d-1", False)
    assert (life.at("delivered"), life.at("acknowledged")) == (1_000_000.0, 1_000_000.0)
    world.pass_time(2 * FLIES)
    assert heard(live) == ["Fly by d-1"], "it has not expired"


def test_the_first_word_stands(live: Live) -> None:
    live.fail(FLY, "no wind", by="d-1")
    with pytest.raises(UsageError, match=f"^{FLY} was failed by d-1 before: no wind$"):
        live.acknowledge(FLY)
    live.acknowledge(DROP)
    with pytest.raises(UsageError, match=f"^{DROP} was acknowledged before$"):
        live.fail(DROP, "too late")
    assert heard(live) == ["Fly failed: no wind", "Drop by "]
    assert live.action(FLY).why == "no wind"


def test_many_at_once_are_one_append(world: World, live: Live) -> None:
    before = live.positions()[0].inbox
    refused = live.acknowledge([FLY, DROP, FLY, "harbour/Courier/c-1/99/0"], by="gateway")
    assert list(refused) == ["harbour/Courier/c-1/99/0"]
    assert "has not come to that version" in refused["harbour/Courier/c-1/99/0"]
    assert heard(live) == ["Fly by gateway", "Drop by gateway"]
    assert live.positions()[0].inbox == before + 3
    assert len(world.engine.view(0).frames(before, 100)) == 1


def test_what_was_never_issued_is_refused(live: Live) -> None:
    for id, complaint in {
        "harbour/Courier/c-1/2/0": "no action .* was issued: Courier/c-1 has not come",
        "harbour/Courier/nobody/1/0": "no action .* was issued: Courier/nobody",
        "harbour/Tram/c-1/1/0": "no agent 'Tram'",
        "other/Courier/c-1/1/0": "of fleet 'other', this one is 'harbour'",
        "harbour/Courier/c-1/01/0": "is no id of an action",
        "harbour/Courier/c-1/1": "is no id of an action",
        "": "is no id of an action",
    }.items():
        with pytest.raises(UsageError, match=complaint):
            live.acknowledge(id)
    assert live.state(Courier, "nobody") is None
    assert heard(live) == []


def test_texts_that_cannot_be_recorded_are_refused(live: Live) -> None:
    with pytest.raises(UsageError, match="say why it cannot be carried out"):
        live.fail(FLY, " ")
    with pytest.raises(UsageError, match="name who, on one line"):
        live.acknowledge(FLY, by="d\n1")
    with pytest.raises(UsageError, match="10,001 ids at once, 10,000 is the most"):
        live.acknowledge([f"harbour/Courier/c-1/{n}/0" for n in range(1, 10_002)])


def test_an_agent_without_a_handler_is_not_touched(world: World, live: Live) -> None:
    live.send(Buoy, "b-1", Order())
    world.run()
    before = world.engine.view(0).record("Buoy", "b-1")
    live.acknowledge("harbour/Buoy/b-1/1/0")
    world.pass_time(2 * FLIES)
    assert world.engine.view(0).record("Buoy", "b-1") == before
    assert live.dead_letters() == []
    assert live.action("harbour/Buoy/b-1/1/0").status == "acknowledged"


def test_it_expires_once_unless_it_was_acknowledged(world: World, live: Live) -> None:
    world.pass_time(FLIES - 0.1)
    assert heard(live) == []
    world.pass_time(0.2)
    assert heard(live) == ["Fly expired"]
    assert live.action(FLY).status == "expired"
    assert [issued.id for issued in live.actions(pending=True)] == [DROP]
    live.acknowledge(FLY, by="d-1")
    life = live.action(FLY)
    assert (life.status, life.late) == ("acknowledged", True)
    assert heard(live) == ["Fly expired", "Fly by d-1 late"]


def test_it_is_late_where_nobody_waited_for_it(world: World, live: Live) -> None:
    live.send(Buoy, "b-1", Order())
    world.run()
    world.clock.pass_time(FLIES + 1.0)
    assert live.action("harbour/Buoy/b-1/1/0").status == "expired"
    live.acknowledge("harbour/Buoy/b-1/1/0")
    assert live.action("harbour/Buoy/b-1/1/0").late


def test_a_failed_event_leaves_nothing_that_expires(world: World, live: Live) -> None:
    live.send(Buoy, "b-1", Poison())
    world.run()
    assert len(live.dead_letters()) == 1
    assert world.engine.view(0).fates_of(["harbour/Buoy/b-1/1/0"]) == []


def test_a_handler_that_fails_does_not_take_the_acknowledgement_back(live: Live) -> None:
    live.acknowledge(FLY, by="nobody")
    (letter,) = live.dead_letters()
    assert letter.error == "ValueError: by nobody"
    assert heard(live) == []
    assert live.action(FLY).status == "acknowledged"
    live.acknowledge(FLY, by="d-1")
    assert live.action(FLY).by == "nobody"


def test_a_paused_agent_hears_of_it_later(world: World, live: Live) -> None:
    live.pause(Courier, "c-1")
    live.acknowledge(FLY, by="d-1")
    assert heard(live) == []
    assert live.action(FLY).status == "acknowledged"
    live.resume(Courier, "c-1")
    world.run()
    assert heard(live) == ["Fly by d-1"]


def test_pending_are_those_to_be_done_urgent_ones_first(world: World, live: Live) -> None:
    live.send(Courier, "c-2", Order(urgent=True))
    live.send(Buoy, "b-1", Order())
    world.run()
    page = live.actions(pending=True)
    assert [type(each.action) for each in page] == [Land, Drop, Fly, Drop, Fly, Fly]
    assert {each.status for each in page} == {"issued"}
    live.delivered([each.id for each in page])
    live.acknowledge(page[0].id)
    live.fail(page[1].id, "no")
    rest = live.actions(pending=True)
    assert [each.id for each in rest] == [each.id for each in page[2:]]
    assert {each.status for each in rest} == {"delivered"}
    first = live.actions(pending=True, most=1)
    again = live.actions(pending=True, after=first.cursor, most=2)
    others = live.actions(pending=True, after=again.cursor)
    assert sorted(x.id for x in [*first, *again, *others]) == sorted(x.id for x in rest)
    assert live.actions(pending=True, after=others.cursor) == []
    world.clock.pass_time(FLIES)
    assert [type(each.action) for each in live.actions(pending=True)] == [Drop]
    assert len(live.actions()) == 6, "all of them are the audit trail"
    stands = {each.id: str(each.status) for each in live.actions(status=True)}
    assert sorted(stands.values()) == [
        "acknowledged",
        "delivered",
        "expired",
        "expired",
        "expired",
        "failed",
    ]


def test_history_tells_it(live: Live) -> None:
    live.acknowledge(FLY, by="d-1")
    live.fail(DROP, "jammed", by="d-1")
    told = [entry.event for entry in live.history(Courier, "c-1") if entry.origin == "control"]
    assert told == [f"acknowledge {FLY} d-1", f"fail {DROP} d-1 jammed"]


def test_after_a_restart_it_stands(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        live = handle(world)
        live.send(Courier, "c-1", Order())
        world.run()
        live.acknowledge(DROP)
        world.restart()
        live = handle(world)
        with pytest.raises(UsageError, match="was acknowledged before"):
            live.fail(DROP, "no")
        world.pass_time(FLIES + 1.0)
        assert heard(live) == ["Drop by ", "Fly expired"]
        assert live.action(FLY).status == "expired"
