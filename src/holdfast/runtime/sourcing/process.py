"""The process that reads source topics:
`python -m holdfast.runtime.sourcing.process URL BROKERS FLEET SOURCES PIPE`.

Started by the supervisor, never by hand. It needs no classes of the user and runs none.
"""

from __future__ import annotations

import json
import threading

from holdfast.engine.kafka.troubles import admin_of
from holdfast.engine.urls import open_engine
from holdfast.runtime import logs
from holdfast.runtime.metering.board import start_publishing
from holdfast.runtime.sourcing.batching import Batcher
from holdfast.runtime.sourcing.declaring import parse_sources
from holdfast.runtime.sourcing.decoding import Decoder
from holdfast.runtime.sourcing.lease import Lease
from holdfast.runtime.sourcing.positions import Positions, topic_ids
from holdfast.runtime.sourcing.reading import SourceReader
from holdfast.runtime.sourcing.rejecting import Rejects
from holdfast.runtime.sourcing.rerouting import Rerouter
from holdfast.runtime.sourcing.starting import brokers_of, check_topics
from holdfast.runtime.supervised import attend, serve, when_told_to_finish


def run(url: str, brokers: str, fleet: str, sources: str, pipe: str) -> int:
    attend(pipe)
    logs.fleet_is(fleet)
    settings = brokers_of(url, brokers, fleet)
    declared = parse_sources(json.loads(sources), settings.prefix or "")
    check_topics(settings, declared)
    topics = [each.topic for each in declared]
    positions = Positions(settings, declared, topic_ids(admin_of(settings), settings, topics))
    rejects = Rejects(settings)
    rejects.make_topic()
    engine = open_engine(url, fleet)
    lease = Lease(settings.session_seconds)
    rerouter = Rerouter(engine, lease)
    decoders = {each.topic: Decoder(each, engine) for each in declared}
    batcher = Batcher(decoders, positions, rerouter)
    finish_publishing = start_publishing(engine)
    stopping = threading.Event()
    when_told_to_finish(stopping.set)
    reader = SourceReader(settings, topics, positions, batcher, rerouter, rejects, lease)
    try:
        while not stopping.is_set():
            reader.tick()
    finally:
        finish_publishing()
        reader.close()
        rerouter.close()
        engine.close()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="source topics")
