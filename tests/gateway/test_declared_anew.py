"""Goal: a gateway that runs on sends what the program that folds now has declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, OutdatedCode, on
from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.errors import AccessDenied, DiskFull, HoldfastError
from holdfast.gateway.mqtt.batching import Batcher
from holdfast.gateway.mqtt.decoding import Row
from holdfast.gateway.mqtt.packets import Published
from holdfast.gateway.settings import Bounds, Settings
from holdfast.model.schema import Schema
from holdfast.runtime.untyped import connect_untyped
from tests.cli.commands import eventually
from tests.gateway.served import Client, gateway_on, refused

QUICK = Settings(bounds=Bounds(send_seconds=0.2))


def fleet_of(
    default: int, priority: Literal["normal", "urgent"], placed: bool = False
) -> tuple[Fleet, type[Agent]]:
    """Of `placed` ones, loads and lorries have a place."""

    class Halt(Event, priority=priority):
        pass

    if placed:

        class Load(Event):
            weight: int = default
            place: str = ""

    else:

        class Halt(Event, priority=priority):  # type: ignore[no-redef]
            pass

        class Load(Event):  # type: ignore[no-redef]
            weight: int = default

    class Lorry(Agent):
        loads: list[int] = []
        halted_at: int = -1
        place: str = ""

        @on
        def load(self, event: Load, ctx: Context) -> None:
            self.loads = [*self.loads, event.weight]
            self.place = getattr(event, "place", "")

        @on
        def halt(self, event: Halt, ctx: Context) -> None:
            self.halted_at = len(self.loads)

    return Fleet("quarry", agents=[Lorry]), Lorry


def first_fleet() -> tuple[Fleet, type[Agent]]:
    return fleet_of(1, "normal")


def second_fleet() -> tuple[Fleet, type[Agent]]:
    return fleet_of(2, "urgent")


def third_fleet() -> tuple[Fleet, type[Agent]]:
    return fleet_of(2, "urgent", placed=True)


def event(kind: str, **data: object) -> dict[str, object]:
    return {"agent": "Lorry", "key": "l", "type": kind, "data": data}


def folded(url: str, fleet: Fleet, lorry: type[Agent]) -> object:
    with fleet.open(url, partitions=1) as live:
        live.settle()
        return live.state(lorry, "l")


@pytest.mark.parametrize("later", [second_fleet, third_fleet])
@pytest.mark.parametrize("numbered", [False, True])
def test_a_class_that_became_urgent_overtakes(
    tmp_path: Path, numbered: bool, later: Callable[[], tuple[Fleet, type[Agent]]]
) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    numbers = {"source": "s", "seq": 1} if numbered else {}
    folded(url, *first_fleet())
    with gateway_on(f"{url}?backlog_events_max=1", QUICK) as port:
        client = Client(port)
        assert client.events(event("Load")).status == 200
        refused(client.events(event("Halt") | numbers), 429, "folded")
        folded(url, *later())
        assert client.events(event("Load")).status == 200

        def overtakes() -> bool:
            return client.events(event("Halt") | numbers).status == 200

        eventually("the gateway knows that it is urgent", overtakes)
        state = folded(url, *later())
        assert (state.halted_at, len(state.loads)) == (1, 2)  # type: ignore[attr-defined]


def test_who_only_connects_declares_nothing(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    folded(url, *first_fleet())
    later, lorry = second_fleet()
    with later.connect(url) as live:
        live.send(lorry, "l", later.events["Load"]())
        stored = live.engine.catalog.schemas().values()
        assert [each.options for each in stored if each.name == "Halt"] == [{"defaults": {}}]


def test_nor_does_an_outdated_program(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    for fleet, lorry in (first_fleet(), third_fleet()):
        with fleet.open(url, partitions=1) as live:
            live.send(lorry, "l", fleet.events["Load"]())
            live.settle()
    old, _ = fleet_of(7, "normal")
    with pytest.raises(OutdatedCode), old.open(url) as live:
        live.settle()
    with third_fleet()[0].connect(url) as live:
        stored = live.engine.catalog.schemas().values()
        loads = [each.options["defaults"] for each in stored if each.name == "Load"]
        assert loads == [{"weight": 1}, {"weight": 2, "place": ""}]


def test_when_an_issued_action_expires_stays_as_it_was(tmp_path: Path) -> None:
    def fleet_with(seconds: float) -> tuple[Fleet, type[Agent], type[Event]]:
        class Go(Event):
            pass

        class Move(Action, expires=seconds):
            pass

        class Lorry(Agent):
            @on
            def go(self, event: Go, ctx: Context) -> None:
                ctx.emit(Move())

        return Fleet("quarry", agents=[Lorry]), Lorry, Go

    url = f"sqlite:{tmp_path / 'data'}"
    fleet, lorry, go = fleet_with(1000.0)
    with fleet.open(url) as live:
        live.send(lorry, "l", go())
        live.settle()
        (before,) = live.actions()
    with fleet_with(1.0)[0].open(url) as live:
        live.settle()
        (after,) = live.actions(pending=True)
        assert after.expires_at == before.expires_at


@pytest.mark.parametrize("refusal", [DiskFull("no space left"), AccessDenied("it is read only")])
def test_a_catalog_that_takes_nothing_keeps_nobody_from_folding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusal: HoldfastError,
) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    folded(url, *first_fleet())
    register = SqliteCatalog.register

    def refuse(
        self: SqliteCatalog, schemas: Sequence[Schema], *, renew: bool = False
    ) -> dict[str, int]:
        if renew:
            raise refusal
        return register(self, schemas)

    monkeypatch.setattr(SqliteCatalog, "register", refuse)
    fleet, lorry = second_fleet()
    with fleet.open(url) as live:
        live.send(lorry, "l", fleet.events["Load"]())
        live.settle()
        assert live.state(lorry, "l").loads == [2]  # type: ignore[union-attr]
    assert f"not yet declared to those without classes: {refusal}" in caplog.text


def test_over_http_the_fleet_says_what_is_urgent(tmp_path: Path) -> None:
    """A client that declares a class as urgent does not make it so for others' backlogs."""
    url = f"sqlite:{tmp_path / 'data'}"
    folded(url, *first_fleet())
    with gateway_on(url) as port:
        later, lorry = second_fleet()
        with later.connect(f"http://127.0.0.1:{port}") as live:
            live.send(lorry, "l", later.events["Load"]())
            live.send(lorry, "l", later.events["Halt"]())
            state = folded(url, *first_fleet())
            assert state.halted_at == 1  # type: ignore[attr-defined]
            folded(url, *second_fleet())
            live.send(lorry, "l", later.events["Load"]())

            def overtakes() -> bool:
                live.send(lorry, "l", later.events["Halt"]())
                return live.engine.view(0).urgent_next() > 0

            eventually("the gateway knows that it is urgent", overtakes)


