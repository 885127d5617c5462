"""Rescaling a directory: new partitions beside the old ones, then one transaction of the catalog.

Who holds the state of a partition (`SqliteState.held`) keeps everybody from claiming it, from
committing to it and from opening its intake. A rescaling holds them all until it is done, so what
it has found drained stays drained.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from holdfast.engine import inheritance
from holdfast.engine.faults import FaultPoints
from holdfast.engine.port import Claim, Limits
from holdfast.engine.sqlite import segment
from holdfast.engine.sqlite.blocks import Place, put_blocks
from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.engine.sqlite.checks import check_of
from holdfast.engine.sqlite.fates import PUT_FATE, fate_row
from holdfast.engine.sqlite.files import damaged, discard, explained, publish, sync_path
from holdfast.engine.sqlite.folders import folder_of, fresh_incarnation, make_folder
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.standing import begin_state
from holdfast.engine.sqlite.state import SqliteState, call_row
from holdfast.engine.sqlite.view import SqliteView
from holdfast.engine.stamping import Instant
from holdfast.errors import HoldfastError
from holdfast.model.keys import Layout
from holdfast.stepping.blocks import Block, bucket_of, records_in, split_block
from holdfast.stepping.commit import Letter, Record

_log = logging.getLogger("holdfast.engine")
_pack = msgspec.msgpack.Encoder().encode


class Parent(NamedTuple):
    claim: Claim
    owned: SqliteState
    view: SqliteView
    inbox: SqliteInbox


def rescale(
    root: Path,
    catalog: SqliteCatalog,
    parents: Sequence[Parent],
    partitions: int,
    limits: Limits,
    faults: FaultPoints,
) -> None:
    """1 hold every parent, 2 check, 3 make children durable, 4 switch, 5 retire the parents.

    A crash before the switch leaves folders that no catalog knows; the next attempt removes them.
    After it nobody can claim a parent, so that an epoch which was not raised any more is nobody's.
    """
    with ExitStack() as held:
        for parent in parents:
            held.enter_context(parent.owned.held(parent.claim))
        before = catalog.layout
        _check(before, parents)
        after = Layout.even(partitions, first=before.numbers.stop)
        faults("rescale.before")
        made: list[Path] = []
        try:
            with explained(root):
                stamp = inheritance.latest(parent.inbox.head().stamp for parent in parents)
                for folder in make_children(
                    root, parents, before, after, stamp, limits, fresh_incarnation
                ):
                    made.append(folder)
            catalog.switch(after, faults)
        except BaseException:
            catalog.settle()  # if this fails nobody knows, and nothing may be removed
            if catalog.layout != after:
                for folder in made:
                    shutil.rmtree(folder, ignore_errors=True)
            raise
        faults("rescale.after")
        for parent in parents:
            try:
                parent.owned.retire()
            except HoldfastError as trouble:
                _log.warning("it is retired all the same: %s", trouble)


def _check(layout: Layout, parents: Sequence[Parent]) -> None:
    views = {parent.claim.partition: parent.view for parent in parents}
    if list(views) != list(layout.numbers):
        raise inheritance.not_claimed(layout, views)
    for parent in parents:
        number = parent.claim.partition
        if not parent.inbox.head().closed:
            raise inheritance.intake_open(number)
        if parent.view.outbox():
            raise inheritance.not_drained(number, "its outbox is not empty")
        parent.view.check()
    inheritance.check_drained(views)


def make_children(
    root: Path,
    parents: Sequence[Parent],
    before: Layout,
    after: Layout,
    stamp: Instant,
    limits: Limits,
    incarnation_of: Callable[[int], str],
) -> Iterator[Path]:
    """Their folders, each named before anything is put there."""
    heads = [parent.view.head() for parent in parents]
    generation = max(parent.view.generation() for parent in parents)
    dedupe = inheritance.union(parent.inbox.dedupe() for parent in parents)
    dedupe = inheritance.within_bounds(dedupe, stamp.wall, limits)
    buried = [parent.view.letters() for parent in parents]
    opened = [parent.view.calls(0, 2**62) for parent in parents]
    fates = [parent.view.fates() for parent in parents]
    shares = _shares(root, parents, before, after)
    for number, parts in groupby(shares, key=itemgetter(0)):
        slots = after.slots_by_number[number]
        folder = make_folder(root, number)
        yield folder
        incarnation = incarnation_of(number)
        segment.create_first(folder / "inbox", incarnation, stamp, dedupe.of(slots))
        letters = inheritance.letters_of(slots, buried)
        calls = inheritance.calls_of(slots, opened)
        path = folder / "state.db"
        head = inheritance.first_head(heads, letters, calls)
        connection = begin_state(path, incarnation, generation, head)
        try:
            with explained(path):
                taken: set[Place] = set()
                for _, share in parts:
                    _put_share(connection, share, taken)
                for call in calls:
                    connection.execute("INSERT INTO calls VALUES(?, ?, ?, ?)", call_row(call))
                own = inheritance.fates_of(slots, fates)
                connection.executemany(PUT_FATE, map(fate_row, own))
                for letter in letters:
                    connection.execute("INSERT INTO letters VALUES(?, ?, ?, ?)", _row(letter))
            publish(connection, path)
        except BaseException:
            discard(connection, path)
            raise
    sync_path(root)


def _row(letter: Letter) -> tuple[int, int, bytes, int]:
    body = _pack(letter)
    return letter.id, 0, body, check_of(letter.id, body)


class Share(NamedTuple):
    """What a child gets of one parent."""

    records: list[Record]
    blocks: list[Block]


def _shares(
    root: Path, parents: Sequence[Parent], before: Layout, after: Layout
) -> Iterator[tuple[int, Share]]:
    """One for each child of each parent whose slots it shares: each parent is read once."""
    for parent, own in zip(parents, before.partitions, strict=True):
        shares: dict[int, Share] = {
            number: Share([], [])
            for number, slots in after.slots_by_number.items()
            if slots.start < own.stop and own.start < slots.stop
        }
        path = folder_of(root, parent.claim.partition) / "state.db"

        child_of = partial(_child_of, path, shares, after)
        records, blocks = parent.view.divided()
        for record in records:
            shares[child_of(record.agent, record.key)].records.append(record)
        for block in blocks:
            for child, part in split_block(block, partial(child_of, block.agent)).items():
                shares[child].blocks.append(part)
        yield from shares.items()


def _child_of(path: Path, shares: dict[int, Share], after: Layout, agent: str, key: str) -> int:
    child = after.partition_of(key)
    if child not in shares:
        raise damaged(path, f"{agent}/{key} does not belong here")
    return child


def _put_share(connection: apsw.Connection, share: Share, taken: set[Place]) -> None:
    """A bucket that two parents shared has one block, and the agents of the other are rows."""
    records = list(map(inheritance.moved, share.records))
    blocks: dict[Place, Block | None] = {}
    for block in share.blocks:
        for bucket, part in split_block(block, bucket_of).items():
            if (block.agent, bucket) in taken:
                records += records_in(part)
            else:
                blocks[block.agent, bucket] = part
    taken.update(blocks)
    rows = [(*record, check_of(*record)) for record in records]
    connection.executemany("INSERT INTO base VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)
    put_blocks(connection, blocks.items())
