"""Goal: admission agrees with the simplest possible rule, a set of all numbers ever seen.

If it does not, a resend changes states twice, or an event that was never seen is dropped. Both
ledgers are driven by the same sends: dictionaries, and SQLite rows.
"""

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.admission import CHUNK, CHUNKS, SEQ_MAX, WINDOW, Ledger, Picked, admit
from holdfast.engine.memory import MemoryLedger
from holdfast.engine.port import Limits, Mark, Parcel
from holdfast.engine.sources import FORGOTTEN_SECONDS
from holdfast.engine.sqlite import ledger as rows
from holdfast.engine.sqlite.ledger import SqliteLedger
from holdfast.errors import (
    DamagedData,
    HoldfastError,
    OutOfOrder,
    TooManySources,
    TooOld,
    UsageError,
)
from holdfast.stepping.frame import Frame, integers
from holdfast.stepping.frame import rows as row_column

Numbers = range | list[int] | Picked
ALL = [*rows.KEYS, *rows.DERIVED]


class Oracle:
    """What a source has sent, remembered without any bound."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def admit(self, seqs: Sequence[int]) -> list[int] | type[HoldfastError]:
        if not seqs:
            return []
        if min(seqs) < 0 or max(seqs) > SEQ_MAX:
            return UsageError
        if min(seqs) <= max(self.seen, default=-1) - WINDOW:
            return TooOld
        if len(set(seqs)) < len(seqs):
            return UsageError
        fresh = [i for i, seq in enumerate(seqs) if seq not in self.seen]
        self.seen.update(seqs)
        return fresh


class Both:
    """The two ledgers side by side."""

    def __init__(self, sources_max: int = 1_000, anonymous_max: int = 1_000) -> None:
        self.memory = MemoryLedger()
        connection = apsw.Connection(":memory:")
        connection.execute(rows.TABLES + rows.DERIVED_TABLES)
        self.connection = connection
        self.sqlite = SqliteLedger(connection, Path("ledger"))
        self.limits = Limits(sources_max=sources_max, anonymous_sources_max=anonymous_max)

    def admit(
        self, parcel: Parcel, stamp: float = 1_000.0, *, forgets: bool = False
    ) -> list[int] | type[HoldfastError]:
        before = self.contents()
        results = [self._admit(parcel, ledger, stamp) for ledger in (self.memory, self.sqlite)]
        assert results[0] == results[1], "the ledgers disagree"
        if isinstance(results[0], type) and not forgets:
            assert self.contents() == before, "a refusal left a trace"
        return results[0]

    def _admit(
        self, parcel: Parcel, ledger: Ledger, stamp: float
    ) -> list[int] | type[HoldfastError]:
        try:
            fresh = admit(parcel, ledger, stamp, self.limits)
        except HoldfastError as refusal:
            return type(refusal)
        return list(range(parcel.frame.count)) if fresh is None else fresh

    def contents(self) -> object:
        tables = [self.connection.execute(f"SELECT * FROM {n}").fetchall() for n in ALL]
        memory = self.memory
        return (
            tables,
            memory.dedupe(),
            dict(memory.marks),
        )


def parcel(seqs: Numbers, source: str | None = "gcs", mark: Mark | None = None) -> Parcel:
    return Parcel(Frame(len(seqs), {}), b"", source=source, seqs=seqs, mark=mark)


# Numbers crowd where mistakes would be: at the edges of chunks and of the window.
edges = st.sampled_from(
    [0, 1, CHUNK, 2 * CHUNK, WINDOW - CHUNK, WINDOW, WINDOW + CHUNK, 2 * WINDOW]
)
near = st.builds(lambda edge, off: max(0, edge + off), edges, st.integers(-3, 3))
anything = st.one_of(near, st.integers(0, 3 * WINDOW))
lists = st.lists(anything, min_size=1, max_size=8)
runs = st.builds(
    lambda first, length: range(first, first + length),
    anything,
    st.one_of(st.integers(1, 5), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])),
)
steps = st.builds(
    lambda first, count, step: range(first, first + count * step, step),
    anything,
    st.integers(1, 6),
    st.integers(1, CHUNK + 1),
)
flags = st.builds(
    lambda before, few, times: before * b"\0" + (few + b"\1") * times,
    st.sampled_from([0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 1]),
    st.lists(st.integers(0, 1), max_size=9).map(bytes),
    st.sampled_from([1, 2, CHUNK // 7]),
)
picks = st.builds(Picked, anything, flags)
sends = st.lists(st.one_of(lists, runs, steps, picks), min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(sends)
def test_admission_agrees_with_a_set_of_all_numbers(history: list[Numbers]) -> None:
    oracle, ledgers = Oracle(), Both()
    for seqs in history:
        assert ledgers.admit(parcel(seqs)) == oracle.admit(seqs)
    stored = ledgers.memory.chunks.get("gcs", {})
    assert len(stored) <= CHUNKS + 2, "what a source leaves behind is bounded"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "~c", "é"]), lists), max_size=20))
def test_sources_do_not_disturb_each_other(history: list[tuple[str, list[int]]]) -> None:
    oracles = {name: Oracle() for name in ("a", "b", "~c", "é")}
    ledgers = Both()
    for name, seqs in history:
        assert ledgers.admit(parcel(seqs, source=name)) == oracles[name].admit(seqs)


@settings(max_examples=60, deadline=None)
@given(sends)
def test_sending_everything_again_admits_nothing(history: list[Numbers]) -> None:
    """A resend storm: each send again, in order, is either known whole or refused as too old."""
    ledgers = Both()
    taken = [seqs for seqs in history if not isinstance(ledgers.admit(parcel(seqs)), type)]
    for seqs in taken:
        assert ledgers.admit(parcel(seqs)) in ([], TooOld)


@pytest.mark.parametrize("seqs", [[-1], [5, -1], [SEQ_MAX + 1], range(-2, 2)])
def test_impossible_numbers_are_refused(seqs: Numbers) -> None:
    assert Both().admit(parcel(seqs)) is UsageError


@given(anything, st.lists(st.integers(0, 1), min_size=1, max_size=20).filter(any).map(bytes))
def test_picked_numbers_are_a_sequence(first: int, flags: bytes) -> None:
    picked = Picked(first, flags)
    assert list(picked) == [first + i for i, flag in enumerate(flags) if flag]
    assert len(picked) == len(list(picked))
    assert [picked[i] for i in range(len(picked))] == list(picked)
    assert picked[-1] == list(picked)[-1]
    assert picked[1:] == list(picked)[1:]


def test_the_largest_number_is_a_number() -> None:
    ledgers = Both()
    assert ledgers.admit(parcel([SEQ_MAX])) == [0]
    assert ledgers.admit(parcel([SEQ_MAX])) == []
    assert ledgers.admit(parcel([0])) is TooOld


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 10)), max_size=30))
def test_messages_agree_with_a_counter(history: list[tuple[int, int]]) -> None:
    """(first, count) in any order: each message once, in order, never past a gap."""
    ledgers, last, admitted = Both(), 0, []
    for first, count in history:
        result = ledgers.admit(parcel(range(count), None, Mark("1-abc", first)))
        if first > last + 1:
            assert result is OutOfOrder
            continue
        assert isinstance(result, list)
        admitted += [first + i for i in result]
        last = max(last, first + count - 1)
    assert admitted == list(range(1, last + 1))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("xyz"), st.integers(-1, 1)), min_size=1, max_size=4),
        max_size=12,
    )
)
def test_an_ordered_source_agrees_with_a_chain_per_key(
    history: list[list[tuple[str, int]]],
) -> None:
    """Each event names the number before it for its key, sometimes wrongly (off by -1 or 1)."""
    ledgers = Both()
    last: dict[str, int] = {}
    number = 0
    for events in history:
        keys = [key for key, _ in events]
        seqs = [number + i + 1 for i in range(len(events))]
        chain, previous, right = dict(last), [], True
        for (key, off), seq in zip(events, seqs, strict=True):
            previous.append(chain.get(key, 0) + off)
            right = right and off == 0
            chain[key] = seq
        columns = {"key": row_column(keys), "previous": integers(previous)}
        one = Parcel(Frame(len(keys), columns), b"", source="up", seqs=seqs)
        result = ledgers.admit(one)
        if right:
            assert result == list(range(len(events)))
            assert ledgers.admit(one) == []
            last, number = chain, number + len(events)
        else:
            assert result is OutOfOrder


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", "~x", "~y", "~z"]),
            st.integers(1, 3),
            st.sampled_from([0.5, 30.0, 90.0, 400.0, 700.0, 50_000.0]),
        ),
        max_size=40,
    )
)
def test_each_kind_has_its_bound_and_the_idle_go(history: list[tuple[str, int, float]]) -> None:
    """Against a list of who sent when: named ones stay, anonymous ones last 11 minutes, and a day
    longer where there is room."""
    ledgers, stamp = Both(sources_max=2, anonymous_max=2), 1_000.0
    seen: dict[str, set[int]] = {}
    renewed: dict[str, float] = {}
    for name, seq, seconds in history:
        stamp += seconds
        for gone in [
            n for n, at in renewed.items() if n[0] == "~" and at < stamp - FORGOTTEN_SECONDS
        ]:
            del seen[gone], renewed[gone]
        same_kind = [n for n in seen if (n[0] == "~") == (name[0] == "~")]
        oldest = min(same_kind, key=lambda n: (renewed[n], n), default="")
        full = name not in seen and len(same_kind) == 2
        if full and name[0] == "~" and renewed[oldest] < stamp - 660.0:
            del seen[oldest], renewed[oldest]
            same_kind.remove(oldest)
        result = ledgers.admit(parcel([seq], name), stamp, forgets=True)
        if name not in seen and len(same_kind) == 2:
            assert result is TooManySources
            continue
        assert result == ([] if seq in seen.get(name, set()) else [0])
        seen.setdefault(name, set()).add(seq)
        if stamp > renewed.get(name, 0.0) + 60.0:
            renewed[name] = stamp
        ledgers.sqlite.check()


def test_what_is_counted_wrongly_is_damage() -> None:
    ledgers = Both()
    ledgers.admit(parcel([1], "~a"))
    ledgers.sqlite.check()
    ledgers.sqlite._put("tally", 1, 2)
    with pytest.raises(DamagedData, match="the count of its sources is not theirs"):
        ledgers.sqlite.check()


def test_a_new_source_costs_the_same_however_many_there_are() -> None:
    """Counted in steps of SQLite's machine: the clock of a busy computer proves nothing."""
    ledgers = Both(anonymous_max=10_000)
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    cost: list[int] = []
    ledgers.connection.set_progress_handler(step, 1)
    for n in range(5_000):
        steps = 0
        admit(parcel([1], f"~{n * 7919 % 5_000}"), ledgers.sqlite, 1_000.0, ledgers.limits)
        cost.append(steps)
    assert max(cost[-100:]) < 2 * min(cost[100:200])


def test_the_bound_of_sources_is_exact() -> None:
    ledgers = Both(sources_max=2)
    assert ledgers.admit(parcel([1], "a")) == [0]
    assert ledgers.admit(parcel([1], "b")) == [0]
    assert ledgers.admit(parcel([1], "c")) is TooManySources
    assert ledgers.admit(parcel([2], "a")) == [0]
