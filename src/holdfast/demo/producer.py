"""The producer process: `python -m holdfast.demo.producer DIR RATE SECONDS`.

Plays the script at a steady rate, whatever becomes of the workers. What is not acknowledged is
sent again under the same numbers. Some batches are sent again although they were, as by a radio
that lost the acknowledgement; the fleet must not notice.

It writes one line of JSON per batch to standard output, for those who measure. It stops when it is
told to (SIGTERM), when the time is up, or when nobody reads its lines any more.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import islice
from pathlib import Path
from types import FrameType

import msgspec

from holdfast import Event, HoldfastError, Live, TryAgain
from holdfast.demo.directory import DemoDirectory, Sent, SentRecord
from holdfast.demo.fleet import CEILING, Drone, Order, Telemetry, fleet
from holdfast.demo.script import Line

SOURCE = "radio"
BATCH_SECONDS = 0.01
EVENTS_PER_BATCH_MAX = 4096
RESEND_ONE_IN = 25
SEND_SECONDS = 1.0

_CLASSES: dict[str, type[Event]] = {"Telemetry": Telemetry, "Order": Order}


class Report(msgspec.Struct):
    """One batch: when its sending began (the machine's uptime), and who will answer with what."""

    sent_at: float
    probes: list[tuple[str, int]]  # key and serial of telemetry that is answered with Descend


class Producer:
    def __init__(self, directory: DemoDirectory, live: Live) -> None:
        self._live = live
        self._directory = directory
        self._sent = Sent()
        self._lines = directory.manifest().script().lines()
        self.stopping = False

    def run(self, rate: float, seconds: float) -> None:
        """Open loop: what is due is sent, late or not, in as few batches as it takes."""
        self._record = SentRecord(self._directory)
        start = time.monotonic()
        batches = 0
        while not self.stopping and (elapsed := time.monotonic() - start) < seconds:
            due = int(elapsed * rate) - self._sent.attempted
            if due <= 0:
                time.sleep(BATCH_SECONDS)
                continue
            batch = list(islice(self._lines, min(due, EVENTS_PER_BATCH_MAX)))
            batches += 1
            self._send(batch, twice=batches % RESEND_ONE_IN == 0)
            if due < EVENTS_PER_BATCH_MAX:
                time.sleep(max(0.0, start + elapsed + BATCH_SECONDS - time.monotonic()))
        self._record.close()

    def _send(self, batch: list[Line], *, twice: bool) -> None:
        rows = [(Drone, line.key, _event(line)) for line in batch]
        first, last = batch[0].seq, batch[-1].seq
        self._note(Sent(last, self._sent.acknowledged))
        sent_at = time.monotonic()
        again = twice
        while True:
            try:
                self._live.send_many(rows, source=SOURCE, first_seq=first, timeout=SEND_SECONDS)
            except TryAgain:
                if self.stopping:
                    return
                continue
            if not again:
                break
            again = False
        self._note(Sent(last, last))
        probes = [(line.key, int(line.values[0])) for line in batch if _is_probe(line)]
        report = Report(sent_at, probes)
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()

    def _note(self, sent: Sent) -> None:
        self._sent = sent
        self._record.write(sent)


def _event(line: Line) -> Event:
    return _CLASSES[line.event](*line.values)


def _is_probe(line: Line) -> bool:
    return line.event == "Telemetry" and line.values[3] > CEILING


def main() -> int:
    folder, rate, seconds = sys.argv[1:4]
    directory = DemoDirectory(Path(folder))
    try:
        with fleet.connect(directory.url) as live:
            producer = Producer(directory, live)

            def finish(number: int, frame: FrameType | None) -> None:
                producer.stopping = True

            signal.signal(signal.SIGTERM, finish)
            producer.run(float(rate), float(seconds))
    except HoldfastError as error:
        print(f"holdfast: the producer: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Nobody listens any more. Standard output is broken; exit without flushing it again.
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
