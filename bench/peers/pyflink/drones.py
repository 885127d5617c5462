"""The drone program on PyFlink, in thread mode: `python drones.py PLAN.json OUT.json`.

Flink's own sequence source gives the numbers; everything else is Python, from the same integers as
everywhere (bench/events.py). Each subtask of the last step writes what it counted into the folder
when it closes; states are handed out by timers that the end of the stream fires.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
)
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

WORD = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15
RESTS = 8
POSITION, BATTERY, HEARTBEAT, NEAR = range(4)
FIELDS = ("lat", "lon", "alt", "battery", "closest", "mode", "moves", "beats", "warnings")
FRESH = (0.0, 0.0, 0.0, 100.0, 1.0, 0, 0, 0, 0)
ACTIONS = ("Descend", "Land", "Avoid", "Lost")
AT_THE_END = 2**63 - 2
STATE = Types.PICKLED_BYTE_ARRAY()
OUTPUT = Types.PICKLED_BYTE_ARRAY()
MESSAGE = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


def mix(x: int) -> int:
    x &= WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def hashed(agent: int, value: float | int) -> int:
    bits = struct.unpack("<Q", struct.pack("<d", value))[0] if isinstance(value, float) else value
    return mix(mix(agent) ^ bits)


class Stream:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._seed, self._agents = plan["seed"], plan["agents"]
        self._mix, self._every = plan["mix"], plan["every"]

    def key(self, n: int) -> str:
        agents = self._agents
        if n < agents:
            return f"d-{n}"
        one = mix(n * GOLDEN + self._seed)
        return f"d-{(((one >> 32) * (agents // RESTS)) >> 32) * RESTS + n % RESTS}"

    def event(self, n: int) -> tuple[Any, ...]:
        """Its kind, and what that kind needs."""
        one = mix(n * GOLDEN + self._seed)
        two = mix(one)
        low, high, draw = one & 0xFFFFFFFF, two >> 40, two & 0xFF
        if self._mix == "messages" and draw < 51:
            return NEAR, f"d-{(low * self._agents) >> 32}", high * 2.0**-24
        if self._mix == "mixed" and draw < 102:
            return (BATTERY, high * (100 * 2.0**-24)) if draw < 64 else (HEARTBEAT, high)
        alt = high * (101 * 2.0**-24)
        if self._every:
            alt = 101.0 + n * 2.0**-20 if n % self._every == 0 else high * 2.0**-24
        return POSITION, low * 2.0**-32, ((two >> 8) & 0xFFFFFFF) * 2.0**-28, alt


class Paced(MapFunction):
    """Notes when numbers came: the first one, and the first that counts. With a rate it holds each
    one back until it is due."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._rate, self._folder = plan["rate"], plan["folder"]
        self._first_counted = plan["first_counted"]
        self._begin = 0.0
        self._told = 0.0

    def map(self, n: int) -> int:
        if n == self._first_counted:
            (Path(self._folder) / "warm").write_text(repr(time.perf_counter()))
        if n % 256 == 0 or self._rate:
            now = time.perf_counter()
            if not self._begin:
                self._begin = now
                (Path(self._folder) / "begin").write_text(repr(now))
            if self._rate and (rest := self._begin + n / self._rate - now) > 0:
                time.sleep(rest)
            if now - self._begin - self._told >= 5.0:
                self._told = now - self._begin
                line = f"    pyflink: {self._told:3.0f} s, {n / 1e6:.2f} M events made\n"
                os.write(2, line.encode())
        return n


class Drone(KeyedProcessFunction):
    def __init__(self, plan: dict[str, Any], messages: Any) -> None:
        self._stream = Stream(plan)
        self._watchdog = int(plan["watchdog"] * 1000)
        self._messages = messages

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("drone", STATE))

    def process_element(self, n: int, ctx: Any) -> Any:
        state = self._state.value()
        if state is None:
            state = [*FRESH, 0]
            ctx.timer_service().register_event_time_timer(AT_THE_END)
        event = self._stream.event(n)
        kind = event[0]
        agent = int(ctx.get_current_key()[2:])
        if kind == POSITION:
            state[0], state[1], state[2] = event[1:]
            state[6] += 1
            if event[3] > 100.0:
                yield "Descend", agent, event[3] - 20.0
            if self._watchdog:
                # One timer is under way per drone; it is set again when it fires too early.
                now = ctx.timer_service().current_processing_time()
                if not state[9]:
                    ctx.timer_service().register_processing_time_timer(now + self._watchdog)
                state[9] = now + self._watchdog
        elif kind == BATTERY:
            state[3] = event[1]
            if not state[5] and event[1] < 15.0:
                state[5] = 1
                yield "Land", agent, 0.0
            elif state[5] and event[1] >= 90.0:
                state[5] = 0
        elif kind == HEARTBEAT:
            state[7] += 1
        else:
            yield self._messages, (event[1], event[2])
        self._state.update(state)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        state = self._state.value()
        agent = int(ctx.get_current_key()[2:])
        if ctx.time_domain() == TimeDomain.EVENT_TIME:
            yield "state", agent, *state[:9]
        elif state[9] > timestamp:
            ctx.timer_service().register_processing_time_timer(state[9])
        else:
            state[9] = 0
            self._state.update(state)
            yield "Lost", agent, 0.0