def test_defaults_and_new_fields_are_those_of_the_new_program(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    folded(url, *first_fleet())
    with gateway_on(url) as port:
        client = Client(port)
        assert client.events(event("Load")).status == 200
        fleet, lorry = second_fleet()
        with fleet.open(url) as live:

            def weighs_two() -> bool:
                assert client.events(event("Load")).status == 200
                live.settle()
                return live.state(lorry, "l").loads[-1] == 2  # type: ignore[union-attr]

            eventually("a load of two", weighs_two)
        refused(client.events(event("Load", place="pit")), 422, "no field 'place'")
        folded(url, *third_fleet())

        def is_taken() -> bool:
            return client.events(event("Load", weight=5, place="pit")).status == 200

        eventually("the gateway knows places", is_taken)
        state = folded(url, *third_fleet())
        assert (state.loads[-1], state.place) == (5, "pit")  # type: ignore[attr-defined]


def test_a_bridge_follows(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    folded(url, *first_fleet())
    with connect_untyped(url) as live:
        batcher = Batcher(live.router, "~bridge")
        schema, packed = live.names.pack("Halt", {})
        row = Row("Lorry", "l", schema, packed, None, 0, Published("", b""))

        def is_urgent() -> bool:
            ((piece,),), _ = batcher.rounds([row])
            return piece.urgent

        assert not is_urgent()
        folded(url, *second_fleet())
        eventually("the bridge knows that it is urgent", is_urgent)
