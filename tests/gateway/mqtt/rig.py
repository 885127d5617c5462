"""A fleet in this process, a bridge on a thread of it or as a process, and devices with paho."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.gateway.mqtt.starting import run_bridge
from tests.cli.commands import SCRIPT, environment
from tests.gateway.mqtt.fleets import Drone
from tests.servers.mosquitto import Mosquitto

PATIENCE_SECONDS = 120.0
FLEET = Path(__file__).with_name("fleets.py")


def eventually(what: str, look: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


@contextmanager
def bridged(
    url: str,
    broker: Mosquitto,
    query: str = "",
    *,
    user: str = "",
    table: str | None = None,
    folder: str | None = None,
    waits: bool = True,
    **options: Any,
) -> Iterator[Callable[[], str]]:
    """A bridge on a thread; what it gives stops it and tells what it has done. Unless it `waits`
    for another one, it has subscribed."""
    stopping, said = threading.Event(), []
    before = broker.did("Sending SUBACK")
    place = broker.url.replace("://", f"://{user}@") if user else broker.url
    engine = open_engine(url, None)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            words = (engine, url, f"{place}{query}", table, folder, stopping.is_set)
            said.append(run_bridge(*words, **options))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="bridge-under-test")
    thread.start()

    def stop() -> str:
        stopping.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        if failed:
            raise failed[0]
        return said[0]

    try:
        if waits:
            eventually("subscribed", lambda: bool(failed) or broker.did("Sending SUBACK") > before)
        yield stop
    finally:
        stopping.set()
        thread.join(PATIENCE_SECONDS)
        engine.close()
    if failed:
        raise failed[0]


class BridgeProcess:
    """`holdfast bridge …`, to be killed."""

    def __init__(self, url: str, broker: str, folder: Path, *words: str) -> None:
        self._command = [str(SCRIPT), "bridge", broker, "--engine", url, *words]
        self.errors = folder / f"bridge-{time.monotonic_ns()}.err"
        self.output = self.errors.with_suffix(".out")
        self.start()

    def start(self) -> None:
        with self.errors.open("ab") as errors, self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.errors.read_text()
        return self.output.read_text()

    def __enter__(self) -> BridgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Device:
    """A stock client with a session that the broker keeps."""

    def __init__(
        self, port: int, name: str, *, version_5: bool = True, topic: str | None = None
    ) -> None:
        self.got: list[dict[str, Any]] = []
        self.messages: list[mqtt.MQTTMessage] = []
        self._topic = topic
        self._subscribed = threading.Event()
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if version_5 else False,
            protocol=mqtt.MQTTv5 if version_5 else mqtt.MQTTv311,
        )
        self.client.max_inflight_messages_set(200)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_message = self._came
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        if version_5:
            kept = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            kept.SessionExpiryInterval = 3600
            self.client.connect("127.0.0.1", port, clean_start=False, properties=kept)
        else:
            self.client.connect("127.0.0.1", port)
        connected = self.client.socket()
        # paho waits with select, and past that it never hears a word from the broker.
        assert connected is not None
        assert connected.fileno() < 1024, "somebody before this test has left descriptors open"
        self.client.loop_start()
        if topic is not None:
            assert self._subscribed.wait(PATIENCE_SECONDS)

    def _connected(self, client: mqtt.Client, *_: object) -> None:
        if self._topic is not None:
            client.subscribe(self._topic, qos=1)

    def _came(self, client: mqtt.Client, _: object, message: mqtt.MQTTMessage) -> None:
        self.messages.append(message)
        self.got.append(json.loads(message.payload))

    def publish(
        self,
        topic: str,
        payload: bytes | str,
        *,
        content_type: str | None = None,
        user: Sequence[tuple[str, str]] = (),
        retain: bool = False,
    ) -> mqtt.MQTTMessageInfo:
        properties = None
        if content_type or user:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            if content_type:
                properties.ContentType = content_type
            if user:
                properties.UserProperty = list(user)
        return self.client.publish(topic, payload, 1, retain, properties)

    def say(self, topic: str, payload: bytes | str, **more: Any) -> None:
        """Returns when the broker has it."""
        self.publish(topic, payload, **more).wait_for_publish(PATIENCE_SECONDS)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def noted(live: Live, key: str) -> list[int]:
    """Which numbers an agent has noted, in order."""
    state = live.state(Drone, key)
    return [] if state is None else list(state.noted)


def rejected(folder: Path) -> list[dict[str, Any]]:
    path = folder / "mqtt" / "rejected.ndjson"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pid_exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
