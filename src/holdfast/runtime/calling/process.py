"""The process that runs calls: `python -m holdfast.runtime.calling.process FLEET URL PIPE BELL`.

Started by the supervisor, never by hand. It ends with its supervisor, and its own children end with
it. Workers ring BELL when they have committed calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.urls import open_engine
from holdfast.runtime import logs
from holdfast.runtime.calling.bell import ring
from holdfast.runtime.calling.driving import Driver
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.metering.board import own_name, start_publishing
from holdfast.runtime.metering.reporting import of_tracer
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.supervised import attend, serve, when_told_to_finish
from holdfast.runtime.tracing.exporting import start_tracing


def run(fleet_reference: str, url: str, pipe: str, bell: str) -> int:
    attend(pipe)
    fleet = load_fleet(fleet_reference)
    logs.fleet_is(fleet.name)
    engine = open_engine(url, fleet.name)
    tracer = start_tracing(fleet.name, own_name())
    driver = Driver(fleet, engine, int(bell), tracer)

    def told() -> Iterator[Sample]:
        yield from driver.samples()
        yield from of_tracer(tracer, own_name())

    finish_publishing = start_publishing(engine, told)
    stopping = False

    def finish() -> None:
        nonlocal stopping
        stopping = True
        ring(int(bell))

    when_told_to_finish(finish)
    try:
        while not stopping:
            driver.turn()
    finally:
        if tracer is not None:
            tracer.stop()
        finish_publishing()
        driver.close()
        engine.close()
    return 0


if __name__ == "__main__":
    serve(run)
