"""Goal: a handle on a gateway does what one on the data does, loses and doubles nothing when the
gateway dies under it, and nothing that comes this way can harm the fleet.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.engine.http.line import Line
from holdfast.engine.http.settings import HttpSettings
from holdfast.engine.http.wire import MEDIA, Packed, pack
from holdfast.engine.urls import open_engine
from holdfast.errors import AccessDenied, GiveUp, SchemaError, Unreachable, UsageError, WrongFleet
from holdfast.gateway.settings import Settings
from holdfast.gateway.tokens import lines_for
from holdfast.runtime.untyped import UntypedLive
from holdfast.stepping.frame import Column, Frame, const, rows, run
from holdfast.stepping.inputs import FLEET_WIDE, external_frame
from holdfast.stepping.rows import raw_payload
from tests.cli.commands import holdfast_here
from tests.gateway.served import Client, Heard, Served, gateway_on, refused, served
from tests.gateway.yard import Ask, Beep, Break, Cart, Counted, Moved, Told, fleet
from tests.servers.ports import free_ports


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("yard")) as found:
        yield found


def test_a_handle_does_over_http_what_it_does_beside_the_data(yard: Served) -> None:
    with fleet.connect(yard.address) as live:
        receipt = live.send(Cart, "h", Counted(number=1), source="gcs", seq=1)
        assert live.state(Cart, "h", after=receipt).numbers == [1]
        assert live.send(Cart, "h", Counted(number=1), source="gcs", seq=1).repeats == 1
        many = live.send_many([(Cart, f"h-{n}", Counted(number=n)) for n in range(40)])
        assert live.state(Cart, "h-39", after=many).numbers == [39]
        keys = live.keys(Cart, [f"c-{n}" for n in range(50)])
        sent = live.send_columns(Cart, Counted, keys, number=list(range(50)))
        assert live.state(Cart, "c-49", after=sent).numbers == [49]
        assert live.ask(Cart, "h", Ask(question="who")) == Told(text="h heard who")
        live.settle()
        assert live.history(Cart, "h") == yard.live.history(Cart, "h")
        assert [a.action for a in live.actions() if a.key == "h"] == [Beep()]
        assert live.positions() == yard.live.positions()
        assert dict(live.states(Cart)) == dict(yard.live.states(Cart))


def test_operators_work_from_afar(yard: Served) -> None:
    with fleet.connect(yard.address) as live:
        live.send(Cart, "op", Break())
        live.settle()
        (letter,) = [each for each in live.dead_letters() if each.key == "op"]
        live.redrive(letter.id)
        live.settle()
        assert [e.redriven for e in live.dead_letters() if e.key == "op"] == [True, False]
        live.pause(Cart, "op", "to look")
        live.send(Cart, "op", Counted(number=1))
        live.settle()
        assert [(each.key, each.reason, each.held) for each in live.paused()] == [
            ("op", "to look", 1)
        ]
        live.resume(Cart, "op")
        live.settle()
        assert live.state(Cart, "op").numbers == [1]


def test_the_async_twin(yard: Served) -> None:
    async def use() -> list[int]:
        async with fleet.connect_async(yard.address) as live:
            receipt = await live.send(Cart, "async", Counted(number=3))
            return (await live.state(Cart, "async", after=receipt)).numbers

    assert asyncio.run(use()) == [3]


def test_commands_of_the_command_line(yard: Served, tmp_path: Path) -> None:
    there = ("--engine", yard.address)
    sent = holdfast_here("send", "Cart/cli", "Counted", "number=5", *there, cwd=tmp_path)
    assert sent.stdout
    yard.live.settle()
    assert "5" in holdfast_here("state", "Cart/cli", *there, cwd=tmp_path).stdout
    assert "Counted" in holdfast_here("history", "Cart/cli", *there, cwd=tmp_path).stdout
    assert "Beep" in holdfast_here("actions", *there, cwd=tmp_path).stdout
    holdfast_here("dead-letters", *there, cwd=tmp_path)


class Other(Agent):
    name: str = ""

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.name = "moved"


class Brake(Action):
    pass


class New(Event):
    pass


def test_what_is_refused_is_told_in_one_line(yard: Served, tmp_path: Path) -> None:
    with pytest.raises(WrongFleet, match="serves fleet 'yard', not 'other'"):
        Fleet("other", agents=[Other]).connect(yard.address)
    with pytest.raises(SchemaError, match="Other is new to the fleet at"):
        Fleet("yard", agents=[Other]).connect(yard.address)
    with pytest.raises(UsageError, match="is a gateway"):
        fleet.open(yard.address)
    with pytest.raises(Unreachable, match="no answer"):
        fleet.connect("http://127.0.0.1:9")
    with pytest.raises(UsageError, match="no secrets in a URL"):
        fleet.connect("http://user:secret@127.0.0.1:9")
    run = holdfast_here(
        "rescale", "f.py", "--partitions", 2, "--engine", yard.address, cwd=tmp_path, code=2
    )
    assert len(run.stderr.splitlines()) == 1


def test_tokens_of_a_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(lines_for("r", "read", "reads") + lines_for("s", "send", "sends"))
    with served(tmp_path, Settings(tokens=str(tokens))) as guarded:
        with pytest.raises(AccessDenied, match="HOLDFAST_TOKEN"):
            fleet.connect(guarded.address)
        monkeypatch.setenv("HOLDFAST_TOKEN", "reads")
        with fleet.connect(guarded.address) as live:
            assert live.state(Cart, "x") is None
            with pytest.raises(AccessDenied, match=r"role send$"):
                live.send(Cart, "x", Counted(number=1))
        (tmp_path / "token").write_text("sends\n")
        with fleet.connect(f"{guarded.address}?token_file={tmp_path / 'token'}") as live:
            live.send(Cart, "x", Counted(number=1))
            with pytest.raises(AccessDenied, match="may not pause"):
                live.pause(Cart, "x", "because")
        guarded.live.settle()
        assert guarded.live.state(Cart, "x").numbers == [1]
        assert guarded.live.paused() == []


def test_a_gateway_that_dies_under_a_handle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=2) as beside:
        (port,) = free_ports(1)
        with gateway_on(url, Settings(), port):
            live = fleet.connect(f"http://127.0.0.1:{port}")
        done = threading.Event()

        def produce() -> None:
            for number in range(1, 61):
                live.send(Cart, "tough", Counted(number=number), timeout=120)
            done.set()

        producer = threading.Thread(target=produce)
        producer.start()
        while not done.is_set():
            with gateway_on(url, Settings(), port):
                done.wait(0.2)
        producer.join()
        live.close()
        beside.settle()
        assert beside.state(Cart, "tough").numbers == list(range(1, 61))
        assert len(beside.history(Cart, "tough")) == 60


@pytest.mark.parametrize("once", [True, False])
def test_what_has_no_number_is_said_once(once: bool) -> None:
    """An override that was heard, though nobody answered, must not go out again by itself."""
    asked = []

    def hear(listener: socket.socket) -> None:
        while True:
            try:
                heard, _ = listener.accept()
            except OSError:
                return
            with heard:
                asked.append(heard.recv(65_536))  # and not a word

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hear, args=(listener,), daemon=True)
        thread.start()
        line = Line(HttpSettings("127.0.0.1", listener.getsockname()[1], secure=False))
        expected = GiveUp if once else Unreachable
        text = "may have been recorded" if once else "does `holdfast run`"
        with (
            pytest.raises(expected, match=text),
            line.ask("POST", "/engine/0/append", b"order", 5.0, once=once),
        ):
            pass
        line.close()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert len(asked) == 1


def test_overrides_are_of_those(yard: Served) -> None:
    """And what is safe to say again, as an acknowledgement, is not."""
    said: list[bool] = []
    with fleet.connect(f"http://127.0.0.1:{yard.port}") as live:
        line: Any = live.engine._line  # type: ignore[attr-defined]
        ask = line.ask

        def noted(*words: Any, once: bool = False) -> Any:
            if words[0] == "POST" and str(words[1]).endswith("/append"):
                said.append(once)
            return ask(*words, once=once)

        line.ask = noted
        live.send(Cart, "once", Counted(number=1))
        live.pause(Cart, "once", "to see")
        live.resume(Cart, "once")
    assert said == [False, True, True]


# ---------------------------------------------------------------- frames that were tampered with


class Forge:
    def __init__(self, yard: Served) -> None:
        self.yard = yard
        engine = open_engine(yard.url, None)
        live = UntypedLive(engine)
        self.schema, self.row = live.names.pack("Counted", {"number": 1})
        self.layout = engine.catalog.layout
        live.close()
        self.partition = self.layout.partition_of("k")

    def frame(self, **columns: Column) -> Frame:
        made = external_frame(
            ["Cart"],
            ["k"],
            raw_payload([self.schema], [self.row]),
            source="forged",
            seqs=range(1, 2),
        )
        return Frame(made.count, {**made.columns, **columns})

    def command_of(self, *command: object) -> Heard:
        columns = {"origin": const("control"), "agent": const("Cart"), "key": const("k")}
        frame = Frame(1, {**columns, "command": rows([list(command)])})
        return self.post(pack([Packed(frame.encode(), None)]))

    def post(self, body: bytes, partition: int | None = None) -> Heard:
        number = self.partition if partition is None else partition
        path = f"/engine/{number}/append"
        return Client(self.yard.port).ask("POST", path, body, {"content-type": MEDIA})

    def send(self, frame: Frame, source: str | None = "forged", first: int = 1) -> Heard:
        return self.post(pack([Packed(frame.encode(), source, first)]))


def test_frames_that_were_tampered_with_reach_no_inbox(yard: Served) -> None:
    forge = Forge(yard)
    yard.live.settle()  # what the tests before have sent is folded, so that nothing moves by itself
    before = yard.live.positions()
    number = forge.schema
    bad: list[Heard] = [
        forge.send(forge.frame(), source="another"),
        forge.send(forge.frame(), first=2),
        forge.send(forge.frame(), source=None),
        forge.send(forge.frame(source=const("~once-x")), source="~once-x"),
        forge.send(forge.frame(source=const("x" * 500)), source="x" * 500),
        forge.send(forge.frame(seq=rows([True]))),
        forge.send(forge.frame(seq=rows([1.0]))),
        forge.send(forge.frame(origin=const("message"))),
        forge.send(forge.frame(origin=const("reply"))),
        forge.send(forge.frame(origin=const(7))),
        forge.send(forge.frame(agent=const("Drone"))),
        forge.send(forge.frame(agent=const(7))),
        forge.send(forge.frame(agent=const(FLEET_WIDE))),
        forge.send(forge.frame(agent=run("Cart", 2**62))),
        forge.send(forge.frame(key=const("a/b"))),
        forge.send(forge.frame(key=rows([["k"]]))),
        forge.send(forge.frame(key=rows(["k", "k"]))),
        forge.send(forge.frame(schema=const(999))),
        forge.send(forge.frame(schema=const("x"))),
        forge.send(forge.frame(event_time=rows(["noon"]))),
        forge.send(forge.frame(event_time=const(float("nan")))),
        forge.send(forge.frame(event_time=rows([None]))),
        forge.send(forge.frame(previous=rows([-1]))),
        forge.send(forge.frame(asks=const("yes"))),
        forge.send(forge.frame(stamp=const(1.0))),
        forge.send(forge.frame(refused=const("x"))),
        forge.send(forge.frame(**{f"rows.{number}": Column("opaque", b"\x91\x91\xa1x")})),
        forge.send(forge.frame(**{f"rows.{number}": Column("opaque", b"\x90")})),
        forge.send(forge.frame(**{f"rows.{number}": Column("opaque", b"\xc1")})),
        forge.send(forge.frame(**{f"rows.{number}x": const(1)})),
        forge.send(Frame(2**31, forge.frame().columns)),
        forge.send(Frame(0, forge.frame().columns)),
        forge.post(pack([Packed(b"HFRM", "forged", 1)])),
        forge.post(pack([Packed(forge.frame().encode()[:-1] + b"x", "forged", 1)])),
        forge.post(pack([Packed(forge.frame().encode(), "forged", numbers=[2**64 - 1])])),
        forge.post(pack([Packed(forge.frame().encode(), "forged", flags=b"\x02")])),
        forge.post(b"\xc1"),
        forge.post(b""),
        forge.command_of("pause"),
        forge.command_of("pause", 7),
        forge.command_of("redrive", "x"),
        forge.command_of("redrive", 2**63),
        forge.command_of("redrive", 123456),
        forge.command_of("compensate", "id", "why", 1, b"row"),
        forge.command_of("compensate"),
        forge.command_of("destroy"),
        forge.command_of(),
    ]
    for place, heard in enumerate(bad):
        assert heard.status in (400, 422), (place, heard)
        assert heard.headers["content-type"] == "application/problem+json"
    refused(forge.post(b"", 99), 404, "no partition 99")
    endless = f"/engine/{'9' * 5_000}/append"  # Python reads no number of so many digits
    assert Client(yard.port).ask("POST", endless, b"", {"content-type": MEDIA}).status == 404
    elsewhere = next(n for n in forge.layout.numbers if n != forge.partition)
    moved = forge.post(pack([Packed(forge.frame().encode(), "forged", 1)]), elsewhere)
    assert refused(moved, 503, "keys of partition")["title"] == "Rescaling"
    assert yard.live.positions() == before
    assert forge.send(forge.frame()).status == 200  # as it was made, it is taken
    yard.live.settle()
    assert yard.live.state(Cart, "k").numbers == [1]


def test_frames_with_any_byte_changed_stop_nobody(yard: Served) -> None:
    """Half of them with a checksum that fits. Whatever is taken can be folded."""
    import struct
    import zlib

    forge, chance = Forge(yard), random.Random(9)
    good = forge.frame().encode()
    for number in range(300):
        spoiled = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        body = bytes(spoiled[:-4])
        if number % 4:
            spoiled[-4:] = struct.pack("<I", zlib.crc32(body))
        heard = forge.post(pack([Packed(bytes(spoiled), "forged", 1)]))
        assert heard.status in (200, 422, 503), (number, heard)
    yard.live.send(Cart, "k", Counted(number=77))
    yard.live.settle()
    assert 77 in yard.live.state(Cart, "k").numbers
    assert yard.live.positions()[forge.partition].lag == 0
