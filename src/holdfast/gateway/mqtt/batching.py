"""Rows as parcels: one for each inbox and source, in rounds that keep every agent in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.engine.port import Parcel
from holdfast.gateway.mqtt.decoding import Row
from holdfast.runtime.routing import Router
from holdfast.runtime.sending import make_parcel
from holdfast.stepping.inputs import external_frame
from holdfast.stepping.rows import raw_payload
from holdfast.stepping.traces import trace_columns

MQTT_KEYS_KNOWN_MAX = 1_000_000


@dataclass
class Piece:
    """The rows of one source for one inbox, or for the lane beside it."""

    partition: int
    source: str
    rows: list[Row]
    seqs: list[int]
    urgent: bool = False

    def parcel(self) -> Parcel:
        seqs: range | Sequence[int] = self.seqs
        if seqs[-1] - seqs[0] == len(seqs) - 1 and seqs == list(range(seqs[0], seqs[-1] + 1)):
            seqs = range(seqs[0], seqs[-1] + 1)
        agents = [row.agent for row in self.rows]
        frame = external_frame(
            agents[0] if len(set(agents)) == 1 else agents,
            [row.key for row in self.rows],
            raw_payload([row.schema for row in self.rows], [row.packed for row in self.rows]),
            source=self.source,
            seqs=seqs,
            urgent=[True] * len(self.rows) if self.urgent else (),
        )
        frame.columns |= trace_columns([row.trace for row in self.rows], len(self.rows))
        return make_parcel(frame, self.source, seqs)

    def one_by_one(self) -> list[Piece]:
        pairs = zip(self.rows, self.seqs, strict=True)
        return [Piece(self.partition, self.source, [row], [seq], self.urgent) for row, seq in pairs]


@dataclass
class _Round:
    pieces: dict[tuple[int, str, bool], Piece] = field(default_factory=dict)
    numbers: dict[str, set[int]] = field(default_factory=dict)


class Batcher:
    """`own` numbers what devices do not number: a name that nobody else has, counted from 1."""

    def __init__(self, router: Router, own: str) -> None:
        self._router = router
        self._own = own
        self._next = 1
        self._layout = router.layout
        self._partitions: dict[str, int] = {}  # of keys, in that layout

    def rounds(self, rows: Iterable[Row]) -> tuple[list[list[Piece]], int]:
        """Pieces that go together, round after round; and how many rows were repeats of others.

        In a round an agent has one piece, so it makes no difference in which order they are taken
        or which of them are refused.
        """
        rounds: list[_Round] = []
        places: dict[tuple[str, str], tuple[int, str]] = {}
        repeats = 0
        for row in rows:
            source = row.source or self._own
            agent = (row.agent, row.key)
            number, before = places.get(agent, (0, source))
            if before != source:
                number += 1
            places[agent] = (number, source)
            if number == len(rounds):
                rounds.append(_Round())
            if not self._add(rounds[number], row, source):
                repeats += 1
        return [list(each.pieces.values()) for each in rounds], repeats

    def _add(self, into: _Round, row: Row, source: str) -> bool:
        """False: this number is among them already."""
        seq = row.seq
        if row.source is None:
            seq, self._next = self._next, self._next + 1
        else:
            known = into.numbers.setdefault(source, set())
            if seq in known:
                return False
            known.add(seq)
        partition = self._partition_of(row.key)
        urgent = self._router.is_urgent(row.schema)
        piece = into.pieces.get((partition, source, urgent))
        if piece is None:
            piece = Piece(partition, source, [], [], urgent)
            into.pieces[partition, source, urgent] = piece
        piece.rows.append(row)
        piece.seqs.append(seq)
        return True

    def _partition_of(self, key: str) -> int:
        if self._layout is not self._router.layout or len(self._partitions) > MQTT_KEYS_KNOWN_MAX:
            self._layout, self._partitions = self._router.layout, {}
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = self._router.partition_of(key)
        return found

    def again(self, piece: Piece) -> list[Piece]:
        """The same rows under the same numbers, by the layout as it is now."""
        parts: dict[int, Piece] = {}
        for row, seq in zip(piece.rows, piece.seqs, strict=True):
            number = self._partition_of(row.key)
            part = parts.setdefault(number, Piece(number, piece.source, [], [], piece.urgent))
            part.rows.append(row)
            part.seqs.append(seq)
        return list(parts.values())
