"""Frames from outside, checked before they are appended: what is in an inbox is folded, so a row
that does not fit its schema would stop a partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from holdfast.engine.port import Parcel
from holdfast.errors import DamagedData, Rescaling, UsageError
from holdfast.gateway.problems import Problem
from holdfast.gateway.tokens import Principal, Role
from holdfast.model.keys import check_key
from holdfast.model.schema import Kind
from holdfast.model.types import rebuild
from holdfast.runtime.sending import check_count, check_sendable
from holdfast.runtime.untyped import UntypedLive
from holdfast.stepping.codebook import EVENT_BYTES_MAX
from holdfast.stepping.frame import UNREADABLE, Frame
from holdfast.stepping.grounding import GROUND, LIFT
from holdfast.stepping.inputs import FLEET_WIDE
from holdfast.stepping.rows import packed_rows, schema_ids

_EVENT = {"origin", "agent", "key", "source", "seq", "event_time", "previous", "asks", "schema"}
_COMMAND = {"origin", "agent", "key", "command"}
# Commands by their name: the role they take, and what follows the name.
COMMANDS: dict[str, tuple[Role, object]] = {
    "acknowledge": (Role.SEND, tuple[str, str, str]),
    "fail": (Role.SEND, tuple[str, str, str]),
    "deliver": (Role.SEND, tuple[str, str, str]),
    "pause": (Role.ADMIN, tuple[str]),
    "resume": (Role.ADMIN, tuple[()]),
    "redrive": (Role.ADMIN, tuple[int]),
    "compensate": (Role.ADMIN, tuple[str, str, int, bytes]),
    "override": (Role.ADMIN, tuple[str, str, int, bytes, bool]),
    GROUND: (Role.ADMIN, tuple[str, str]),
    LIFT: (Role.ADMIN, tuple[str, str]),
}
_rows_of_bytes = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Vetting:
    def __init__(self, live: UntypedLive) -> None:
        self._live = live
        self._checks: dict[tuple[int, Kind], Callable[[bytes], object]] = {}

    def check(self, partition: int, parcel: Parcel, who: Principal) -> None:
        """Raises what is wrong with it, in one line."""
        try:
            self._check(partition, parcel, who)
        except UNREADABLE as error:
            raise UsageError(f"a frame that cannot be read: {error}") from None
        except DamagedData as error:
            raise UsageError(str(error)) from None

    def _check(self, partition: int, parcel: Parcel, who: Principal) -> None:
        frame = parcel.frame
        check_count(frame.count)
        for agent in set(_texts(frame, "agent")) - {FLEET_WIDE}:
            self._live.names.check_agent(agent)
        keys = _texts(frame, "key")
        for key in set(keys):
            check_key(key)
        layout = self._live.engine.catalog.layout
        owners = {layout.partition_of(key) for key in set(keys)}
        if owners - {partition}:
            raise Rescaling(f"keys of partition {min(owners - {partition})}, sent to {partition}")
        if frame.constant("origin") == "control":
            self._check_commands(frame, parcel, who)
        else:
            self._check_events(frame, parcel)

    def _check_events(self, frame: Frame, parcel: Parcel) -> None:
        if frame.constant("origin") != "external" or parcel.source is None:
            raise UsageError("a frame of events needs the origin external, and a source")
        ids = Counter(schema_ids(frame))
        payload = tuple(f"{kind}.{number}" for number in ids for kind in ("rows", "cols"))
        for name in frame.columns:
            if name not in _EVENT and not name.startswith(payload):
                raise UsageError(f"column {name!r} of a frame is none that is taken from outside")
        if frame.constant("source") != parcel.source:
            raise UsageError("a frame names another source than its parcel")
        if frame.values("seq") != list(parcel.seqs):
            raise UsageError("a frame has other numbers than its parcel")
        for number, count in ids.items():
            rows = packed_rows(frame, number, count)
            self._decoder(number)(rows)
            sizes = [len(bytes(row)) for row in _rows_of_bytes(rows)]
            if len(sizes) != count:
                raise UsageError(f"{len(sizes)} payloads for {count} rows of a frame")
            if max(sizes) > EVENT_BYTES_MAX:
                raise UsageError(f"an event of {max(sizes):,} bytes: {EVENT_BYTES_MAX:,} at most")

    def _check_commands(self, frame: Frame, parcel: Parcel, who: Principal) -> None:
        if set(frame.columns) != _COMMAND or parcel.source is not None:
            raise UsageError("a command has other columns, or a source")
        agents = _texts(frame, "agent")
        commands = cast("Sequence[Sequence[object]]", frame.values("command"))
        for agent, command in zip(agents, commands, strict=True):
            name = str(command[0]) if command else ""
            if name not in COMMANDS or (agent == FLEET_WIDE) != (name in (GROUND, LIFT)):
                raise UsageError(f"{command!r:.80} is no command")
            role, shape = COMMANDS[name]
            if who.role < role:
                text = f"{who.name} may not {name}: it takes the role {role.name.lower()}"
                raise Problem(403, "Forbidden", text)
            rest = msgspec.convert(list(command[1:]), shape)
            if name in ("compensate", "override"):
                _, _, schema, row, *_ = cast("tuple[str, str, int, bytes]", rest)
                self._decoder(schema, "action")(msgspec.msgpack.encode([msgspec.Raw(row)]))

    def _decoder(self, number: int, kind: Kind = "event") -> Callable[[bytes], object]:
        """Checks rows by the types of their schema, which has to be of this kind."""
        found = self._checks.get((number, kind))
        if found is None:
            schema = self._live.engine.catalog.schemas().get(number)
            if schema is None or schema.kind != kind:
                raise UsageError(f"schema {number} is none of an {kind} of this fleet")
            check_sendable(schema.name)
            types = tuple(rebuild(field.type) for field in schema.fields)
            row = tuple[types] if types else tuple[()]  # type: ignore[valid-type]
            found = self._checks[number, kind] = msgspec.msgpack.Decoder(list[row]).decode  # type: ignore[valid-type]
        return found


def _texts(frame: Frame, name: str) -> list[str]:
    found = frame.values(name)
    if found is None or not all(isinstance(each, str) for each in found):
        raise UsageError(f"a frame without texts in its column {name!r}")
    return cast(list[str], found)
