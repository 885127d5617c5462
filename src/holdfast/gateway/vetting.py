"""Frames from outside, checked before they are appended: what is in an inbox is folded, so a row
that does not fit its schema would stop a partition.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import cast

import msgspec

from holdfast.engine.admission import SEQ_MAX
from holdfast.engine.http.wire import Packed
from holdfast.engine.port import Parcel
from holdfast.errors import DamagedData, NewerFormat, Rescaling, UsageError
from holdfast.gateway.problems import Problem
from holdfast.gateway.tokens import Principal, Role
from holdfast.model.keys import check_key
from holdfast.model.schema import Kind
from holdfast.model.types import rebuild
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.consigning import ONCE
from holdfast.runtime.issued import find_action
from holdfast.runtime.sending import check_count, check_numbers, check_sendable, check_source
from holdfast.runtime.settling import BY_LENGTH_MAX, WHY_LENGTH_MAX
from holdfast.runtime.untyped import UntypedLive
from holdfast.stepping.codebook import EVENT_BYTES_MAX
from holdfast.stepping.frame import UNREADABLE, Frame
from holdfast.stepping.grounding import GROUND, LIFT
from holdfast.stepping.inputs import FLEET_WIDE
from holdfast.stepping.lane import AT_ONCE, URGENT, urgent_columns
from holdfast.stepping.rows import packed_rows, schema_ids
from holdfast.stepping.traces import NAME as TRACE
from holdfast.stepping.traces import check_contexts

_COMMAND = {"origin", "agent", "key", "command"}
_EVENT = {
    *("origin", "agent", "key", "source", "seq", "event_time", "previous", "asks", "schema"),
    URGENT,
    TRACE,
}
# Commands by the role they take.
COMMANDS = {
    "acknowledge": Role.SEND,
    "fail": Role.SEND,
    "deliver": Role.SEND,
    "pause": Role.ADMIN,
    "resume": Role.ADMIN,
    "redrive": Role.ADMIN,
    "compensate": Role.ADMIN,
    "override": Role.ADMIN,
    GROUND: Role.ADMIN,
    LIFT: Role.ADMIN,
}
ALL = (GROUND, LIFT)  # are for a whole partition
REASON_LENGTH_MAX = 1_000
_rows_of_bytes = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Vetting:
    def __init__(self, live: UntypedLive) -> None:
        self._live = live
        self._checks: dict[tuple[int, Kind], Callable[[bytes], object]] = {}

    def checked(self, partition: int, given: Packed, who: Principal) -> Parcel:
        """The parcel; what is wrong with it is raised, in one line."""
        try:
            parcel = given.parcel()
            self._check(partition, parcel, who)
            return self._in_its_lane(parcel)
        except (*UNREADABLE, RecursionError) as error:
            raise UsageError(f"a frame that cannot be read: {error}") from None
        except (DamagedData, NewerFormat) as error:
            raise UsageError(str(error)) from None

    def _check(self, partition: int, parcel: Parcel, who: Principal) -> None:
        frame = parcel.frame
        check_count(frame.count)
        commands = frame.constant("origin") == "control"
        for agent in set(_texts(frame, "agent")) - ({FLEET_WIDE} if commands else set()):
            self._live.names.check_agent(agent)
        keys = _texts(frame, "key")
        for key in set(keys):
            check_key(key)
        layout = self._live.engine.catalog.layout
        owners = {layout.partition_of(key) for key in set(keys)}
        if owners - {partition}:
            raise Rescaling(f"keys of partition {min(owners - {partition})}, sent to {partition}")
        if commands:
            self._check_commands(partition, frame, parcel, who)
        else:
            self._check_events(frame, parcel)

    def _check_events(self, frame: Frame, parcel: Parcel) -> None:
        if frame.constant("origin") != "external" or parcel.source is None:
            raise UsageError("a frame of events needs the origin external, and a source")
        ids = Counter(schema_ids(frame))
        whole = {f"{kind}.{number}" for number in ids for kind in ("rows", "cols")}
        fields = tuple(f"cols.{number}." for number in ids)
        for name in frame.columns:
            if name not in _EVENT | whole and not name.startswith(fields):
                raise UsageError(f"column {name!r:.80} of a frame is none taken from outside")
        _check_source(frame, parcel.source)
        _check_numbers(frame, parcel)
        check_contexts(frame)
        for number, count in ids.items():
            rows = packed_rows(frame, number, count)
            self._decoder(number)(rows)
            sizes = [len(bytes(row)) for row in _rows_of_bytes(rows)]
            if len(sizes) != count:
                raise UsageError(f"{len(sizes)} payloads for {count} rows of a frame")
            if max(sizes) > EVENT_BYTES_MAX:
                raise UsageError(f"an event of {max(sizes):,} bytes: {EVENT_BYTES_MAX:,} at most")

    def _in_its_lane(self, parcel: Parcel) -> Parcel:
        """What overtakes is for the fleet to say, whatever the sender's own classes do."""
        frame = parcel.frame
        if parcel.external:
            flags = self._live.router.urgent(schema_ids(frame)) or [False] * frame.count
        else:
            commands = cast("list[list[object]]", frame.values("command"))
            flags = [command[0] in AT_ONCE for command in commands]
        if flags == (frame.values(URGENT) or [False] * frame.count):
            return parcel
        others = {name: column for name, column in frame.columns.items() if name != URGENT}
        fitting = Frame(frame.count, others | urgent_columns(flags))
        return dataclasses.replace(parcel, frame=fitting, encoded=fitting.encode())

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

    def _check_commands(self, partition: int, frame: Frame, parcel: Parcel, who: Principal) -> None:
        if set(frame.columns) - {URGENT} != _COMMAND or parcel.source is not None:
            raise UsageError("a command has other columns, or a source")
        _check_flags(frame, URGENT)
        agents, keys = _texts(frame, "agent"), _texts(frame, "key")
        for agent, key, command in zip(agents, keys, frame.values("command") or [], strict=True):
            name = command[0] if isinstance(command, list) and command else None
            role = COMMANDS.get(name) if isinstance(name, str) else None
            fleet_wide = agent == FLEET_WIDE
            if role is None or not isinstance(command, list) or fleet_wide != (name in ALL):
                raise UsageError(f"{command!r:.80} is no command")
            if who.role < role:
                text = f"{who.name} may not {name}: it takes the role {role.name.lower()}"
                raise Problem(403, "Forbidden", text)
            if not self._fits(partition, agent, key, command):
                raise UsageError(f"{command!r:.80} cannot be obeyed by {agent}/{key}")

    def _fits(self, partition: int, agent: str, key: str, command: list[object]) -> bool:
        """What is folded must not fail: letters and actions have to be those of this agent."""
        engine = self._live.engine
        match command:
            case ["pause", str(reason)]:
                return len(reason) <= REASON_LENGTH_MAX
            case ["resume"]:
                return True
            case ["redrive", int(letter_id)]:
                if not 0 <= letter_id < SEQ_MAX:
                    return False
                letter = engine.view(partition).letter(letter_id)
                return letter is not None and (letter.agent, letter.key) == (agent, key)
            case ["compensate", str(action_id), str(why), int(schema), bytes(row)]:
                lived = partitions_of(engine.catalog, key)
                found = find_action(engine, lived, action_id)
                same = (found.agent, found.key, found.schema, found.row)
                return len(why) <= WHY_LENGTH_MAX and same == (agent, key, schema, row)
            case ["acknowledge" | "fail" | "deliver", str(action_id), str(by), str(why)]:
                return _is_said(by, why) and len(action_id) <= REASON_LENGTH_MAX
            case ["override", str(why), str(by), int(schema), bytes(row), bool()]:
                self._decoder(schema, "action")(msgspec.msgpack.encode([msgspec.Raw(row)]))
                return _is_said(by, why)
            case ["ground-stop" | "lift-ground-stop", str(why), str(by)]:
                return _is_said(by, why)
        return False


