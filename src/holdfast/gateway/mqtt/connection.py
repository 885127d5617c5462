"""One connection to the broker, from its start to its end: nothing of it outlives it.

paho speaks MQTT here, for everything but the messages that come. With a new client for every
connection no command is sent again by itself after a pause: it may have expired meanwhile.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import cast

import paho.mqtt.client as mqtt
from paho.mqtt.client import ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from holdfast.errors import AccessDenied, HoldfastError, Unreachable
from holdfast.gateway.mqtt.address import Broker
from holdfast.gateway.mqtt.packets import Packets
from holdfast.gateway.mqtt.wire import Wire

CONNECT_SECONDS = 10.0
PUBLISHES_AT_ONCE = 10  # without an answer: all brokers that we know allow so many
TAKEN_OVER = 0x8E
_DENIED = {0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C}  # of a CONNACK: trying again does not help


class _Client(mqtt.Client):
    wire: Wire | None = None

    def __init__(self, broker: Broker, name: str) -> None:
        self._version_5 = broker.version_5
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if broker.version_5 else False,
            protocol=mqtt.MQTTv5 if broker.version_5 else mqtt.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )

    def _create_socket(self) -> mqtt.SocketLike:
        """The one place where paho is given something of ours to talk through."""
        made = cast(socket.socket, super()._create_socket())
        self.wire = Wire(made, Packets(version_5=self._version_5))
        return cast("mqtt.SocketLike", self.wire)


class Ticket:
    """A publication on its way: `wait` until the broker has it."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._trouble: HoldfastError | None = None

    def answer(self, trouble: HoldfastError | None) -> None:
        self._trouble = trouble
        self._answered.set()

    def wait(self, seconds: float) -> None:
        if not self._answered.wait(seconds):
            raise Unreachable(f"the broker has not acknowledged a command for {seconds:g} s")
        if self._trouble is not None:
            raise self._trouble


