"""What the gateway reads, as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.values import write_values

Row = Mapping[str, Any]  # as the gateway's readers give them; the messages check their types


def state(values: Row, form: int) -> pb.State:
    """Of an agent, or of a change."""
    agent = str(values["agent"])
    if values.get("gone"):
        return pb.State(agent=agent, key=values["key"], gone=True)
    return pb.State(
        agent=agent,
        key=values["key"],
        version=values["version"],
        updated=values["updated"],
        state=write_values(agent, values["state"], form),
    )


def action(values: Row, form: int) -> pb.Action:
    given = dict(values)
    made = write_values(str(given.pop("type")), given.pop("data"), form)
    return pb.Action(action=made, **given)


def entry(values: Row, form: int) -> pb.Entry:
    return pb.Entry(**_with_input(values, form))


def letter(values: Row, form: int) -> pb.DeadLetter:
    return pb.DeadLetter(**_with_input(values, form))


def timer(values: Row, form: int) -> pb.Timer:
    return pb.Timer(**{**values, "event": _event(values["event"], form)})


def _with_input(values: Row, form: int) -> dict[str, Any]:
    """Inputs are events; commands of operators are texts; expiries have nothing."""
    given = dict(values)
    event = given.pop("event")
    if isinstance(event, dict):
        given["event"] = _event(event, form)
    elif event is not None:
        given["command"] = str(event)
    return given


def _event(event: Row, form: int) -> pb.Values:
    return write_values(str(event["type"]), event["data"], form)


def rows(values: Row, name: str) -> list[Row]:
    return cast(list[Row], values[name])
