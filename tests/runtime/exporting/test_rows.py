"""Goal: every input and every action comes out once, in the order it was folded, with all that
`history` and `actions` tell about it, whatever the target and however often one exports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from holdfast import Fleet
from holdfast.engine.port import Engine, View
from holdfast.engine.urls import open_engine
from holdfast.runtime.exporting import reading
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.reading import _inbox_columns
from holdfast.runtime.exporting.target import Place
from holdfast.runtime.reading import Plain, Reading, Untyped
from holdfast.stepping.commit import Head
from holdfast.stepping.frame import Frame, const, opaque, rows
from holdfast.stepping.inputs import StoredFrame
from tests.runtime import doors
from tests.runtime.exporting.fleets import Arm, Drone, Fail, Tell, Tick, Visitor, fleet
from tests.runtime.exporting.sinks import FLEET, Row, Sink, export, exporter, micros
from tests.runtime.semantics import World, opened


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path, partitions=2) as world:
        yield world


def stir(world: World) -> None:
    """Inputs of every origin, for a few agents."""
    live = world.live
    live.send_many([(Drone, f"d-{i}", Tick(n=i, note=f"nº {i}")) for i in range(6)])
    live.send(Visitor, "v-1", Tick(n=1), source="gate", seq=7, event_time=12.5)
    live.send(Drone, "d-0", Arm(seconds=5.0))
    live.send(Drone, "d-1", Tell(to="d-4"))
    live.send(Drone, "d-2", Fail())
    world.run()
    live.pause(Drone, "d-3", "to look at it")
    live.send(Drone, "d-3", Tick(n=3))
    world.pass_time(10.0)
    live.resume(Drone, "d-3")
    live.send(Drone, "d-0", Tick(n=9))
    world.pass_time(100.0)


def told(engine: Engine) -> dict[str, list[Row]]:
    """What `history` tells of each agent: the oracle. It reads one agent at a time, by itself."""
    reader = Reading(engine, Untyped(engine.catalog.schemas))
    names = [("Drone", f"d-{i}") for i in range(6)] + [("Visitor", "v-1")]
    found = {}
    for agent, key in names:
        found[f"{agent}/{key}"] = [
            {
                "position": entry.position,
                "stamp": micros(entry.now),
                "origin": entry.origin,
                "type": entry.event.name if isinstance(entry.event, Plain) else None,
                "payload": entry.event.values if isinstance(entry.event, Plain) else entry.event,
                "source": entry.source,
                "seq": entry.seq,
                "sender": entry.sender,
            }
            for entry in reader.history(agent, key)
        ]
    return found


def by_agent(exported: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in exported:
        name = f"{row.pop('agent')}/{row.pop('key')}"
        for extra in ("partition", "fired", "event_time"):
            row.pop(extra)
        if row["origin"] == "control":
            row["payload"] = " ".join(map(str, row["payload"]))
        found.setdefault(name, []).append(row)
    return found


def test_events_are_what_history_tells(world: World, sink: Sink) -> None:
    stir(world)
    count = export(world.engine, "events", sink)
    exported = sink.rows("events")
    assert count == len(exported)
    origins = {row["origin"] for row in exported}
    assert origins == {"external", "message", "timer", "expiry", "control"}
    assert by_agent(exported) == told(world.engine)


def test_events_stand_in_the_order_of_folding(world: World, sink: Sink) -> None:
    stir(world)
    export(world.engine, "events", sink)
    exported = sink.rows("events")
    for number in (0, 1):
        own = [row for row in exported if row["partition"] == number]
        inbox = [row["position"] for row in own if row["fired"] is None]
        fired = [row["fired"] for row in own if row["fired"] is not None]
        assert inbox == list(range(world.engine.view(number).head().position))
        assert fired == list(range(world.engine.view(number).head().journal_next))
        assert [row["position"] for row in own] == sorted(row["position"] for row in own)


def test_a_claimed_time_is_exported_and_a_missing_one_is_not_made_up(
    world: World, sink: Sink
) -> None:
    stir(world)
    export(world.engine, "events", sink)
    times = {row["source"]: row["event_time"] for row in sink.rows("events")}
    assert times["gate"] == 12_500_000
    assert [each for source, each in times.items() if source and source[0] == "~"] == [None]


def test_actions_are_what_the_handle_tells(world: World, sink: Sink) -> None:
    stir(world)
    assert export(world.engine, "actions", sink) == len(sink.rows("actions"))
    reader = Reading(world.engine, Untyped(world.engine.catalog.schemas))
    expected = [
        {
            "id": each.id,
            "agent": each.agent,
            "key": each.key,
            "type": "Beep",
            "issued": micros(each.now),
            "expires_at": micros(each.expires_at),
            "priority": "urgent",
            "undoes": None,
            "why": None,
            "payload": each.action.values if isinstance(each.action, Plain) else None,
        }
        for each in reader.actions(None, 100)
    ]
    exported = sink.rows("actions")
    assert len(exported) == 5
    for number in (0, 1):
        numbers = [row["number"] for row in exported if row["partition"] == number]
        assert numbers == list(range(len(numbers)))
    for row in exported:
        del row["partition"], row["number"]
    assert exported == expected


def test_many_small_exports_are_one_large_one(
    world: World, sink: Sink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Places inside frames, between timers of one position, and where nothing is new."""
    monkeypatch.setattr(reading, "ROWS_PER_BATCH", 1)
    for seconds in (0.5, 1.0, 30.0):
        for i in range(4):
            world.live.send(Drone, f"d-{i}", Arm(seconds=seconds))
        world.run()
        export(world.engine, "events", sink)
        export(world.engine, "actions", sink)
        world.pass_time(2.0)
    stir(world)
    for _ in range(2):
        export(world.engine, "events", sink)
        export(world.engine, "actions", sink)
    assert by_agent(sink.rows("events")) == told(world.engine)
    ids = [row["id"] for row in sink.rows("actions")]
    assert ids == [each.id for each in world.live.actions()]


