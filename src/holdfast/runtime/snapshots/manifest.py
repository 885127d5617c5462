"""The manifest of a snapshot: everything about it but its chunks, written last.

Without a manifest there is no snapshot, only chunks that nobody refers to. It is JSON under a seal
(blob/sealing.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from holdfast.blob.sealing import Seal
from holdfast.engine.contents import Facts
from holdfast.engine.stamping import Instant
from holdfast.errors import UsageError
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Head

WAY_OUT = "use another snapshot, `holdfast snapshot list` has them"
AUTOMATIC = "auto-"  # names that begin so are ours, and subject to retention
NAME_LENGTH_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEAL = Seal(b"HFSN", 1, 3, WAY_OUT)


class ChunkRef(msgspec.Struct, array_like=True, frozen=True):
    """A chunk, named by the hash of its bytes."""

    name: str
    bytes: int  # as stored
    raw: int  # as unpacked
    rows: int

    @property
    def object(self) -> str:
        return f"chunks/{self.name[:2]}/{self.name}"


class PartitionEntry(msgspec.Struct, frozen=True):
    number: int
    slots: tuple[int, int]
    incarnation: str
    generation: int
    head: dict[str, int | float | str]
    next: int
    stamp: tuple[float, float, str]
    sent_next: dict[int, int] = {}
    marks: dict[str, int] = {}
    rows: int = 0
    base: list[ChunkRef] = []
    deltas: list[ChunkRef] = []  # over the base, later ones over earlier ones
    frames: list[ChunkRef] = []
    outbox: list[ChunkRef] = []
    urgent: int = 0

    def chunks(self) -> Iterator[ChunkRef]:
        for group in (self.base, self.deltas, self.frames, self.outbox):
            yield from group

    @classmethod
    def of(cls, facts: Facts) -> PartitionEntry:
        return cls(
            facts.number,
            (facts.slots.start, facts.slots.stop),
            facts.incarnation,
            facts.generation,
            {name: value for name, value in facts.head._asdict().items() if value != ""},
            facts.next,
            (facts.stamp.wall, facts.stamp.uptime, facts.stamp.boot),
            dict(facts.sent_next),
            dict(facts.marks),
            urgent=facts.urgent,
        )

    @property
    def facts(self) -> Facts:
        known = {name: self.head[name] for name in Head._fields if name in self.head}
        return Facts(
            self.number,
            range(*self.slots),
            self.incarnation,
            Head(**known),  # type: ignore[arg-type]
            self.generation,
            self.next,
            Instant(*self.stamp),
            self.sent_next,
            self.marks,
            self.urgent,
        )


class Manifest(msgspec.Struct, frozen=True):
    fleet: str
    name: str
    number: int  # grows from snapshot to snapshot of a store
    taken: float  # when, by the clock; never before the snapshot with the number before
    release: str
    schemas: dict[int, dict[str, object]]
    partitions: list[PartitionEntry]
    retired: list[PartitionEntry] = []

    @property
    def layout(self) -> Layout:
        slots = tuple(range(*entry.slots) for entry in self.partitions)
        return Layout(slots, self.partitions[0].number)

    def read_schemas(self) -> dict[int, Schema]:
        return {number: Schema.from_json(body) for number, body in self.schemas.items()}

    def chunks(self) -> Iterator[ChunkRef]:
        for entry in self.partitions:
            yield from entry.chunks()

    @property
    def automatic(self) -> bool:
        return self.name.startswith(AUTOMATIC)

    @property
    def latest(self) -> float:
        """The newest time of anything in it: events, timers and commits."""
        return max(max(e.stamp[0], float(e.head.get("now", 0.0))) for e in self.partitions)


def is_name(name: str) -> bool:
    """No other was ever given: an object of another name was put there by somebody else."""
    return len(name) <= NAME_LENGTH_MAX and _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    if not is_name(name):
        raise UsageError(
            f"{name[:120]!r} cannot name a snapshot: use letters, digits and . _ - only, beginning "
            f"with a letter or digit, {NAME_LENGTH_MAX} at most"
        )


def encode(manifest: Manifest) -> bytes:
    return _SEAL.close(msgspec.json.encode(manifest))


def decode(where: str, data: bytes) -> Manifest:
    try:
        return msgspec.json.decode(_SEAL.open(where, data), type=Manifest)
    except msgspec.MsgspecError as error:
        raise _SEAL.damaged(where, str(error)) from None
