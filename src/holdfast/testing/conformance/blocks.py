"""Conformance: agents that are committed in blocks are agents like others, come what may.

The blocks here have one text per agent, made by hand: an engine needs no numpy, and neither does
the kit.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.engine.port import Engine, Images, View
from holdfast.stepping import fields
from holdfast.stepping.blocks import Block, bucket_of, make_block, mask_of, records_in
from holdfast.stepping.commit import Record
from holdfast.stepping.frame import Column, opaque
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.rescales import owners, rescale
from holdfast.testing.conformance.workbench import (
    SCHEMA,
    Owner,
    Workbench,
    gone,
    record,
    states_in,
)

ROUNDS = 400  # past what any engine leaves as it came
KEYS = [f"k-{number:03}" for number in range(120)]
_pack = msgspec.msgpack.Encoder().encode
_text = msgspec.msgpack.Decoder(tuple[str]).decode


def block_of(records: Sequence[Record]) -> Block:
    """Agents of one class, each of which `record` has made."""
    names = [each.key.encode() for each in records]
    lengths_of_names = fields.pack_lengths(bytes(map(len, names)))
    codes = array({1: "B", 2: "H"}[fields.name_width(len(names))], range(len(names)))
    texts = [_text(each.state)[0] for each in records]
    lengths, content = bytes(map(len, texts)), "".join(texts).encode("latin-1")
    return make_block(
        records[0].agent,
        SCHEMA,
        Column("names", b"".join((lengths_of_names, *names, codes.tobytes()))),
        array("q", [each.version for each in records]),
        array("d", [each.updated for each in records]),
        {
            f"cols.{SCHEMA}": opaque(_pack(["text"])),
            f"cols.{SCHEMA}.text": Column("text", bytes([1, 1]) + lengths + content),
        },
        buckets=mask_of(bucket_of(each.key) for each in records),
    )


class Keeper:
    """An owner's memory: the newest of every agent, and which of them are in columns."""

    def __init__(self, records: dict[str, Record] | None = None) -> None:
        self.records = records or {}
        self.in_columns = set(self.records)

    def images(self, agent: str, buckets: set[int]) -> Iterator[tuple[int, Block | None]]:
        for bucket in buckets:
            own = [self.records[k] for k in sorted(self.in_columns) if bucket_of(k) == bucket]
            yield bucket, block_of(own) if own else None

    def commit(self, owner: Owner, round: int) -> None:
        """Some agents in a block, some as records, and one that is gone: in turns, all are each."""
        in_block = [record(KEYS[(round + i) % 120], f"b{round}", round) for i in range(0, 40, 2)]
        rows = [record(KEYS[(round + i) % 120], f"r{round}", round) for i in range(1, 12, 6)]
        leaves = gone(KEYS[(round + 61) % 120], round)
        self.records |= {r.key: r for r in (*in_block, *rows)}
        self.records.pop(leaves.key, None)
        self.in_columns |= {r.key for r in in_block}
        self.in_columns -= {leaves.key, *(r.key for r in rows)}
        owner.commit([*rows, leaves], blocks=[block_of(in_block)])


class Follower:
    """A reader that keeps what it has read, and asks for what came since."""

    def __init__(self) -> None:
        self.states: dict[str, Record] = {}
        self.commits = -1

    def look(self, view: View) -> None:
        head, *pieces = view.changes(self.commits)
        assert head.head is not None
        if head.whole:
            self.states.clear()
        for piece in pieces:
            if piece.block:
                self.states |= {r.key: r for r in records_in(Block.decode(piece.block))}
            elif piece.record is not None and piece.record.gone:
                self.states.pop(piece.record.key, None)
            elif piece.record is not None:
                self.states[piece.record.key] = piece.record
        self.commits = head.head.commits


