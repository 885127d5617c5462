"""Capturing and planting in memory: with all partitions locked, a moment is easy to have."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine.contents import Contents, Facts, HeldContents, HeldPartition, of_retired
from holdfast.engine.inheritance import refuses
from holdfast.engine.memory.catalog import MemoryCatalog
from holdfast.engine.memory.ledger import MemoryLedger
from holdfast.engine.memory.partition import MemoryPartition
from holdfast.stepping.fates import Fates
from holdfast.stepping.lane import LANE, in_lane


def capture(catalog: MemoryCatalog, partitions: Sequence[MemoryPartition]) -> HeldContents:
    """Called with every live partition locked."""
    layout = catalog.layout
    if any(partitions[number].closed for number in layout.numbers):
        raise refuses("this fleet")
    return HeldContents(
        catalog.fleet,
        layout,
        [
            of_retired(number, slots, partitions[number].born, partitions[number].committed)
            for number, slots in sorted(catalog.retired.items())
        ],
        catalog.schemas(),
        [_held(number, slots, partitions[number]) for number, slots in _live(catalog)],
    )


def _live(catalog: MemoryCatalog) -> list[tuple[int, range]]:
    return list(catalog.layout.slots_by_number.items())


def _held(number: int, slots: range, part: MemoryPartition) -> HeldPartition:
    ledger = part.ledger
    position = part.committed.position
    return HeldPartition(
        Facts(
            number,
            slots,
            part.born,
            part.committed,
            part.generation,
            part.next,
            part.stamp,
            dict(part.numbers),
            dict(ledger.marks),
            part.urgent,
        ),
        list(part.settled().values()),
        list(part.dead.values()),
        [(to, first, n, frame) for (to, first), (n, frame) in sorted(part.outbox.items())],
        [
            *(frame for frame in part.inbox if frame.first + frame.count > position),
            *(frame for frame in part.lane if frame.first >= LANE + part.committed.urgent),
        ],
        ledger.dedupe(),
        list(part.opened.values()),
        part.fates(),
    )


def planted_catalog(contents: Contents) -> MemoryCatalog:
    catalog = MemoryCatalog(contents.fleet, len(contents.layout.partitions))
    catalog.layout = contents.layout
    catalog.retired = {facts.number: facts.slots for facts in contents.retired}
    catalog.register([schema for _, schema in sorted(contents.schemas.items())])
    return catalog


def planted_partitions(contents: Contents) -> list[MemoryPartition]:
    retired = [_with(facts, closed=True) for facts in contents.retired]
    live: list[MemoryPartition] = []
    for source in contents.partitions:
        part = _with(source.facts)
        part.states = {(record.agent, record.key): record for record in source.records()}
        part.dead = {letter.id: (letter, redriven) for letter, redriven in source.letters()}
        part.opened = {call.id: call for call in source.calls()}
        part.decided = Fates(source.fates())
        part.outbox = {(to, first): (n, frame) for to, first, n, frame in source.outbox()}
        frames = list(source.frames())
        part.inbox = [frame for frame in frames if not in_lane(frame.first)]
        part.lane = [frame for frame in frames if in_lane(frame.first)]
        part.ledger = MemoryLedger(source.dedupe())
        part.ledger.marks = dict(source.facts.marks)
        live.append(part)
    return retired + live


def _with(facts: Facts, *, closed: bool = False) -> MemoryPartition:
    return MemoryPartition(
        next=facts.next,
        urgent=facts.urgent,
        stamp=facts.stamp,
        closed=closed,
        generation=facts.generation,
        committed=facts.head,
        numbers=dict(facts.sent_next),
        born=facts.incarnation,
    )
