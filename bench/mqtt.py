"""`python -m bench.mqtt`: 5,000 simulated devices at 5 Hz through Mosquitto and the bridge.

Devices share connections (`--connections`), because 5,000 sockets of one Python process would
measure that process; topics, numbers and payloads are those of 5,000 devices, QoS 1, and every
device has its own phase. The clock of an event runs from the moment it was due to be published to
the stamp of its append. After the run the inbox is read: how many events are there, each once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.engine.urls import open_engine
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import read_raw_payload
from tests.servers.mosquitto import Mosquitto

FLEET = Path(__file__).with_name("mqtt_fleet.py")
TICKS_PER_SECOND = 50
HOLDFAST = Path(sys.executable).with_name("holdfast")
PATIENCE_SECONDS = 120.0


def connect_packet(name: str) -> bytes:
    """MQTT 3.1.1, a clean session."""
    words = name.encode()
    body = b"\x00\x04MQTT\x04\x02\x00\x3c" + struct.pack(">H", len(words)) + words
    return bytes([0x10, len(body)]) + body


def publish_packet(topic: bytes, mid: int, payload: bytes) -> bytes:
    body = struct.pack(">H", len(topic)) + topic + struct.pack(">H", mid) + payload
    length = (
        bytes([len(body)]) if len(body) < 128 else bytes([len(body) % 128 | 128, len(body) // 128])
    )
    return b"\x32" + length + body


def generate(
    port: int, first: int, devices: int, hertz: float, seconds: float, numbered: bool
) -> tuple[int, int]:
    """Devices `first` to `first + devices` on one connection; how many were acknowledged, and how
    often the broker took nothing: then the devices were held up, and what is late is its doing."""
    link = socket.create_connection(("127.0.0.1", port))
    link.sendall(connect_packet(f"bench-{first}"))
    assert link.recv(4) == b"\x20\x02\x00\x00"
    link.setblocking(False)
    topics = [b"agents/d-%d/position" % (first + i) for i in range(devices)]
    ticks = int(TICKS_PER_SECOND / hertz)  # of one period
    total = int(seconds * hertz) * devices
    begun = time.time() + 0.2
    out, acknowledged, sent, tick, counts = bytearray(), 0, 0, 0, [0] * devices
    held_up = 0
    ready = selectors.DefaultSelector()
    ready.register(link, selectors.EVENT_READ)
    deadline = time.monotonic() + seconds + PATIENCE_SECONDS
    while acknowledged < total * 4 and time.monotonic() < deadline:
        while sent < total and time.time() >= begun + tick / TICKS_PER_SECOND:
            due = begun + tick / TICKS_PER_SECOND
            for i in range(tick % ticks, devices, ticks):
                if counts[i] < total // devices:
                    counts[i] += 1
                    sent += 1
                    number = b',"seq":%d' % counts[i] if numbered else b""
                    payload = b'{"lat":52.1,"lon":4.3,"sent":%.6f%s}' % (due, number)
                    out += publish_packet(topics[i], sent % 65_535 + 1, payload)
            tick += 1
        if out:
            try:
                del out[: link.send(out)]
            except BlockingIOError:
                held_up += 1
        wait = begun + tick / TICKS_PER_SECOND - time.time() if sent < total else 0.1
        for _ in ready.select(max(0.0, min(wait, 0.02))):
            heard = link.recv(262_144)
            if not heard:
                raise ConnectionError("the broker closed the line in the middle of the run")
            acknowledged += len(heard)
    link.close()
    return acknowledged // 4, held_up


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stored(url: str) -> Iterator[tuple[str, float, float]]:
    """Key, time at which it was due, stamp, of everything in the inboxes."""
    import msgspec

    engine = open_engine(url, None)
    try:
        for number in engine.catalog.layout.numbers:
            view, at = engine.view(number), 0
            while frames := view.frames(at, 65_536):
                for each in frames:
                    at = each.first + each.count
                    frame = Frame.decode(each.frame)
                    for key, (_, row) in zip(
                        frame.values("key") or [], read_raw_payload(frame), strict=True
                    ):
                        yield str(key), msgspec.msgpack.decode(row)[2], each.stamp
    finally:
        engine.close()


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    url = f"sqlite:{folder / 'data'}"
    settings = {"autosave_on_changes": "false", "autosave_interval": 1800, "log_type": "error"}
    with Mosquitto(folder / "broker", settings) as broker:
        run = subprocess.Popen(
            [HOLDFAST, "run", str(FLEET), "--engine", url, "--workers", str(arguments.workers)]
        )
        bridge: subprocess.Popen[bytes] | None = None
        try:
            while not (folder / "data" / "p000" / "state.db").exists():
                time.sleep(0.1)
            time.sleep(1.0)
            place = f"{broker.url}?version={arguments.version}"
            bridge = subprocess.Popen([HOLDFAST, "bridge", place, "--engine", url])
            time.sleep(1.5)
            return load(arguments, broker, bridge.pid, url)
        finally:
            for process in (bridge, run):
                if process is not None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)


def load(
    arguments: argparse.Namespace, broker: Mosquitto, bridge: int, url: str
) -> dict[str, object]:
    share = arguments.devices // arguments.connections
    words = (share, arguments.hertz, arguments.seconds, not arguments.unnumbered)
    jobs = [(broker.port, i * share, *words) for i in range(arguments.connections)]
    expected = share * arguments.connections * int(arguments.seconds * arguments.hertz)
    memory: list[int] = []
    begun, cpu = time.monotonic(), [cpu_seconds(bridge), cpu_seconds(broker.pid)]
    with multiprocessing.get_context("spawn").Pool(arguments.connections) as pool:
        running = pool.starmap_async(generate, jobs)
        while not running.ready():
            running.wait(1.0)
            memory.append(resident_bytes(bridge))
        acknowledged, held_up = map(sum, zip(*running.get(), strict=True))
    took = time.monotonic() - begun
    deadline = time.monotonic() + PATIENCE_SECONDS
    engine = open_engine(url, None)
    while time.monotonic() < deadline:
        views = [engine.view(number) for number in engine.catalog.layout.numbers]
        if sum(view.inbox_next() for view in views) >= expected:
            break
        time.sleep(0.1)
    engine.close()
    cpu = [cpu_seconds(pid) - before for pid, before in zip((bridge, broker.pid), cpu, strict=True)]
    rows = list(stored(url))
    late = sorted(stamp - due for _, due, stamp in rows)
    spread = max(row[2] for row in rows) - min(row[1] for row in rows)
    return {
        "devices": share * arguments.connections,
        "hertz": arguments.hertz,
        "numbered": not arguments.unnumbered,
        "expected": expected,
        "acknowledged_to_devices": acknowledged,
        "sends_the_broker_held_up": held_up,
        "stored": len(rows),
        "stored_different": len({row[:2] for row in rows}),
        "events_per_second": round(len(rows) / spread),
        "publish_to_durable_ms": {
            f"p{p}": round(late[min(len(late) - 1, int(len(late) * p / 100))] * 1000, 1)
            for p in (50, 99, 100)
        },
        "bridge_cpu_cores": round(cpu[0] / took, 2),
        "broker_cpu_cores": round(cpu[1] / took, 2),
        "bridge_memory_mb": [round(each / 1e6) for each in memory[:: max(1, len(memory) // 12)]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=5_000)
    parser.add_argument("--hertz", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--version", default="5", choices=["5", "3.1.1"])
    parser.add_argument("--unnumbered", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-mqtt-") as folder:
        print(json.dumps(measure(arguments, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
