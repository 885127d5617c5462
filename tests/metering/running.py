"""A running fleet with load, and a page of its metrics, as a Prometheus meets them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from holdfast.runtime.handle import Handle
from holdfast.runtime.metering.exposition import CONTENT_TYPE, exposition
from holdfast.runtime.untyped import Address, UntypedLive, connect_untyped
from tests.cli.commands import Running

PROGRAM = Path(__file__).with_name("program.py")
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def values_of(text: bytes) -> Values:
    """By another reader than ours: name and labels of every line, with its value."""
    found: Values = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            place = sample.name, frozenset(sample.labels.items())
            assert place not in found, f"twice: {place}"
            found[place] = sample.value
    return found


def value(found: Values, name: str, **labels: object) -> float | None:
    """The sum over all that have these labels; None where there is none."""
    wanted = {(each, str(text)) for each, text in labels.items()}
    own = [number for (known, given), number in found.items() if known == name and wanted <= given]
    return sum(own) if own else None


class Page:
    """`/metrics`, on a port that the system chose."""

    def __init__(self, live: Handle) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exposition(live)
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def running(folder: Path, *more: object) -> Iterator[tuple[Running, UntypedLive]]:
    words = [PROGRAM, "--workers", 2, "--data", "data", *more]
    with Running(*words, cwd=folder) as process:
        live = connect_untyped(f"sqlite:{folder / 'data'}")
        try:
            yield process, live
        finally:
            live.close()
        process.stop()


def send(live: UntypedLive, key: str, event: str, **values: object) -> None:
    live.send([Address("Cart", key, event, values)])


def drive(live: UntypedLive, events: int, *, hot: str = "") -> None:
    """Many events for many carts; half of them for one, if it is named."""
    keys = [hot if hot and n % 2 else f"c-{n // 2 % 500}" for n in range(events)]
    live.send([Address("Cart", key, "Moved", {"metres": 2.0}) for key in keys])


def names_in(text: str) -> set[str]:
    """Of the metrics that an expression asks for, without the endings of histograms."""
    found = set(re.findall(r"holdfast_[a-z0-9_]+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}