def _is_said(by: str, why: str) -> bool:
    return len(by) <= BY_LENGTH_MAX and len(why) <= WHY_LENGTH_MAX


def _check_source(frame: Frame, source: str | None) -> None:
    if frame.constant("source") != source or source is None:
        raise UsageError("a frame names another source than its parcel")
    if source.startswith(ONCE):
        raise UsageError(f"source {source[:80]!r}: names that start with {ONCE} are a gateway's")
    check_source(source.removeprefix("~"))  # that of a handle which was given none begins so


def _check_numbers(frame: Frame, parcel: Parcel) -> None:
    seqs = list(parcel.seqs)
    given = frame.values("seq")
    if given != seqs or any(type(each) is not int for each in given):
        raise UsageError("a frame has other numbers than its parcel")
    if len(set(seqs)) != len(seqs):
        raise UsageError("a source sends two events under one number: number each of them")
    check_numbers(min(seqs), None, None)
    check_numbers(max(seqs), None, None)
    for name, place in (("previous", 1), ("event_time", 2)):
        for value in set(frame.values(name) or ()):
            if value is None:
                raise UsageError(f"a frame whose column {name!r} has nothing in a row")
            check_numbers(*[value if n == place else None for n in range(3)])
    _check_flags(frame, "asks")
    _check_flags(frame, URGENT)


def _check_flags(frame: Frame, name: str) -> None:
    if any(type(each) is not bool for each in frame.values(name) or ()):
        raise UsageError(f"a frame whose column {name!r} is neither true nor false")


def _texts(frame: Frame, name: str) -> list[str]:
    found = frame.values(name)
    if found is None or not all(isinstance(each, str) for each in found):
        raise UsageError(f"a frame without texts in its column {name!r}")
    return cast(list[str], found)