class Warned(KeyedProcessFunction):
    """Flink has no way back into an operator: the rest of the state is in a second one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("warned", STATE))

    def process_element(self, message: tuple[str, float], ctx: Any) -> Any:
        state = self._state.value()
        if state is None:
            state = list(FRESH)
            ctx.timer_service().register_event_time_timer(AT_THE_END)
        key, distance = message
        state[8] += 1
        state[4] = min(state[4], distance)
        self._state.update(state)
        if distance < 0.015625:
            yield "Avoid", int(key[2:]), distance

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "late", int(ctx.get_current_key()[2:]), *self._state.value()


class Counting(MapFunction):
    def __init__(self, plan: dict[str, Any], name: str) -> None:
        self._rate, self._folder, self._name = plan["rate"], plan["folder"], name

    def open(self, runtime_context: RuntimeContext) -> None:
        self._name += f"-{time.time_ns()}-{id(self)}"  # thread mode has no number of a subtask
        self._counts = dict.fromkeys(ACTIONS, 0)
        self._sums = dict.fromkeys(ACTIONS, 0)
        self._states = dict.fromkeys(FIELDS, 0)
        self._agents = 0
        self._handed: list[float] = []  # when states were handed out: the check's time
        self._seen: list[tuple[float, float]] = []

    def map(self, output: Any) -> int:
        what, agent, *values = output
        if what in ACTIONS:
            self._counts[what] += 1
            self._sums[what] += hashed(agent, values[0])
            if self._rate:
                self._seen.append(((values[0] - 81.0) * 2.0**20, time.perf_counter()))
            return 0
        late = what == "late"
        self._handed = [*self._handed[:1], time.perf_counter()]
        self._agents += not late
        for name, value, fresh in zip(FIELDS, values, FRESH, strict=True):
            self._states[name] += hashed(agent, value) - (hashed(agent, fresh) if late else 0)
        return 0

    def close(self) -> None:
        found = [self._counts, self._sums, self._states, self._agents, self._seen, self._handed]
        (Path(self._folder) / f"tally-{self._name}").write_text(json.dumps(found))


def settings(plan: dict[str, Any]) -> Configuration:
    folder = Path(plan["folder"])
    given = {
        "python.execution-mode": "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "execution.buffer-timeout.interval": "1 ms" if plan["rate"] else "100 ms",
        "restart-strategy.type": "none",
        "parallelism.default": str(plan["workers"]),
    }
    configuration = Configuration()
    for name, value in given.items():
        configuration.set_string(name, value)
    return configuration


def build(env: StreamExecutionEnvironment, plan: dict[str, Any]) -> None:
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink
    messages = OutputTag("messages", MESSAGE)
    source = NumberSequenceSource(0, plan["most"] - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers = numbers.set_parallelism(1)  # two would not keep the order of an agent's events
    paced = numbers.map(Paced(plan), Types.LONG()).set_parallelism(1)
    stream = Stream(plan)
    drones = paced.key_by(stream.key, Types.STRING()).process(Drone(plan, messages), OUTPUT)
    drones.map(Counting(plan, "actions"), Types.INT()).sink_to(Sink(discard()))
    if plan["mix"] == "messages":
        warned = (
            drones.get_side_output(messages)
            .key_by(lambda message: message[0], Types.STRING())
            .process(Warned(), OUTPUT)
        )
        warned.map(Counting({**plan, "rate": 0}, "late"), Types.INT()).sink_to(Sink(discard()))


def collected(plan: dict[str, Any], seconds_end: float) -> dict[str, Any]:
    folder = Path(plan["folder"])
    begin = float((folder / "begin").read_text())
    warm = float((folder / "warm").read_text())
    parts = [json.loads(path.read_text()) for path in sorted(folder.glob("tally-*"))]
    actions = {
        name: [sum(p[0][name] for p in parts), sum(p[1][name] for p in parts) & WORD]
        for name in ACTIONS
    }
    rate = plan["rate"]
    handed = [at for p in parts for at in p[5]]
    checking = max(handed) - min(handed)
    return {
        "counts": [plan["most"]],
        "counted": plan["most"] - plan["first_counted"],
        "seconds": seconds_end - warm - checking,
        "agents": sum(p[3] for p in parts),
        "states": {name: sum(p[2][name] for p in parts) & WORD for name in FIELDS},
        "actions": actions,
        "latencies": [
            at - begin - n / rate
            for p in parts
            for n, at in p[4]
            if rate and n >= plan["first_counted"]
        ],
    }


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    env = StreamExecutionEnvironment.get_execution_environment(settings(plan))
    build(env, plan)
    env.execute("drones")
    Path(sys.argv[2]).write_text(json.dumps(collected(plan, time.perf_counter())))


if __name__ == "__main__":
    main()
