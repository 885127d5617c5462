"""`bridge`: devices that speak MQTT, to a fleet and back, until it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

import click

from holdfast.cli.options import engine_option


@click.command()
@click.argument("broker", metavar="MQTT-URL")
@click.option("--table", metavar="FILE", help="Which topics are which events and actions (TOML).")
@click.option(
    "--keep",
    metavar="FOLDER",
    help="Where the bridge keeps how far actions were published, and what was rejected; in the "
    "directory of the data unless given.",
)
@click.option(
    "--actions-from",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Of a bridge that never ran: publish what was issued before, or not.",
)
@engine_option
def bridge(url: str, broker: str, table: str | None, keep: str | None, actions_from: str) -> None:
    """Take events that devices publish to a broker, and publish actions to the devices.

    \b
    holdfast bridge mqtt://localhost:1883
    holdfast bridge 'mqtts://bridge@broker:8883?ca=ca.pem&password_file=secret' --table mqtt.toml
    """
    from holdfast.engine.urls import open_engine, parse
    from holdfast.errors import UsageError
    from holdfast.gateway.mqtt.address import parse_broker
    from holdfast.gateway.mqtt.starting import run_bridge

    parse_broker(broker)  # a mistake in it is told before anything is opened
    if parse(url).scheme == "memory":
        raise UsageError("memory: lives in one process: a bridge needs sqlite: or kafka:")
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    engine = open_engine(url, None)
    try:
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        done = run_bridge(
            *(engine, url, broker, table, keep, stopping.is_set),
            from_now=actions_from == "latest",
            say=click.echo,
        )
        click.echo(f"the bridge has stopped: {done}")
    finally:
        engine.close()