class BlockConformance(Workbench):
    def _busy(self, engine: Engine, keeper: Keeper, images: Images) -> Owner:
        owner = Owner.of(engine)
        owner.images = images
        for round in range(1, ROUNDS):
            keeper.commit(owner, round)
        return owner

    def _check(self, engine: Engine, keeper: Keeper) -> None:
        view = engine.view(0)
        assert sorted(view.records()) == sorted(keeper.records.values())
        for key in KEYS:
            assert view.record("Drone", key) == keeper.records.get(key)

    @promise(
        "A piece of what `View.changes` gives",
        "The states as of one commit, whose head comes first: all, or what changed behind `since`",
        "That is the number of a commit, or -1",
        "Which of the two it is, is the engine's choice, and `whole` says it",
        "What follows is to be applied in this order: a later image replaces an earlier one, and a "
        "record without a state removes its agent",
        "Blocks are encoded",
    )
    def test_who_follows_changes_knows_every_agent(self) -> None:
        """Readers that look after every commit, now and then, and once."""
        engine, keeper = self.engine(), Keeper()
        owner = Owner.of(engine)
        owner.images = keeper.images
        followers = {every: Follower() for every in (1, 7, 190)}
        for round in range(1, ROUNDS):
            keeper.commit(owner, round)
            for every, follower in followers.items():
                if round % every == 0:
                    follower.look(engine.view(0))
                    assert follower.states == keeper.records
                    assert follower.commits == engine.view(0).head().commits
        late = Follower()
        late.look(engine.view(0))
        assert late.states == keeper.records

    def test_changes_are_those_of_one_commit(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit([record(f"d-{i:04}", "old") for i in range(1000)])
        reading = engine.view(0).changes(-1)
        found = [next(reading)]
        owner.commit([record(f"d-{i:04}", "new", 2) for i in range(1000)])
        found += reading
        assert found[0].head is not None
        assert found[0].head.commits == engine.view(0).head().commits - 1
        assert {each.record.version for each in found[1:] if each.record} == {1}

    def test_agents_in_a_block_are_read_like_others(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        drones = [record("d-1", "one"), record("d-2", "two")]
        depots = [record("d-1", "other", agent="Depot")]
        owner.commit([record("d-3", "row")], blocks=[block_of(drones), block_of(depots)])
        view = engine.view(0)
        assert sorted(view.records()) == sorted([*drones, *depots, record("d-3", "row")])
        assert list(view.records("Depot")) == depots
        assert view.record("Drone", "d-2") == drones[1]
        assert view.record("Depot", "d-2") is None
        assert view.record("Drone", "d-") is None, "a part of a name is none"

    @promise("in the order of applying: later ones win")
    def test_of_all_forms_the_latest_is_loaded(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        forms = [record("d-1", "x", 1), record("d-2", "x", 1), record("d-3", "x", 1)]
        owner.commit(blocks=[block_of(forms)])
        owner.commit([record("d-1", "row", 2), gone("d-2", 2)])
        owner.commit(blocks=[block_of([record("d-1", "again", 3), record("d-4", "new", 1)])])
        owner.commit([gone("d-4", 2)])
        right = [record("d-1", "again", 3), record("d-3", "x", 1)]
        again = self.again(engine)
        assert states_in(again.load(Owner.of(again).claim)) == right
        assert sorted(again.view(0).records()) == right
        assert again.view(0).record("Drone", "d-2") is None
        assert again.view(0).record("Drone", "d-1") == right[0]

    def test_blocks_are_durable(self) -> None:
        self.needs("survives_exit")
        engine, keeper = self.engine(), Keeper()
        owner = self._busy(engine, keeper, keeper.images)
        again = self.again(engine)
        self._check(again, keeper)
        loaded = again.load(Owner.of(again).claim)
        assert loaded.head == owner.head
        assert states_in(loaded) == sorted(keeper.records.values())

    @promise("For the owner to call after a commit", "Nobody sees a difference, and no trouble")
    def test_compaction_changes_nothing_that_can_be_seen(self) -> None:
        engine, keeper = self.engine(), Keeper()
        owner = Owner.of(engine)
        owner.images = keeper.images
        for round in range(1, ROUNDS):
            keeper.commit(owner, round)
            if round % 100 == 0:  # seldom: an engine may take blocks apart when it is read
                self._check(engine, keeper)
        self._check(engine, keeper)
        assert states_in(engine.load(owner.claim)) == sorted(keeper.records.values())

    @promise("For an owner that keeps nothing in columns")
    def test_blocks_of_a_class_that_is_not_kept_in_columns_any_more(self) -> None:
        engine, keeper = self.engine(), Keeper()
        self._busy(engine, keeper, keeper.images)
        again = self.again(engine)
        owner = Owner.of(again)
        for round in range(ROUNDS, 2 * ROUNDS):
            changed = record(KEYS[round % 60], "interpreted", round)
            keeper.records[changed.key] = changed
            owner.commit([changed])
        self._check(again, keeper)
        assert states_in(again.load(owner.claim)) == sorted(keeper.records.values())

    @promise("`images` are as of that commit")
    def test_images_of_an_older_claim_are_not_taken(self) -> None:
        engine, keeper = self.engine(), Keeper()
        old = self._busy(engine, keeper, lambda agent, buckets: None)
        stale = Keeper(dict(keeper.records))
        again = self.again(engine)
        new = Owner.of(again)
        for round in range(ROUNDS, 2 * ROUNDS):
            newest = keeper.records["k-000"] = record("k-000", "new", round)
            prepared = new.prepare(blocks=[block_of([newest])])
            again.commit([(new.claim, prepared)])  # nobody compacts
            new.head = prepared.head
        engine.compact(old.claim, stale.images)
        self._check(again, keeper)

    def test_new_partitions_inherit_blocks(self) -> None:
        self.needs("rescales")
        engine, keeper = self.engine(), Keeper()
        all_owners = [self._busy(engine, keeper, keeper.images)]
        # 3 and 5 cut through buckets; on the way back two parents have a part of one each.
        for count in (3, 5, 1):
            layout = rescale(engine, all_owners, count)
            found = [(n, r) for n in layout.numbers for r in engine.view(n).records()]
            assert sorted(r for _, r in found) == sorted(keeper.records.values())
            assert all(layout.partition_of(r.key) == n for n, r in found)
            all_owners = owners(engine)
            for owner in all_owners:
                own = sorted(r for n, r in found if n == owner.claim.partition)
                assert states_in(engine.load(owner.claim)) == own

    def test_what_is_planted_has_the_agents_of_blocks(self) -> None:
        self.needs("captures")
        engine, keeper = self.engine(), Keeper()
        self._busy(engine, keeper, keeper.images)
        contents = engine.capture()
        planted = self.planted(contents)
        contents.close()
        self._check(planted, keeper)
        owner = Owner.of(planted)
        owner.images = keeper.images
        keeper.commit(owner, 2 * ROUNDS)
        self._check(planted, keeper)
