"""A producer: `python -m bench.ours.producing SPEC NUMBER`, started by `Producers`.

It makes its events from the stream and sends them, numbered, as rows or as columns. Making them is
part of what is measured.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.events import BATTERY, HEARTBEAT, NEAR, POSITION, Events, key_of
from bench.ours.processes import Counters
from bench.program import Battery, Drone, Heartbeat, Near, Position, fleet
from bench.workloads import Workload
from holdfast import Live
from holdfast.runtime.sending import Row

SEND_SECONDS = 120.0  # a full backlog is waited for
CHUNK = 32_768  # events made at once, where sends are smaller


@dataclass(frozen=True)
class Spec:
    """What a producer is told, as a file."""

    url: str
    workload: Workload
    producers: int
    columns: bool
    counters: Path
    repeat: int = 0  # sends before the acknowledged ones that are sent again

    def write(self, path: Path) -> Path:
        fields = {**self.__dict__, "workload": self.workload.as_json()}
        path.write_text(json.dumps(fields, default=str))
        return path

    @classmethod
    def read(cls, path: Path) -> Spec:
        fields = json.loads(path.read_text())
        workload, counters = Workload.from_json(fields["workload"]), Path(fields["counters"])
        return cls(**{**fields, "workload": workload, "counters": counters})

    @property
    def lanes(self) -> int:
        return self.producers * self.workload.threads


Send = Callable[[Events, str, int], None]


def rows_sender(live: Live, agents: int) -> Send:
    keys = [key_of(n) for n in range(agents)]

    def send(part: Events, source: str, first: int) -> None:
        live.send_many(rows_of(part, keys), source=source, first_seq=first, timeout=SEND_SECONDS)

    return send


def rows_of(part: Events, keys: list[str]) -> list[Row]:
    agents = part.agent.tolist()
    places = zip(part.lat.tolist(), part.lon.tolist(), part.alt.tolist(), strict=True)
    if not part.kind.any():
        return [
            (Drone, keys[agent], Position(lat, lon, alt))
            for agent, (lat, lon, alt) in zip(agents, places, strict=True)
        ]
    rest = zip(part.percent.tolist(), part.beat.tolist(), part.distance.tolist(), strict=True)
    rows: list[Row] = []
    columns = zip(agents, part.kind.tolist(), places, rest, part.peer.tolist(), strict=True)
    for agent, kind, place, (percent, beat, distance), peer in columns:
        if kind == POSITION:
            rows.append((Drone, keys[agent], Position(*place)))
        elif kind == BATTERY:
            rows.append((Drone, keys[agent], Battery(percent)))
        elif kind == HEARTBEAT:
            rows.append((Drone, keys[agent], Heartbeat(beat)))
        else:
            rows.append((Drone, keys[agent], Near(keys[peer], distance)))
    return rows


def columns_sender(live: Live, agents: int) -> Send:
    names = [key_of(n) for n in range(agents)]
    keys = live.keys(Drone, names)
    # A send to agents outside of the stream: what is compiled for sending, is compiled by now.
    live.send_columns(Drone, Heartbeat, live.keys(Drone, ["warm-0", "warm-1"]), number=0)
    texts = np.array(names)

    def columns(part: Events, kind: int, rows: Any) -> tuple[type, dict[str, Any]]:
        if kind == POSITION:
            return Position, {"lat": part.lat[rows], "lon": part.lon[rows], "alt": part.alt[rows]}
        if kind == BATTERY:
            return Battery, {"percent": part.percent[rows]}
        if kind == HEARTBEAT:
            return Heartbeat, {"number": part.beat[rows]}
        return Near, {"peer": texts[part.peer[rows]], "distance": part.distance[rows]}

    def send(part: Events, source: str, first: int) -> None:
        """One send per class that occurs: classes write different fields, so order between them
        does not matter here. Every event keeps its number."""
        for kind in (POSITION, BATTERY, HEARTBEAT, NEAR):
            rows = slice(None) if not part.kind.any() else np.flatnonzero(part.kind == kind)
            event, values = columns(part, kind, rows)
            chosen = keys[part.agent[rows]]
            if len(chosen):
                live.send_columns(
                    Drone,
                    event,
                    chosen,
                    source=source,
                    first_seq=first,
                    timeout=SEND_SECONDS,
                    **values,
                )
                first += len(chosen)
            if isinstance(rows, slice):
                return

    return send


class Lane:
    """One thread's share of the stream."""

    def __init__(self, spec: Spec, lane: int, counters: Counters, send: Send) -> None:
        self._spec, self._lane, self._counters, self._send = spec, lane, counters, send
        self._workload = spec.workload
        self._most = self._workload.most // spec.lanes

    def run(self, begin: float) -> None:
        if self._workload.rate:
            self._paced(begin)
        else:
            self._as_fast_as_it_goes(begin)

    def _events(self, first: int, count: int) -> Events:
        return Events(self._workload.stream, self._lane, self._spec.lanes, first, count)

    def _source(self) -> str:
        return f"lane-{self._lane}"

    def _as_fast_as_it_goes(self, begin: float) -> None:
        size = self._workload.send
        counters, lane = self._counters, self._lane
        at = max(0, counters[lane] - self._spec.repeat * size)
        least = -(-self._workload.stream.agents // self._spec.lanes)  # every agent once
        end = begin + self._workload.seconds
        while (time.perf_counter() < end or at < least) and not (self._most and at >= self._most):
            self._send(self._events(at, size), self._source(), at + 1)
            at += size
            counters[lane] = max(counters[lane], at)

    def _paced(self, begin: float) -> None:
        """Open loop: whatever is due by now goes out, however late that is."""
        rate = self._workload.rate / self._spec.lanes
        total = self._workload.offered // self._spec.lanes
        at = 0
        while at < total:
            due = min(total, int((time.perf_counter() - begin) * rate), at + 65_536)
            if due == at:
                time.sleep(0.0005)
                continue
            self._send(self._events(at, due - at), self._source(), at + 1)
            self._counters[self._lane] = at = due


def main() -> None:
    spec = Spec.read(Path(sys.argv[1]))
    number, threads = int(sys.argv[2]), spec.workload.threads
    counters = Counters(spec.counters, spec.lanes)
    failed: list[BaseException] = []

    def run(lane: Lane, begin: float) -> None:
        try:
            lane.run(begin)
        except BaseException as error:
            failed.append(error)
            raise

    with fleet.connect(spec.url) as live:
        make = columns_sender if spec.columns else rows_sender
        send = make(live, spec.workload.stream.agents)
        lanes = [Lane(spec, number * threads + n, counters, send) for n in range(threads)]
        print("ready", flush=True)
        begin = float(sys.stdin.readline())
        if threads == 1:
            lanes[0].run(begin)
            return
        running = [threading.Thread(target=run, args=(lane, begin)) for lane in lanes]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
