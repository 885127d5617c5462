"""Goal: a block is exactly the records of its agents, however it is cut, and without numpy.

Blocks are made from arrays, as the compiled stepper makes them, and compared with the records the
interpreted agents would have: states and timers byte by byte.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DamagedData
from holdfast.model.effects import Timer
from holdfast.stepping.arrays import arrays_of
from holdfast.stepping.blocks import (
    Block,
    TimerColumns,
    bucket_of,
    buckets_in,
    keys_in,
    make_block,
    mask_of,
    newest_of,
    record_in,
    records_in,
    split_block,
)
from holdfast.stepping.cell import Extras, pack_extras
from holdfast.stepping.columns import names_column, payload_columns
from holdfast.stepping.commit import Commit, Head, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.records import blocks_in, delta_frame, read_delta, rows_in
from holdfast.stepping.rows import read_payload
from tests.stepping.columns import FLEET, Everything, Nothing, Position, rows_of, slots
from tests.stepping.rig import codebook_of

CODEBOOK = codebook_of(FLEET)
STATE = CODEBOOK.id_of(Everything)  # any class with a layout has the fields of a state
POSITION, NOTHING = CODEBOOK.id_of(Position), CODEBOOK.id_of(Nothing)
pack = msgspec.msgpack.Encoder().encode


class Set(NamedTuple):
    """How one timer of an agent is set."""

    due: float
    period: float
    lat: float | None  # None: it brings Nothing


class One(NamedTuple):
    version: int
    state: list[object]
    watch: Set | None
    blink: Set | None

    def record(self, key: str) -> Record:
        extras = Extras()
        for name, timer in (("watch", self.watch), ("blink", self.blink)):
            if timer is not None:
                event = Nothing() if timer.lat is None else Position(timer.lat, 2.0, 3.0)
                extras.timers[name] = Timer(name, timer.due, event, timer.period)
        packed = pack_extras([extras], CODEBOOK)[0]
        return Record("Drone", key, self.version, STATE, pack(self.state), packed, 5.0)


def block_of(agents: dict[str, One]) -> Block:
    """From arrays, as whoever keeps such agents in columns has them."""
    ones = list(agents.values())
    fields = [[one.state[i] for one in ones] for i in range(len(slots(Everything)))]
    payload = payload_columns(STATE, slots(Everything), arrays_of(slots(Everything), fields))
    table = [b"nobody", *(key.encode() for key in agents)]
    return make_block(
        "Drone",
        STATE,
        names_column(table, numpy.arange(1, len(table))),
        numpy.array([one.version for one in ones], "i8"),
        5.0,
        payload,
        [
            _timer("watch", [one.watch for one in ones]),
            _timer("blink", [one.blink for one in ones]),
        ],
        buckets=mask_of(map(bucket_of, agents)),
    )


def _timer(name: str, timers: list[Set | None]) -> TimerColumns:
    due = [0.0 if each is None else each.due for each in timers]
    period = [0.0 if each is None else each.period for each in timers]
    moves = [each is not None and each.lat is not None for each in timers]
    lat = [0.0 if each is None or each.lat is None else each.lat for each in timers]
    count = len(timers)
    arrays = arrays_of(slots(Position), [lat, [2.0] * count, [3.0] * count])
    payloads = {
        NOTHING: payload_columns(NOTHING, (), []),
        POSITION: payload_columns(POSITION, slots(Position), arrays),
    }
    return TimerColumns(
        name,
        [NOTHING, POSITION],
        numpy.array(due),
        numpy.array(period),
        numpy.array(moves, "u1"),
        payloads,
    )


SETS = st.none() | st.builds(
    Set,
    st.floats(1.0, 1e9),
    st.sampled_from([0.0, 60.0]),
    st.none() | st.floats(allow_nan=False),
)
VERSIONS = st.integers(1, 2**62)
KEYS = st.from_regex(r"\A[a-z][a-z0-9:._-]{0,12}\Z")


@st.composite
def crowds(draw: st.DrawFn) -> dict[str, One]:
    states = draw(rows_of(Everything, most=6))
    keys = draw(st.lists(KEYS, min_size=len(states), max_size=len(states), unique=True))
    return {
        key: One(draw(VERSIONS), state, draw(SETS), draw(SETS))
        for key, state in zip(keys, states, strict=True)
    }


@settings(max_examples=120, deadline=None)
@given(crowds())
def test_a_block_is_the_records_of_its_agents(agents: dict[str, One]) -> None:
    right = [one.record(key) for key, one in agents.items()]
    block = Block.decode(block_of(agents).encoded)
    assert (block.agent, block.schema, block.count) == ("Drone", STATE, len(agents))
    assert records_in(block) == right
    assert keys_in(block) == list(agents)
    for record in right:
        assert record_in(block, record.key) == record
        longer = record.key + "x"
        assert longer in agents or record_in(block, longer) is None
    assert len(read_payload(block.frame, CODEBOOK)) == len(agents)


@settings(max_examples=120, deadline=None)
@given(crowds(), st.integers(1, 4))
def test_a_block_can_be_cut_in_any_way(agents: dict[str, One], parts: int) -> None:
    block = block_of(agents)
    cut = split_block(block, lambda key: len(key) % parts)
    for part, own in cut.items():
        expected = [one.record(k) for k, one in agents.items() if len(k) % parts == part]
        assert records_in(Block.decode(own.encoded)) == expected
        assert buckets_in(own.buckets) == {bucket_of(record.key) for record in expected}
    assert sum(own.count for own in cut.values()) == len(agents)


def some(*keys: str, version: int = 1) -> dict[str, One]:
    state = [1, 2.0, True, "flying", -7, "m-3", "é", "word", [1], [0.5], [], ["landing"]]
    return {key: One(version, list(state), Set(9.0, 0.0, 1.0), None) for key in keys}


def test_a_delta_carries_rows_and_blocks() -> None:
    block = block_of(some("a", "b"))
    row = One(7, [1], None, None).record("c")
    frame = Frame.decode(delta_frame([row], [block]).encode())
    assert rows_in(frame) == [row]
    assert blocks_in(frame) == [block]
    assert read_delta(frame) == [row, *records_in(block)]
    assert read_delta(Frame.decode(delta_frame([], [block]).encode())) == records_in(block)
    with pytest.raises(ValueError, match="two blocks of Drone"):
        delta_frame([], [block, block])


def test_a_commit_knows_all_that_changed() -> None:
    block = block_of(some("a", "b"))
    row = One(7, [1], None, None).record("c")
    delta = delta_frame([row], [block]).encode()
    commit = Commit(Head(), Head(commits=1), [row], [block], delta)
    assert commit.changed == [row, *records_in(block)]
    assert commit.note is not None
    assert commit.note.in_blocks == 2
    assert not Commit(Head(), Head(), blocks=[block]).empty


def test_the_newest_of_all_forms_counts() -> None:
    gone = One(3, [1], None, None).record("b")._replace(state=b"")
    row = One(2, [1], None, None).record("a")
    found = newest_of([row, block_of(some("a", "b", version=5)), gone])
    assert found["Drone", "a"].version == 5
    assert found["Drone", "b"].gone


def test_damage_is_named() -> None:
    block = block_of(some("a", "b"))
    with pytest.raises(DamagedData, match="checksum"):
        Block.decode(block.encoded[:-5] + b"x" + block.encoded[-4:])
    for name in ("key", "version", "updated", "t.0.due", "t.0.period", "t.0.event"):
        frame = block.frame
        del frame.columns[name]
        with pytest.raises(DamagedData, match=name):
            records_in(Block.decode(frame.encode()))
    for name in ("key", "version", "cols.1.word", "t.0.event"):
        frame = block.frame
        name = name.replace("1", str(STATE))
        frame.columns[name] = frame.columns[name]._replace(data=frame.columns[name].data[:-1])
        with pytest.raises(DamagedData):
            split_block(Block.decode(frame.encode()), "a".__eq__)


def test_columns_of_a_wrong_width_are_refused() -> None:
    table, one = [b"a"], numpy.array([0])
    with pytest.raises(ValueError, match="4 bytes per row, expected 8"):
        make_block("D", 1, names_column(table, one), one.astype("i4"), 0.0, {}, buckets=1)


WITHOUT = """
import sys
sys.modules["numpy"] = None
from holdfast.stepping.blocks import Block, records_in, record_in, split_block
block = Block.decode(open(sys.argv[1], "rb").read())
cut = split_block(block, "b".__eq__)
print([r.key for r in records_in(block)], record_in(block, "b").version, cut[True].count)
"""


def test_blocks_are_read_and_cut_without_numpy(tmp_path: Path) -> None:
    (tmp_path / "block").write_bytes(block_of(some("a", "b", "c", version=4)).encoded)
    program = [sys.executable, "-c", WITHOUT, str(tmp_path / "block")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "['a', 'b', 'c'] 4 1", done.stderr
