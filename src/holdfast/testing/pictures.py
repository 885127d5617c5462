"""Pictures: what a commit made true, as plain values that two runs can be compared by.

States by the names of their fields, outputs in the order they were made. Sets come sorted, because
the order of their bytes is one process's own; every other order counts, that of a dict too. What a
commit says of its own size, place and moment of writing is left out.
"""

from __future__ import annotations

import hashlib
from typing import cast

import msgspec

from holdfast.model.schema import UntypedReader
from holdfast.stepping.cell import Extras
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import read_raw_payload

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode
_ACTION = ("agent", "key", "version", "index", "now")
_MESSAGE = ("from_agent", "from_key", "agent", "key", "hops", "event_time")
VERSION, TIMERS, HELD, PAUSED = "(version)", "(timers)", "(held events)", "(paused)"
CALLS = "(open calls)"


class Picture(msgspec.Struct):
    """`states` by agent/key (None: gone), `outputs` by their kind."""

    states: dict[str, dict[str, object] | None] = {}
    outputs: dict[str, list[object]] = {}

    def add(self, later: Picture) -> None:
        """The picture of both commits together."""
        self.states.update(later.states)
        for kind, made in later.outputs.items():
            self.outputs.setdefault(kind, []).extend(made)


class Difference(msgspec.Struct):
    """The first thing that two pictures disagree about. Values are as JSON has them."""

    agent: str  # agent/key, or "" where it cannot be told
    what: str
    values: tuple[object, object]


class Painter:
    """Makes pictures of commits, by the schemas of one codebook."""

    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self._readers: dict[int, tuple[str, UntypedReader]] = {}

    def picture(self, commit: Commit) -> Picture:
        picture = Picture()
        for record in commit.changed:
            name = f"{record.agent}/{record.key}"
            picture.states[name] = None if record.gone else self.state(record)
        if commit.issued is not None:
            picture.outputs["actions"] = self._rows(commit.issued.frame, _ACTION)
        for out in commit.outgoing:
            kind = f"messages to partition {out.destination}"
            picture.outputs[kind] = self._rows(out.frame, _MESSAGE)
        if commit.calls:
            picture.outputs["calls"] = [
                [one.agent, one.key, one.id, one.function, _decode(one.arguments), *one[6:]]
                for one in commit.calls
            ]
        if commit.journalled is not None:
            picture.outputs["timers that fired"] = self._journal(commit.journalled.frame)
        if commit.letters:
            picture.outputs["dead letters"] = [
                [each.agent, each.key, self._plain(each.schema, each.row), each.now, each.error]
                for each in commit.letters
            ]
        if commit.answers:
            picture.outputs["answers"] = [
                [each.position, each.status, each.text, each.row and self._plain(*each[4:6])]
                for each in commit.answers
            ]
        if commit.logs:
            picture.outputs["log lines"] = [
                [line.agent, line.key, line.level, line.text] for line in commit.logs
            ]
        return picture

    def state(self, record: Record) -> dict[str, object]:
        found = dict(self._reader(record.schema)[1].row(record.state))
        found[VERSION] = record.version
        if record.extras:
            extras = Extras.unpack(record.extras, self._codebook)
            found[PAUSED] = extras.paused
            found[HELD] = [self._event(each.event) for each in extras.held]
            found[TIMERS] = {
                name: [timer.due, timer.period, self._event(timer.event)]
                for name, timer in sorted(extras.timers.items())
            }
            found[CALLS] = {id: list(call) for id, call in extras.calls.items()}
        return found

    def _event(self, event: object) -> list[object]:
        return self._plain(self._codebook.id_of(type(event)), self._codebook.pack_one(event))

    def _rows(self, encoded: bytes, names: tuple[str, ...]) -> list[object]:
        frame = Frame.decode(encoded)
        columns = [cast(list[object], frame.values(name)) for name in names]
        payload = [self._plain(schema, row) for schema, row in read_raw_payload(frame)]
        return [list(each) for each in zip(*columns, payload, strict=True)]

    def _journal(self, encoded: bytes) -> list[object]:
        frame = Frame.decode(encoded)
        names = ("agent", "key", "name", "due", "now")
        columns = [cast(list[object], frame.values(name)) for name in names]
        pairs = cast("list[tuple[int, bytes] | None]", frame.values("event"))
        events = [None if pair is None else self._plain(*pair) for pair in pairs]
        return [list(each) for each in zip(*columns, events, strict=True)]

    def _plain(self, schema: int, row: bytes) -> list[object]:
        name, reader = self._reader(schema)
        return [name, reader.row(row)]

    def _reader(self, schema_id: int) -> tuple[str, UntypedReader]:
        found = self._readers.get(schema_id)
        if found is None:
            schema = self._codebook.schema_of(schema_id)
            found = self._readers[schema_id] = (schema.name, UntypedReader(schema))
        return found


class Digest:
    """A short number for everything pictured so far; equal after different cuts into commits."""

    def __init__(self) -> None:
        self._states: dict[str, int] = {}
        self._sum = 0
        self._chains: dict[str, bytes] = {}

    def add(self, picture: Picture) -> None:
        for name, state in picture.states.items():
            new = 0 if state is None else _number([name, *state.items()])
            self._sum ^= self._states.get(name, 0) ^ new
            self._states[name] = new
        for kind, made in picture.outputs.items():
            chain = self._chains.get(kind, b"")
            for each in made:
                chain = hashlib.blake2b(chain + _encode(each), digest_size=8).digest()
            self._chains[kind] = chain

    def value(self) -> int:
        return self._sum ^ _number(sorted(self._chains.items()))


def _number(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(_encode(value), digest_size=8).digest(), "big")


def difference(one: Picture, other: Picture, ignore: tuple[str, ...] = ()) -> Difference | None:
    """The first difference, states before outputs; values are compared by their bytes, so that
    NaN equals itself and 0.0 is not -0.0."""
    for name in dict.fromkeys([*one.states, *other.states]):
        ours, theirs = one.states.get(name), other.states.get(name)
        if (ours is None) != (theirs is None):
            return Difference(name, "the agent itself", (ours, theirs))
        for field in dict.fromkeys([*(ours or {}), *(theirs or {})]):
            if field not in ignore:
                pair = ((ours or {}).get(field), (theirs or {}).get(field))
                if _encode(pair[0]) != _encode(pair[1]):
                    return Difference(name, field, pair)
    for kind in dict.fromkeys([*one.outputs, *other.outputs]):
        if kind not in ignore:
            found = _first_of(kind, one.outputs.get(kind, []), other.outputs.get(kind, []))
            if found is not None:
                return found
    return None


def _first_of(kind: str, ours: list[object], theirs: list[object]) -> Difference | None:
    for number in range(max(len(ours), len(theirs))):
        pair = (_at(ours, number), _at(theirs, number))
        if _encode(pair[0]) != _encode(pair[1]):
            made = cast(list[object], pair[0] or pair[1])
            # Messages name the sender, everything else its agent, in the first two places.
            agent = f"{made[0]}/{made[1]}" if kind != "answers" else ""
            return Difference(agent, f"{kind}, number {number + 1}", pair)
    return None


def _at(items: list[object], number: int) -> object:
    return items[number] if number < len(items) else None
