"""Goal: events of several classes share a frame and come back in order, as objects or as bytes, all
or some of them; and what one inbox frame holds reaches the stepper as it was sent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DamagedData, UsageError
from holdfast.model.effects import Emitted, Sender, Sent
from holdfast.model.event import Action, Event
from holdfast.stepping.cell import Cell, Kind
from holdfast.stepping.commit import Record
from holdfast.stepping.frame import Frame, const, integers, opaque
from holdfast.stepping.inputs import StoredFrame, control_frame, event_frame, read_inputs
from holdfast.stepping.outputs import issue, message_frame
from holdfast.stepping.rows import (
    payload,
    raw_payload,
    read_payload,
    read_raw_payload,
    select,
)
from tests.stepping.fixtures_fleet import FLEET, Car, Colour, Garage, Honk, Moved, Painted, Pinged
from tests.stepping.rig import codebook_of

FINITE = st.floats(allow_nan=False)
EVENTS: st.SearchStrategy[Event] = (
    st.builds(Moved, FINITE, FINITE)
    | st.builds(
        Painted,
        st.sampled_from(Colour),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    )
    | st.builds(Pinged)
)
KEYS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,12}", fullmatch=True)
AGENTS = st.sampled_from(["Car", "Garage"])


@settings(max_examples=80, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=30))
def test_mixed_classes_come_back_in_order(events: list[Event]) -> None:
    codebook = codebook_of(FLEET)
    frame = Frame.decode(Frame(len(events), payload(events, codebook)).encode())
    assert read_payload(frame, codebook) == events
    raw = read_raw_payload(frame)
    assert [codebook.reader_of(schema).row(row) for schema, row in raw] == events
    again = raw_payload([schema for schema, _ in raw], [row for _, row in raw])
    assert read_payload(Frame(len(events), again), codebook) == events


@settings(max_examples=80, deadline=None)
@given(st.data(), st.lists(EVENTS, min_size=1, max_size=20))
def test_a_selection_keeps_rows_order_and_every_column(
    data: st.DataObject, events: list[Event]
) -> None:
    codebook = codebook_of(FLEET)
    count = len(events)
    frame = event_frame(
        data.draw(st.lists(AGENTS, min_size=count, max_size=count)),
        data.draw(st.lists(KEYS, min_size=count, max_size=count)),
        events,
        codebook,
        source="s",
        seqs=data.draw(
            st.just(range(5, 5 + count))
            | st.lists(st.integers(0, 2**62), min_size=count, max_size=count, unique=True)
        ),
        event_times=data.draw(st.none() | st.just([float(i) for i in range(count)])),
    )
    frame.columns["identity"] = opaque(b"signed by nobody yet")
    frame.columns["trace"] = const("t-1")
    frame.columns["later"] = integers(range(count))
    chosen = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    part = Frame.decode(select(frame, chosen).encode())
    assert part.count == len(chosen)
    assert read_payload(part, codebook) == [events[i] for i in chosen]
    for name in ("agent", "key", "source", "seq", "event_time", "trace", "later", "origin"):
        values = frame.values(name)
        expected = None if values is None else [values[i] for i in chosen]
        assert part.values(name) == expected
    assert part.opaque("identity") == b"signed by nobody yet"


def test_a_selection_without_events_works() -> None:
    frame = select(control_frame("Car", "c-1", ["pause", "why"]), [0])
    assert frame.values("command") == [["pause", "why"]]
    assert frame.values("key") == ["c-1"]


def test_payloads_that_do_not_fit_their_rows_are_damage() -> None:
    codebook = codebook_of(FLEET)
    events: list[Event] = [Moved(1.0, 2.0), Pinged(), Moved(3.0, 4.0)]
    columns = payload(events, codebook)
    one = payload(events[:1], codebook)
    moved, pinged = codebook.id_of(Moved), codebook.id_of(Pinged)
    with pytest.raises(DamagedData):
        read_payload(Frame(2, one), codebook)
    short = {**columns, f"rows.{moved}": one[f"rows.{moved}"]}
    with pytest.raises(DamagedData, match="fewer"):
        read_payload(Frame(3, short), codebook)
    with pytest.raises(DamagedData, match="fewer"):
        read_raw_payload(Frame(3, short))
    del columns[f"rows.{pinged}"]
    with pytest.raises(DamagedData, match=f"rows.{pinged}"):
        read_payload(Frame(3, columns), codebook)


@pytest.mark.parametrize("packed", [b"", b"\xc1", b"\x01", b"\x92\x01"])
def test_payloads_that_are_none_are_damage(packed: bytes) -> None:
    frame = Frame(1, {"schema": const(1), "rows.1": opaque(packed)})
    with pytest.raises(DamagedData):
        read_raw_payload(frame)
    with pytest.raises(DamagedData):
        select(frame, [0])


def test_a_wrong_type_is_refused_with_the_field() -> None:
    codebook = codebook_of(FLEET)
    with pytest.raises(UsageError, match=r"Moved.*'lon'.*'east'"):
        payload([Moved(1.0, 2.0), Moved(1.0, "east")], codebook)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"Painted.*'layers'"):
        payload([Painted(Colour.RED, ["a"])], codebook)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no Event"):
        payload([object()], codebook)


# ---------------------------------------------------------------- inputs


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(AGENTS, KEYS, EVENTS), min_size=1, max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_inputs_are_what_was_sent(
    sent: list[tuple[str, str, Event]], timed: bool, asks: bool
) -> None:
    codebook = codebook_of(FLEET)
    agents, keys, events = (list(column) for column in zip(*sent, strict=True))
    times = [i / 7 for i in range(len(sent))] if timed else None
    frame = event_frame(
        agents, keys, events, codebook, source="s", seqs=range(3), event_times=times, asks=asks
    )
    inputs = read_inputs(StoredFrame(40, len(sent), 12.5, frame.encode()), codebook)
    assert (inputs.first, inputs.stamp, inputs.origin) == (40, 12.5, "external")
    assert (inputs.agents, inputs.keys, inputs.events) == (agents, keys, events)
    assert inputs.agent == (agents[0] if len(set(agents)) == 1 else None)
    assert inputs.event_times == times
    assert (inputs.asks, inputs.senders, inputs.commands) == (asks, None, None)
    for start in range(len(sent)):
        part = inputs.part(start, len(sent))
        assert (part.first, len(part)) == (40 + start, len(sent) - start)
        assert (part.agents, part.keys, part.events) == (
            agents[start:],
            keys[start:],
            events[start:],
        )
        assert part.event_times == (None if times is None else times[start:])


def test_a_message_carries_its_sender_hops_and_time() -> None:
    codebook = codebook_of(FLEET)
    sender = Cell(Kind(Car, codebook), "c-1", None)
    group = [
        Sent(sender, "Garage", "g-1", Pinged(), 1, 5.0),
        Sent(sender, "Car", "c-2", Moved(1.0, 2.0), 7, 6.0),
    ]
    encoded = message_frame(group, codebook).encode()
    inputs = read_inputs(StoredFrame(0, 2, 9.0, encoded), codebook)
    assert inputs.origin == "message"
    assert inputs.agents == ["Garage", "Car"]
    assert inputs.events == [Pinged(), Moved(1.0, 2.0)]
    assert inputs.senders == [Sender("Car", "c-1")] * 2
    assert inputs.hops == [1, 7]
    assert inputs.event_times == [5.0, 6.0]
    assert inputs.part(1, 2).senders == [Sender("Car", "c-1")]
    assert inputs.part(1, 2).hops == [7]


def test_a_command_has_no_event() -> None:
    codebook = codebook_of(FLEET)
    encoded = control_frame("Car", "c-1", ["redrive", 3]).encode()
    inputs = read_inputs(StoredFrame(0, 1, 9.0, encoded), codebook)
    assert (inputs.origin, inputs.commands, inputs.events) == ("control", [["redrive", 3]], [])
    assert not inputs.plain


def test_actions_count_within_their_event() -> None:
    """The index is the action's place within one event of one agent, whoever else emits."""
    codebook = codebook_of(FLEET)
    one = Cell(Kind(Car, codebook), "c-1", None)
    two = Cell(Kind(Garage, codebook), "g-1", None)
    honk: Action = Honk(times=1)
    emitted = [
        Emitted(one, 1, honk, 1.0),
        Emitted(one, 1, honk, 1.0),
        Emitted(two, 1, honk, 1.0),
        Emitted(one, 2, honk, 2.0),
        Emitted(one, 2, honk, 2.0),
    ]
    issued = issue(emitted, 10, 3.0, codebook)
    assert issued is not None
    assert (issued.first, issued.count, issued.now) == (10, 5, 3.0)
    assert Frame.decode(issued.frame).values("index") == [0, 1, 0, 0, 1]
    assert issue([], 10, 3.0, codebook) is None


def test_a_record_knows_when_it_is_gone() -> None:
    assert Record("Car", "c-1", 1, 1, b"", b"", 0.0).gone
    assert not Record("Car", "c-1", 1, 1, b"\x90", b"", 0.0).gone
