"""The gateway's process: `python -m holdfast.gateway.process URL SETTINGS PIPE LISTENER`.

Started by the supervisor, never by hand. The socket is the supervisor's: while a gateway that died
is replaced, connections wait in it.
"""

from __future__ import annotations

import socket

import msgspec

from holdfast.gateway.serving import make_server
from holdfast.gateway.settings import Settings
from holdfast.runtime import logs
from holdfast.runtime.metering.board import own_name, start_publishing
from holdfast.runtime.metering.reporting import of_tracer
from holdfast.runtime.supervised import attend, serve, when_told_to_finish
from holdfast.runtime.tracing.exporting import start_tracing
from holdfast.runtime.untyped import connect_untyped


def run(url: str, settings: str, pipe: str, listener: str) -> int:
    attend(pipe)
    told = msgspec.json.decode(settings, type=Settings)
    with connect_untyped(url, told.views) as live:
        logs.fleet_is(live.engine.catalog.fleet)
        tracer = start_tracing(live.engine.catalog.fleet, own_name())
        finish_publishing = start_publishing(live.engine, lambda: of_tracer(tracer, own_name()))
        server = make_server(live, msgspec.structs.replace(told, url=url), tracer)
        when_told_to_finish(server.stop)
        server.run([socket.socket(fileno=int(listener))])
        if tracer is not None:
            tracer.stop()
        finish_publishing()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="gateway")
