"""Twins: the same stored frames through an interpreted stepper and through kernels.

The interpreted twin folds every event carefully, so that nothing it does depends on how frames are
cut into batches. What both commit is compared commit by commit, in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

import numpy as np

from holdfast.model.agent import Agent
from holdfast.model.effects import Traced
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.model.layout import NoLayout, slots_of
from holdfast.stepping.actionids import action_id
from holdfast.stepping.arrays import arrays_of
from holdfast.stepping.blocks import Block, records_in
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Extras
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.columns import payload_columns
from holdfast.stepping.commit import Call, Commit, Fate, Letter, Record
from holdfast.stepping.compiled.kind import Kernel
from holdfast.stepping.frame import Column, Frame, const, sequence
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.stepping.names import names_column
from holdfast.stepping.rows import read_payload
from holdfast.stepping.script import Firing, read_firings
from holdfast.stepping.stepper import Stepper
from tests.stepping.rig import Inbox, codebook_of

LAYOUT = Layout.even(3)  # messages go to three inboxes; here all of them are one


class CarefulStepper(Stepper):
    def _take(self, fold: CarefulFold, inputs: Inputs, fast: bool) -> None:
        super()._take(fold, inputs, False)


@dataclass
class Twin:
    """One stepper, and everything that it has committed."""

    fleet: FleetModel
    codebook: Codebook
    kernels: Mapping[str, Kernel]
    commits: list[Commit] = field(default_factory=list)
    items: list[Record | Block] = field(default_factory=list)
    redriven: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stepper = self._stepper(self.kernels)

    def _stepper(self, kernels: Mapping[str, Kernel], *, scripted: bool = False) -> Stepper:
        make = Stepper if kernels else CarefulStepper
        return make(
            self.fleet,
            LAYOUT,
            self.codebook,
            self._letter,
            self._fates_of,
            scripted=scripted,
            kernels=kernels,
        )

    def _letter(self, letter_id: int) -> Letter | None:
        found = [e for commit in self.commits for e in commit.letters if e.id == letter_id]
        return None if letter_id in self.redriven or not found else found[0]

    def _fates_of(self, ids: Sequence[str]) -> list[Fate]:
        return [each for commit in self.commits for each in commit.fates if each.id in ids]

    def keep(self, commit: Commit) -> Commit:
        self.commits.append(commit)
        self.redriven.update(commit.redriven)
        self.items += [*commit.records, *commit.blocks]
        return commit

    def reload(self, kernels: Mapping[str, Kernel], *, compacted: bool) -> None:
        """As a new process finds it, with these kernels."""
        before = self.stepper
        if compacted:
            self.items = self.compacted()
        self.kernels = kernels
        self.stepper = self._stepper(kernels)
        self.stepper.load(before.head, before.sent_next, self.items)

    def compacted(self) -> list[Record | Block]:
        """As an engine has it after a compaction: whole buckets, and what no block can hold."""
        newest: dict[tuple[str, str], Record | None] = {}
        for item in self.items:
            for record in (item,) if isinstance(item, Record) else records_in(item):
                alone = isinstance(item, Record) or item.agent not in self.kernels
                newest[record.agent, record.key] = record if alone else None
        found: list[Record | Block] = [each for each in newest.values() if each is not None]
        for agent in self.kernels:
            images = self.stepper.images(agent, range(64))
            assert images is not None
            found += [block for _, block in images if block is not None]
        return found

    def scripted(self) -> Stepper:
        """A new one that repeats what this one did."""
        return self._stepper(self.kernels, scripted=True)

    def script(self) -> list[Firing]:
        found: list[Firing] = []
        for commit in self.commits:
            found += read_firings(commit.journalled) if commit.journalled else []
        return found

    def states(self) -> dict[tuple[str, str], object]:
        """All agents, as stored."""
        found: dict[tuple[str, str], Record] = {}
        for item in self.items:
            for record in (item,) if isinstance(item, Record) else records_in(item):
                found[record.agent, record.key] = record
        return {at: shown(record, self.codebook) for at, record in sorted(found.items())}


# Everything that can be observed, in a form that compares: NaN equals NaN, 0.0 is not -0.0.


def shown(record: Record, codebook: Codebook) -> object:
    state = codebook.reader_of(record.schema).row(record.state)
    extras = Extras.unpack(record.extras, codebook)
    timers = sorted(map(repr, extras.timers.values()))
    beside = (extras.paused, list(map(repr, extras.held)), timers, extras.calls)
    return (record.version, record.updated, repr(state), beside)


def view(commit: Commit, fleet: FleetModel, codebook: Codebook) -> dict[str, object]:
    records = {
        (record.agent, record.key): shown(record, codebook)
        for record in sorted(commit.changed, key=lambda each: (each.agent, each.key))
    }
    assert len(records) == len(commit.changed), "an agent is in the commit twice"
    return {
        "letters": [_letter(each, codebook) for each in commit.letters],
        "records": records,
        "actions": _actions(commit, fleet, codebook),
        "messages": _messages(commit, codebook),
        "journal": _journal(commit),
        "answers": commit.answers,
        "calls": (commit.calls, commit.closed),
        "logs": commit.logs,
        "traced": _traced(commit),
        "commands": (commit.redriven, commit.fates, commit.condemned),
        "sent": commit.sent_next,
        "head": commit.head,
    }


def _letter(letter: Letter, codebook: Codebook) -> object:
    event = codebook.reader_of(letter.schema).row(letter.row)
    return letter._replace(row=repr(event).encode())


def _columns(frame: Frame, *names: str) -> list[tuple[object, ...]]:
    given = [frame.values(name) or [None] * frame.count for name in names]
    return list(zip(*given, strict=True))


def _actions(commit: Commit, fleet: FleetModel, codebook: Codebook) -> list[object]:
    if commit.issued is None:
        return []
    frame = Frame.decode(commit.issued.frame)
    assert (commit.issued.first, commit.issued.count) == (commit.before.actions_next, frame.count)
    names = ("agent", "key", "version", "index", "now", "undoes", "why", "trace")
    rows = cast(Any, _columns(frame, *names))
    payload = read_payload(frame, codebook)
    return [
        (action_id(fleet.name, *row[:4]), row[4], row[5] or "", row[6] or "", row[7], repr(action))
        for row, action in zip(rows, payload, strict=True)
    ]


def _messages(commit: Commit, codebook: Codebook) -> list[object]:
    found: list[object] = []
    for out in commit.outgoing:
        frame = Frame.decode(out.frame)
        names = ("agent", "key", "from_agent", "from_key", "hops", "event_time", "origin", "trace")
        payload = map(repr, read_payload(frame, codebook))
        rows = list(zip(_columns(frame, *names), payload, strict=True))
        found.append((out.destination, out.first, out.count, rows))
    return found


def with_traced_rows(commit: Commit, stepper: Stepper) -> Commit:
    """With what its kernels tell of traced events beside it."""
    commit.traced += [each for rows in stepper.traced_rows for each in rows.each()]
    return commit


def _traced(commit: Commit) -> list[Traced]:
    return sorted(commit.traced, key=lambda each: each.position)


def _journal(commit: Commit) -> list[object]:
    if commit.journalled is None:
        return []
    return [commit.journalled.first, *map(repr, read_firings(commit.journalled))]


# Both together.


class Twins:
    def __init__(
        self,
        fleet: FleetModel,
        kernels: Mapping[str, Kernel],
        codebook: Codebook | None = None,
    ) -> None:
        self.fleet = fleet
        self.kernels = dict(kernels)
        self.codebook = codebook or codebook_of(fleet)
        self.inbox = Inbox(self.codebook)
        self.plain = Twin(fleet, self.codebook, {})
        self.compiled = Twin(fleet, self.codebook, self.kernels)
        self.open: list[Call] = []

    def waiting(self) -> list[Inputs]:
        """Read anew: nobody sees what another has made of a frame."""
        position = self.plain.stepper.head.position
        stored = [each for each in self.inbox.frames if each.first + each.count > position]
        found = [read_inputs(each, self.codebook) for each in stored]
        return [each.part(max(0, position - each.first), len(each)) for each in found]

    def step(
        self,
        frames: int,
        clock: float | None = None,
        *,
        alone: bool = False,
        condemned: str | None = None,
    ) -> Commit:
        batches = [self.waiting()[:frames] for _ in range(2)]
        made = []
        for twin, batch in zip((self.plain, self.compiled), batches, strict=True):
            commit = twin.stepper.step(batch, clock, alone=alone, condemned=condemned)
            made.append(with_traced_rows(commit, twin.stepper))
        for twin, commit in zip((self.plain, self.compiled), made, strict=True):
            twin.keep(commit)
        self.compare(*made)
        self.open += made[0].calls
        self.open = [call for call in self.open if call.id not in made[0].closed]
        return made[0]

    def compare(self, one: Commit, other: Commit) -> None:
        wanted = view(one, self.fleet, self.codebook)
        got = view(other, self.fleet, self.codebook)
        for what, value in wanted.items():
            assert got[what] == value, what

    def put_columns(
        self, agent: type[Agent], keys: Sequence[str], events: Sequence[Event], at: float
    ) -> None:
        """As `send_columns` would; events that have no place in columns go as rows."""
        slots = slots_of(type(events[0]).__holdfast__.schema)
        schema = self.codebook.id_of(type(events[0]))
        rows = [[_wire(getattr(event, slot.name)) for slot in slots] for event in events]
        try:
            arrays = arrays_of(slots, list(zip(*rows, strict=True)) or [])
        except NoLayout:
            self.inbox.put([(agent, key, e) for key, e in zip(keys, events, strict=True)], at)
            return
        table = sorted({*keys, "never-met"})
        codes = np.array([table.index(key) for key in keys], np.uint32)
        column = names_column([each.encode() for each in table], codes)
        columns: dict[str, Column] = {
            "origin": const("external"),
            "agent": const(agent.__name__),
            "key": column,
            "source": const("test"),
            "seq": sequence(self.inbox.next),
            "schema": const(schema),
            **payload_columns(schema, slots, arrays),
        }
        self.inbox._append(Frame(len(keys), columns), at)


def _wire(value: object) -> object:
    if isinstance(value, list):
        return [_wire(each) for each in value]
    return value.value if isinstance(value, Enum) else value