class Connection:
    """`publish` from any thread, everything else by the thread of the link."""

    def __init__(
        self, broker: Broker, name: str, filters: Sequence[str], gone: Sequence[str] = ()
    ) -> None:
        self._gone = list(gone)
        self._broker = broker
        self._name = name
        self._filters = filters
        self._lock = threading.Lock()
        self._tickets: dict[int, Ticket] = {}
        self._early: dict[int, HoldfastError | None] = {}  # answers before we knew the number
        self.is_ready = False  # subscribed: messages come
        self.trouble: HoldfastError | None = None  # why it has ended
        self.is_taken_over = False
        client = self._client = _Client(broker, name)
        client.connect_timeout = CONNECT_SECONDS
        client.max_inflight_messages_set(PUBLISHES_AT_ONCE)
        if broker.user:
            client.username_pw_set(broker.user, broker.password or None)
        context = broker.tls_context()
        if context is not None:
            client.tls_set_context(context)
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_publish = self._published
        client.on_disconnect = self._disconnected

    def open(self, wake: mqtt.CallbackOnSocket) -> Wire:
        """Raises OSError. `wake` is called when another thread wants something written."""
        self._client.on_socket_register_write = wake
        broker = self._broker
        if broker.version_5:
            properties = _properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = broker.session_seconds
            properties.ReceiveMaximum = broker.receive_max
            self._client.connect(
                broker.host,
                broker.port,
                broker.keepalive,
                clean_start=False,
                properties=properties,
            )
        else:
            self._client.connect(broker.host, broker.port, broker.keepalive)
        assert self._client.wire is not None
        return self._client.wire

    @property
    def is_open(self) -> bool:
        return self._client.socket() is not None and self.trouble is None

    def read(self) -> None:
        wire = self._client.wire
        while wire is not None and self.is_open and wire.has_packets:
            self._client.loop_read()

    def write(self) -> None:
        if self._client.want_write():
            self._client.loop_write()
        if self.is_open and self._client.wire is not None:
            self._client.wire.flush()

    def keep_alive(self) -> None:
        self._client.loop_misc()

    def publish(
        self, topic: str, payload: bytes, retain: bool, seconds: int | None, trace: str
    ) -> Ticket:
        """For at most so many seconds, where the broker knows of such."""
        properties = None
        if self._broker.version_5:
            properties = _properties(PacketTypes.PUBLISH)
            properties.ContentType = "application/json"
            if seconds is not None:
                properties.MessageExpiryInterval = seconds
            if trace:
                properties.UserProperty = [("traceparent", trace)]
        if not self.is_ready:
            raise Unreachable(f"{self._broker.place}: not connected")
        # Not under our lock: paho calls us under its own.
        sent = self._client.publish(topic, payload, 1, retain, properties)
        if sent.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            raise Unreachable(f"{self._broker.place}: {mqtt.error_string(sent.rc)}")
        ticket = Ticket()
        with self._lock:
            if sent.mid in self._early:
                ticket.answer(self._early.pop(sent.mid))
            elif self.trouble is not None:
                ticket.answer(self.trouble)
            else:
                self._tickets[sent.mid] = ticket
        return ticket

    def close(self, why: HoldfastError | None = None) -> None:
        """With a goodbye; the broker keeps the session."""
        self._end(why or Unreachable(f"{self._broker.place}: the bridge has left"))
        self._client.on_disconnect = None
        if self._client.socket() is not None:
            self._client.disconnect()
            self._client.loop_write()

    # What paho tells.

    def _connected(
        self,
        client: mqtt.Client,
        _: object,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            text = f"{self._broker.place} does not let {self._who} in: {reason}"
            if reason.value in _DENIED:
                self._end(AccessDenied(f"{text}: check user and password (docs/mqtt.md)"))
            else:
                self._end(Unreachable(f"{text}: trying again"))
            return
        if self._gone:
            client.unsubscribe(self._gone)
        wanted: list[tuple[str, SubscribeOptions]] | list[tuple[str, int]]
        if self._broker.version_5:
            # What the broker kept comes with a subscription that is new, not with every connection.
            options = SubscribeOptions(qos=1, noLocal=True, retainHandling=1)
            wanted = [(each, options) for each in self._filters]
        else:
            wanted = [(each, 1) for each in self._filters]
        if not wanted:
            self.is_ready = True
        else:
            client.subscribe(wanted)

    @property
    def _who(self) -> str:
        return f"user {self._broker.user!r}" if self._broker.user else "anybody without a user"

    def _subscribed(
        self,
        client: mqtt.Client,
        _: object,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        for each, reason in zip(self._filters, reasons, strict=False):
            if reason.is_failure:
                self._end(
                    AccessDenied(
                        f"{self._broker.place} does not let {self._who} subscribe to {each}: "
                        f"{reason}: give it the right to read there (docs/mqtt.md)"
                    )
                )
                return
        self.is_ready = True

    def _published(
        self,
        client: mqtt.Client,
        _: object,
        mid: int,
        reason: ReasonCode,
        properties: Properties,
    ) -> None:
        refusal: HoldfastError | None = None
        if reason.is_failure:
            refusal = AccessDenied(
                f"{self._broker.place} does not let {self._who} publish a command: {reason}: give "
                "it the right to write there (docs/mqtt.md)"
            )
        with self._lock:
            ticket = self._tickets.pop(mid, None)
            if ticket is None:
                self._early[mid] = refusal
        if ticket is not None:
            ticket.answer(refusal)

    def _disconnected(
        self,
        client: mqtt.Client,
        _: object,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self.is_taken_over = flags.is_disconnect_packet_from_server and reason.value == TAKEN_OVER
        if self.is_taken_over:
            text = (
                f"somebody else has connected as {self._name!r}: only one bridge can; give another "
                "one its own ?client_id="
            )
        else:
            text = f"the connection has ended ({reason}): trying again"
        self._end(Unreachable(f"{self._broker.place}: {text}"))

    def _end(self, trouble: HoldfastError) -> None:
        with self._lock:
            self.trouble = self.trouble or trouble
            self.is_ready = False
            tickets, self._tickets = list(self._tickets.values()), {}
        for each in tickets:
            each.answer(trouble)


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]
