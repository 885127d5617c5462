"""Goal: what is urgent overtakes a backlog by whatever door it comes, and a full one too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway.settings import Bounds, Settings
from holdfast.runtime.untyped import Address, connect_untyped
from tests.cli.commands import eventually
from tests.gateway.served import Client, gateway_on, refused
from tests.gateway.yard import Cart, Counted, Halt, fleet

QUICK = Settings(bounds=Bounds(send_seconds=0.3))
Say = Callable[[Client, int], object]


def event(kind: str, **data: object) -> dict[str, Any]:
    return {"agent": "Cart", "key": "c", "type": kind, "data": data}


def by_json(client: Client, port: int) -> object:
    return client.events(event("Halt")).status == 200


def by_numbers(client: Client, port: int) -> object:
    return client.events(event("Halt") | {"source": "s", "seq": 9}).status == 200


def by_ask(client: Client, port: int) -> object:
    """Nobody answers: the fleet does not run."""
    return client.post("/ask", event("Halt") | {"timeout": 0.2}).status == 504


def by_handle(client: Client, port: int) -> object:
    with fleet.connect(f"http://127.0.0.1:{port}") as live:
        return live.send(Cart, "c", Halt())


@pytest.mark.parametrize("say", [by_json, by_numbers, by_ask, by_handle])
def test_it_passes_a_full_inbox(tmp_path: Path, say: Say) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass  # nobody folds from here on
    with gateway_on(f"{url}?backlog_events_max=5", QUICK) as port:
        client = Client(port)
        assert client.events(*[event("Counted", number=n) for n in range(5)]).status == 200
        refused(client.events(event("Counted", number=5)), 429, "folded")
        assert say(client, port)
        with fleet.open(url) as live:
            live.settle()
            cart = live.state(Cart, "c")
            assert cart is not None
            assert (cart.halted_at, cart.numbers) == (0, [0, 1, 2, 3, 4])


def test_of_a_request_for_a_full_inbox_the_urgent_part_is_stored(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass
    with gateway_on(f"{url}?backlog_events_max=1", QUICK) as port:
        client = Client(port)
        assert client.events(event("Counted", number=0)).status == 200
        rows = [event("Counted", number=1), event("Halt")]
        numbered = [row | {"source": "s", "seq": n} for n, row in enumerate(rows, start=1)]
        assert refused(client.events(*numbered), 429, "folded")["stored"] == 1
        with fleet.open(url) as live:
            live.settle()
            again = client.events(*numbered)
            assert again.status == 200
            assert again.json()["repeats"] == 1
            live.settle()
            cart = live.state(Cart, "c")
            assert cart is not None
            assert (cart.halted_at, cart.numbers) == (0, [0, 1])


def test_those_without_classes_know_it_too(tmp_path: Path) -> None:
    """As `holdfast send` does: by what is stored with the data."""
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass
    with fleet.connect(url) as live:
        live.send(Cart, "c", Counted(number=1))
        with connect_untyped(url) as untyped:
            untyped.send([Address("Cart", "c", "Halt", {})])
        with fleet.open(url) as folding:
            folding.settle()
        cart = live.state(Cart, "c")
        assert cart is not None
        assert cart.halted_at == 0


def test_two_events_under_one_number_are_refused_though_one_is_urgent(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1), gateway_on(url) as port:
        rows = [event("Counted", number=1), event("Halt")]
        heard = Client(port).events(*[row | {"source": "s", "seq": 5} for row in rows])
        refused(heard, 422, "two events under one number")


def test_it_does_not_wait_for_those_that_wait_for_room(tmp_path: Path) -> None:
    """More than there are threads for: nobody of them is answered before the inbox has room."""
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass
    patient, others = Settings(bounds=Bounds(send_seconds=25.0)), threads_of("send")
    with (
        gateway_on(f"{url}?backlog_events_max=1", patient) as port,
        ThreadPoolExecutor(80) as crowd,
    ):
        client = Client(port)
        assert client.events(event("Counted", number=0)).status == 200
        waiting = [crowd.submit(client.events, event("Counted", number=n)) for n in range(1, 81)]
        eventually("all threads are taken", lambda: len(threads_of("send") - others) == 48)
        assert client.events(event("Halt")).status == 200
        with fleet.connect(f"http://127.0.0.1:{port}") as handle:
            handle.pause(Cart, "other", "smoke")
        assert not any(each.done() for each in waiting)
        with fleet.open(f"{url}?backlog_events_max=1000") as live:
            assert {each.result().status for each in waiting} == {200}
            live.settle()
            cart = live.state(Cart, "c")
            assert cart is not None
            assert (cart.halted_at, sorted(cart.numbers)) == (0, list(range(81)))


def test_commands_do_not_wait_for_those_that_read(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass
    others = threads_of("slow")
    with gateway_on(url) as port, ThreadPoolExecutor(8) as crowd:
        client = Client(port)
        receipt = client.events(event("Counted", number=0)).json()["receipt"]
        path = f"/agents/Cart/c?after={receipt}&timeout=25"
        waiting = [crowd.submit(client.get, path) for _ in range(8)]
        eventually("all threads are taken", lambda: len(threads_of("slow") - others) == 3)
        assert client.post("/agents/Cart/c/pause", {"why": "smoke"}).status == 200
        assert not any(each.done() for each in waiting)
        with fleet.open(url):
            assert {each.result().status for each in waiting} == {200}


def threads_of(crew: str) -> set[threading.Thread]:
    """Of all gateways of this process: some may still be there of one that has stopped."""
    return {each for each in threading.enumerate() if each.name.startswith(f"holdfast-{crew}")}
