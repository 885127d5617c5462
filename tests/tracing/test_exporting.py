"""Goal: exporting never disturbs a fleet: what is too much or nobody takes is dropped and counted,
said once, and asking for it without the SDK is an error of one line."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from holdfast import Live, UsageError
from holdfast.runtime.tracing import exporting
from holdfast.runtime.tracing.exporting import ENDPOINT, Exporter, ask_for, start_tracing
from holdfast.runtime.tracing.spans import Span
from tests.cli.commands import eventually, holdfast_here, refused
from tests.metering.running import value, values_of
from tests.servers.ports import free_ports
from tests.tracing.couriers import Order, Shop, fleet
from tests.tracing.receiver import receiving

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans(count: int) -> Iterator[Span]:
    for n in range(count):
        own = f"{CONTEXT[:36]}{n + 1:016x}-01"
        yield Span(f"s-{n}", "consumer", CONTEXT, own, 1.0, 2.0, {"n": n})


def test_spans_come_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        exporter = Exporter("couriers", "worker-7")
        exporter.add(1_100, lambda: spans(1_100))
        exporter.stop()
        assert (exporter.exported, exporter.dropped) == (1_100, 0)
        found = receiver.spans
    assert [each.name for each in found] == [f"s-{n}" for n in range(1_100)]
    assert (found[7].trace, found[7].parent) == (CONTEXT[3:35], CONTEXT[36:52])
    assert (found[7].id, found[7].kind, found[7].seconds) == (f"{8:016x}", "consumer", 1.0)
    assert found[7].attributes == {"holdfast.fleet": "couriers", "n": 7}
    assert (found[7].service, found[7].process) == ("couriers", "worker-7")


def test_what_is_too_much_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "EXPORT_SECONDS", 3600.0)
    with receiving() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        exporter = Exporter("couriers", "worker-0")
        for _ in range(4):
            exporter.add(3_000, lambda: spans(3_000))
        most = exporting.SPANS_WAITING_MAX
        assert exporter.dropped == 12_000 - most
        exporter.stop()
        assert exporter.exported == len(receiver.spans) == most


def send(live: Live, count: int) -> None:
    for n in range(count):
        live.send(Shop, "s", Order(depot=f"d-{n}"), trace=CONTEXT)


def test_a_receiver_that_is_away_is_told_of_once_and_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{port}")
    monkeypatch.setattr(exporting, "TIMEOUT_SECONDS", 1.5)
    with caplog.at_level(logging.WARNING), fleet.open("memory:") as live:
        for turn in range(1, 4):
            send(live, 2)
            live.settle()
            eventually("they are dropped", partial(has_dropped, live, 8.0 * turn))
        assert len(live.actions()) == 6
    told = [each.getMessage() for each in caplog.records]
    assert [line for line in told if "traces" in line] == [
        f"program: no traces: http://127.0.0.1:{port} does not take them (Connection refused); "
        "the fleet goes on without"
    ]
    assert len(told) == 1, told


def wait_until_dropped(exporter: Exporter, count: int) -> None:
    eventually("it is dropped", lambda: exporter.dropped == count)


def test_a_receiver_that_refuses_and_then_takes_them_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exporting, "EXPORT_SECONDS", 0.01)
    with caplog.at_level(logging.WARNING), receiving() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        receiver.status = 404
        exporter = Exporter("couriers", "worker-7")
        for count in (1, 2):
            exporter.add(1, lambda: spans(1))
            wait_until_dropped(exporter, count)
        receiver.status = 200
        exporter.add(1, lambda: spans(1))
        eventually("it is exported", lambda: exporter.exported == 1)
        exporter.stop()
    assert [each.getMessage() for each in caplog.records] == [
        f"worker-7: no traces: {receiver.url} does not take them (404 Not Found); "
        "the fleet goes on without",
        f"worker-7: {receiver.url} takes traces again",
    ]


def has_dropped(live: Live, count: float) -> bool:
    found = values_of(live.metrics())
    assert value(found, "holdfast_spans_exported_total") == 0.0
    return value(found, "holdfast_spans_dropped_total") == count


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where no receiver is; exports are made when the test says so."""
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv(ENDPOINT, url)
    monkeypatch.setattr(exporting, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(exporting, "EXPORT_SECONDS", 3600.0)
    return url


def test_an_exporter_of_the_program_is_heard(away: str, caplog: pytest.LogCaptureFixture) -> None:
    theirs = logging.getLogger(OTLPSpanExporter.__module__)
    exporter = Exporter("couriers", "program")
    theirs.error("theirs, while ours is there")
    exporter.add(1, lambda: spans(1))
    exporter.stop()
    theirs.error("theirs, afterwards")
    told = [each.getMessage() for each in caplog.records]
    assert told[::2] == ["theirs, while ours is there", "theirs, afterwards"]
    assert told[1].startswith(f"program: no traces: {away} does not take them (")
    assert len(told) == 3, told
    assert theirs.filters == []


class Refusing:
    """Takes nothing, and tells how often and on which thread it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def export(self, spans: object) -> SpanExportResult:
        self.asked.append(threading.current_thread().name)
        self.begun.set()
        assert self.goes_on.wait(120)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("seconds", [3600.0, 0.01], ids=["before an export", "within one"])
@pytest.mark.usefixtures("away")
def test_the_first_export_that_fails_ends_it(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(exporting, "EXPORT_SECONDS", seconds)
    exporter, refusing = Exporter("couriers", "worker-0"), Refusing()
    monkeypatch.setattr(exporter, "_exporter", refusing)
    exporter.add(5_000, lambda: spans(5_000))
    exporter.add(1_000, lambda: spans(1_000))
    if seconds < 1:
        assert refusing.begun.wait(120)
    stopping = threading.Thread(target=exporter.stop)
    stopping.start()
    eventually("it is told to stop", lambda: exporter._stopping)
    refusing.goes_on.set()
    stopping.join(120)
    assert refusing.asked == ["holdfast-traces"]
    assert (exporter.exported, exporter.dropped) == (0, 6_000)


def test_nobody_asks_and_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    assert start_tracing("couriers", "worker-0") is None
    program = (
        "import sys, holdfast, tests.tracing.couriers as c\n"
        "with c.fleet.open('memory:') as live:\n"
        "    live.send(c.Shop, 's', c.Order(depot='d'))\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"])
def test_the_usual_variables_turn_it_off(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    monkeypatch.setenv(name, {"OTEL_SDK_DISABLED": "true"}.get(name, "none"))
    assert start_tracing("couriers", "worker-0") is None


def test_without_the_sdk_it_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exporting, "is_installed", lambda: False)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    with pytest.raises(UsageError, match=rf"^{ENDPOINT} needs .*holdfast\[traces\]"):
        ask_for(None)
    words = ["run", "fleet.py", "--otlp", "http://127.0.0.1:4318"]
    done = holdfast_here(*words, cwd=tmp_path, code=2)
    refused(done, "--otlp needs opentelemetry-exporter-otlp-proto-http", "holdfast[traces]")


@pytest.mark.parametrize(
    "url",
    [
        "collector:4318",
        "nonsense",
        "ftp://collector:4318",
        "http://",
        "http://:4318",
        "http://localhost:notaport",
        "http://localhost:0",
        "http://localhost:65536",
        "http://[::1",
        "http://local host:4318",
    ],
)
def test_a_url_of_no_receiver_is_refused_in_one_line(tmp_path: Path, url: str) -> None:
    for words in (["run", "fleet.py"], ["gateway", "--port", "0"]):
        done = holdfast_here(*words, "--otlp", url, cwd=tmp_path, code=2)
        refused(done, f"--otlp {url}: give the URL of a receiver, http://host:4318")
    for name in (ENDPOINT, exporting.OF_TRACES):
        done = holdfast_here("run", "fleet.py", cwd=tmp_path, code=2, variables={name: url})
        refused(done, f"{name} {url}: give the URL of a receiver, http://host:4318")


@pytest.mark.parametrize("url", ["http://localhost", "https://user:x@[::1]:4318/v1/traces"])
def test_a_url_of_a_receiver_is_taken(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(ENDPOINT, url)
    ask_for(url)
