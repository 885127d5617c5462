"""Capturing a fleet on Kafka while it runs: copies that are brought to a cut, and then fixed.

What a cut is stands in cutting.py. The copies are kept until the engine is closed, so the next one
reads only what came since; what was captured before is not touched by that, as every capture is a
read transaction per file.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from holdfast.engine.contents import Facts, HeldContents, Outbox, PartitionContents, of_retired
from holdfast.engine.inheritance import refuses
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.cutting import Copy, Cut
from holdfast.engine.kafka.founding import Founded
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.pulling import Puller
from holdfast.engine.sqlite.capturing import CapturedPartition
from holdfast.engine.sqlite.folders import folder_of
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.stamping import Clock, Instant
from holdfast.errors import TheirBug
from holdfast.model.keys import Layout


class CutPartition(CapturedPartition):
    """A copy as it is at the cut. Its outbox is not in the state: there messages have gone."""

    def __init__(
        self, folder: Path, number: int, slots: range, inbox: SqliteInbox, outbox: Outbox
    ) -> None:
        super().__init__(folder, number, slots, inbox)
        self._on_its_way = outbox

    def describe(self) -> None:
        super().describe()
        # Beside the time stands an offset, which means nothing elsewhere.
        stamp = Instant(self.facts.stamp.wall, 0.0, "")
        self.facts = self.facts._replace(stamp=stamp)

    def outbox(self) -> Outbox:
        return self._on_its_way


@dataclass
class CutContents(HeldContents):
    def close(self) -> None:
        for partition in self.partitions:
            assert isinstance(partition, CutPartition)
            partition.close()


class Capturer:
    """One cut at a time, from any thread."""

    def __init__(self, fleet: Founded, copies: Copies, clock: Clock) -> None:
        self._fleet = fleet
        self._copies = copies
        self._clock = clock
        self._cutting = threading.Lock()
        self._cut: dict[int, Copy] = {}
        self._retired: dict[int, Facts] = {}  # they do not change any more
        self._root = copies.place.scratch / "cut"

    def capture(self) -> CutContents:
        """1 check that partitions stay, 2 cut, 3 fix, 4 check that they have stayed."""
        with self._cutting:
            layout = self._layout()
            try:
                outboxes = self._bring_to_a_cut(layout)
                contents = self._fix(layout, outboxes)
            except TheirBug:
                self._drop(list(self._cut))  # if it is the copies, they are made anew
                raise
        try:
            if self._layout() != layout:
                raise refuses(self._fleet.settings.place)
            contents.schemas = self._fleet.catalog.schemas()
            contents.retired = self._retired_facts()
        except BaseException:
            contents.close()
            raise
        return contents

    def _layout(self) -> Layout:
        """Rescaling while partitions are replaced, and until what came too late is forwarded."""
        catalog = self._fleet.catalog
        catalog.refresh()
        layout = catalog.layout
        if not catalog.closed_intakes.isdisjoint(layout.numbers):
            raise refuses(self._fleet.settings.place)
        for number in catalog.retired:
            cut = catalog.forwarded.get(number)
            inbox = self._copies.inbox_of(number)
            if cut is not None and self._fleet.feed.acknowledged_end(inbox) > cut:
                raise refuses(self._fleet.settings.place)
        return layout

    # The copies.

    def _bring_to_a_cut(self, layout: Layout) -> dict[int, Outbox]:
        self._drop([number for number in self._cut if number not in layout.numbers])
        for number in layout.numbers:
            if number not in self._cut:
                self._cut[number] = self._copy(number)
            self._prepare(self._cut[number])
        puller = Puller(self._fleet.settings)
        try:
            return Cut(puller, self._cut, self._fleet.feed.acknowledged_end).run()
        finally:
            puller.close()

    def _copy(self, number: int) -> Copy:
        copies = self._copies
        mirror = Mirror(
            folder_of(self._root, number),
            number,
            self._fleet.catalog.incarnation(number),
            copies.limits,
            self._clock,
            lambda number: None,
            lambda folder: copies.restore(number, folder),
        )
        return Copy(mirror, copies.inbox_of(number), copies.changelog_of(number))

    def _prepare(self, copy: Copy) -> None:
        """What it would read next may have been deleted behind a base copy since the last cut."""
        mirror, beginning = copy.mirror, self._fleet.feed.beginning
        if (
            beginning(copy.changelog) > mirror.changelog_sink.next_offset
            or beginning(copy.inbox) > mirror.inbox_sink.next_offset
        ):
            mirror.begin_again()
        mirror.maintain()

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            mirror = self._cut.pop(number).mirror
            mirror.close()
            shutil.rmtree(mirror.folder, ignore_errors=True)

    # What was captured.

    def _fix(self, layout: Layout, outboxes: dict[int, Outbox]) -> CutContents:
        with ExitStack() as closing:
            fixed: list[PartitionContents] = []
            for number, slots in layout.slots_by_number.items():
                mirror = self._cut[number].mirror
                part = CutPartition(mirror.folder, number, slots, mirror.inbox, outboxes[number])
                closing.callback(part.close)
                part.fix()
                part.describe()
                fixed.append(part)
            closing.pop_all()
        return CutContents(self._fleet.catalog.fleet, layout, [], {}, fixed)

    def _retired_facts(self) -> list[Facts]:
        for number, slots in self._fleet.catalog.retired.items():
            if number not in self._retired:
                view = MirrorView(self._copies.of(number))
                facts = of_retired(number, slots, view.incarnation(), view.head())
                self._retired[number] = facts
        return [facts for _, facts in sorted(self._retired.items())]

    def close(self) -> None:
        with self._cutting:
            self._drop(list(self._cut))
