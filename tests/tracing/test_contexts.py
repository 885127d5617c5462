"""Goal: contexts are read as W3C has it, ids of spans derive from what is folded and nothing else,
and frames have a column for contexts only where there are some."""

from __future__ import annotations

import pytest

from holdfast import UsageError
from holdfast.errors import DamagedData
from holdfast.model.tracing import (
    is_context,
    is_sampled,
    onward,
    read_context,
    span_id,
    trace_id,
)
from holdfast.runtime.tracing.contexts import contexts_of
from holdfast.stepping.frame import Column, Frame, const, rows
from holdfast.stepping.inputs import Inputs, StoredFrame
from holdfast.stepping.rows import select
from holdfast.stepping.traces import check_contexts, contexts_in, runs_of, trace_columns
from tests.stepping.rig import codebook_of
from tests.tracing.couriers import fleet

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"
OTHER = f"00-{TRACE[::-1]}-{SPAN}-01"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (SAMPLED, SAMPLED),
        (UNSAMPLED, UNSAMPLED),
        (f"  {SAMPLED} ", SAMPLED),
        (f"00-{TRACE}-{SPAN}-03", f"00-{TRACE}-{SPAN}-03"),
        (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),  # flags nobody knows are dropped
        (f"cc-{TRACE}-{SPAN}-01", SAMPLED),  # a later version
        (f"cc-{TRACE}-{SPAN}-01-what-will-be", SAMPLED),
        (f"{SAMPLED}-more", ""),
        (f"cc-{TRACE}-{SPAN}-01what", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (SAMPLED.upper(), ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE[1:]}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}", ""),
        ("", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_what_is_malformed_is_none(given: object, read: str) -> None:
    assert read_context(given) == read
    assert is_context(read) == bool(read)


def test_the_id_of_a_span_derives_from_what_is_folded() -> None:
    after = onward(SAMPLED, "Shop", "k", 1)
    assert after == onward(SAMPLED, "Shop", "k", 1)
    assert (trace_id(after), after[-2:]) == (TRACE, "01")
    assert is_context(after)
    others = [
        onward(SAMPLED, "Shop", "k", 2),
        onward(SAMPLED, "Shop", "j", 1),
        onward(SAMPLED, "Depot", "k", 1),
        onward(after, "Shop", "k", 1),
        onward(OTHER, "Shop", "k", 1),
        onward(SAMPLED, "Shop", "k", 1, "failed", 0),
    ]
    assert len({span_id(each) for each in (after, *others)}) == 7


def test_the_derivation_is_settled() -> None:
    """Data that is stored and traces that are kept have ids of older releases."""
    assert span_id(onward(SAMPLED, "Shop", "k-1", 1)) == "247bd3abc4f1be99"


def test_a_context_that_is_not_sampled_is_carried_as_it_is() -> None:
    assert onward(UNSAMPLED, "Shop", "k", 1) == UNSAMPLED
    assert [is_sampled(each) for each in (SAMPLED, UNSAMPLED, "")] == [True, False, False]


def test_one_for_all_or_one_for_each() -> None:
    assert contexts_of("nonsense", 2) == ""
    assert contexts_of(SAMPLED, 2) == SAMPLED
    assert contexts_of([SAMPLED, "nonsense"], 2) == [SAMPLED, ""]
    assert contexts_of(["", "nonsense"], 2) == ""
    with pytest.raises(UsageError, match="one for each event"):
        contexts_of([SAMPLED], 2)


# The column.


def frame_of(contexts: str | list[str], count: int) -> Frame:
    keys = [f"k-{n}" for n in range(count)]
    columns = {"origin": const("external"), "agent": const("Shop"), "key": rows(keys)}
    return Frame(count, {**columns, **trace_columns(contexts, count)})


def inputs_of(frame: Frame) -> Inputs:
    encoded = frame.encode()
    stored = StoredFrame(0, frame.count, 1.0, encoded)
    return Inputs.of_frame(stored, Frame.decode(encoded), codebook_of(fleet))


def test_no_column_where_there_is_none() -> None:
    assert "trace" not in frame_of("", 3)
    assert "trace" not in frame_of(["", "", ""], 3)
    assert contexts_in(frame_of("", 3)) == {}


def test_rows_of_one_context_stand_together() -> None:
    each = ["", SAMPLED, SAMPLED, OTHER, "", OTHER]
    inputs = inputs_of(frame_of(each, 6))
    runs = [(1, 3, SAMPLED), (3, 4, OTHER), (5, 6, OTHER)]
    assert runs_of(inputs) == runs
    assert runs_of(inputs.part(2, 5)) == [(0, 1, SAMPLED), (1, 2, OTHER)]
    assert runs_of(inputs.part(4, 5)) == []
    assert runs_of(inputs_of(frame_of(SAMPLED, 6))) == [(0, 6, SAMPLED)]
    assert len(frame_of(SAMPLED, 10_000).columns["trace"].data) < 70


def test_a_frame_that_is_cut_keeps_the_contexts_of_its_rows() -> None:
    frame = frame_of(["", SAMPLED, OTHER, SAMPLED, ""], 5)
    assert contexts_in(select(frame, [3, 1, 0, 2])) == {0: SAMPLED, 1: SAMPLED, 3: OTHER}
    assert contexts_in(select(frame, [0, 4])) == {}


BAD = [
    const(SAMPLED),
    rows([SAMPLED] * 3),
    Column("runs", b"nonsense"),
    trace_columns(SAMPLED, 4)["trace"],  # one row too many
    trace_columns("nonsense", 3)["trace"],
    trace_columns(f"00-{'0' * 32}-{SPAN}-01", 3)["trace"],
]


@pytest.mark.parametrize("column", BAD)
def test_a_bad_column_is_refused_at_the_door(column: Column) -> None:
    with pytest.raises(DamagedData, match="trace"):
        check_contexts(Frame(3, {"trace": column}))
    check_contexts(Frame(3, trace_columns(SAMPLED, 3)))


@pytest.mark.parametrize("column", BAD[:5])
def test_a_bad_column_that_is_stored_costs_no_event(column: Column) -> None:
    frame = frame_of("", 3)
    frame.columns["trace"] = column
    assert runs_of(inputs_of(frame)) == []