class HalfFolded:
    """A view whose head stands inside a frame, as when events are folded one by one."""

    def __init__(self, view: View, position: int) -> None:
        self._view = view
        self._position = position

    def head(self) -> Head:
        return self._view.head()._replace(position=self._position)

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)


def test_places_inside_a_frame(tmp_path: Path) -> None:
    with opened(fleet, "memory", tmp_path) as world:
        world.live.send_many([(Drone, f"d-{i}", Tick(n=i)) for i in range(10)])
        world.run()
        view = world.engine.view(0)
        payloads = Payloads(world.engine.catalog.schemas)
        gaps = reading.Gaps(skip=False, note=print)
        place = Place(0, view.incarnation())
        found: list[object] = []
        for position in (3, 4, 9, 10):
            half = cast(View, HalfFolded(view, position))
            ((batch, place),) = reading.batches(
                "events", reading.events(half, place, payloads, gaps)
            )
            found += batch.columns["position"]
            assert place.position == position
    assert found == list(range(10))


def test_an_empty_fleet_gives_no_rows(world: World, sink: Sink) -> None:
    for _ in range(2):
        assert export(world.engine, "events", sink) == 0
        assert export(world.engine, "actions", sink) == 0
        assert export(world.engine, "states", sink) == 0
    assert sink.rows("events") == []
    assert sink.rows("actions") == []
    assert sink.states() == {}


def test_from_the_beginning_gives_everything_again_once(world: World, sink: Sink) -> None:
    stir(world)
    for kind in ("events", "actions", "states"):
        first = export(world.engine, kind, sink)
        with exporter(world.engine, kind, sink) as made:
            made.clear()
            again = made.run()
        assert first == again > 0
    assert by_agent(sink.rows("events")) == told(world.engine)
    assert len(sink.rows("actions")) == 5


def test_a_reply_names_its_call() -> None:
    frame = Frame(
        1,
        {
            "origin": const("reply"),
            "agent": const("Drone"),
            "key": rows(["d-1"]),
            "call": rows(["harbour/Drone/d-1/3/call0"]),
            "schema": const(1),
            "rows.1": opaque(msgspec.msgpack.encode([[4, "ok"]])),
        },
    )
    payloads = Payloads(lambda: {1: Tick.__holdfast__.schema})
    columns = _inbox_columns(StoredFrame(5, 1, 9.0, frame.encode()), 0, payloads)
    assert columns["origin"] == ["reply"]
    assert columns["sender"] == ["harbour/Drone/d-1/3/call0"]
    assert columns["type"] == ["Tick"]
    assert columns["payload"] == [b'{"n":4,"note":"ok"}']


def test_an_undo_has_an_id_of_its_own(tmp_path: Path, sink: Sink) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    harbour = Fleet(FLEET, agents=[doors.Door])  # a sink knows its tables by that name
    with harbour.open(url) as live:
        live.send(doors.Door, "d-1", doors.Close())
        live.settle()
        (lock,) = live.actions()
        undo = live.compensate(lock.id, "the wrong door")
        engine = open_engine(url, FLEET)
        export(engine, "actions", sink)
        engine.close()
    found = [(row["id"], row["undoes"], row["why"]) for row in sink.rows("actions")]
    assert found == [(lock.id, None, None), (undo, lock.id, "the wrong door")]
