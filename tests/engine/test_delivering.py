"""Goal: what is on its way in captured contents arrives once, in order, where it was sent to."""

import pytest

from holdfast.engine.contents import Facts, HeldContents, HeldPartition, Outbox, PartitionContents
from holdfast.engine.delivering import delivered
from holdfast.engine.stamping import NEVER, Instant
from holdfast.errors import DamagedData
from holdfast.model.keys import Layout
from holdfast.stepping.commit import Head
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance.workbench import messages, tags_of

LAYOUT = Layout.even(2, first=3)


def out(first: int, count: int, to: int = 4) -> tuple[int, int, int, bytes]:
    return to, first, count, messages("three", first, count).encoded


def fleet(outbox: Outbox, marks: dict[str, int], stamp: Instant = NEVER) -> HeldContents:
    """Partition 3 sends, partition 4 has one event that waits."""
    waits = StoredFrame(7, 1, 50.0, messages("other", 1, 1).encoded)
    sender = Facts(3, LAYOUT.partitions[0], "three", Head(now=100.0))
    receiver = Facts(4, LAYOUT.partitions[1], "four", Head(position=7), next=8, stamp=stamp)
    parts: list[PartitionContents] = [
        HeldPartition(sender, held_outbox=outbox),
        HeldPartition(receiver._replace(marks=marks), held_frames=[waits]),
    ]
    return HeldContents("fleet", LAYOUT, [], {}, parts)


def test_it_stands_behind_what_waits_and_is_marked() -> None:
    contents = delivered(fleet([out(1, 2), out(3, 1)], {}))
    sender, receiver = contents.partitions
    assert sender.outbox() == receiver.outbox() == []
    frames = list(receiver.frames())
    assert [(f.first, f.count) for f in frames] == [(7, 1), (8, 2), (10, 1)]
    assert [tag for f in frames[1:] for tag in tags_of(f)] == [f"three>{n}" for n in (1, 2, 3)]
    assert receiver.facts.next == 11
    assert receiver.facts.marks == {"three": 3}


def test_what_has_arrived_is_not_delivered_again() -> None:
    _, receiver = delivered(fleet([out(1, 2), out(3, 3), out(6, 1)], {"three": 4})).partitions
    frames = list(receiver.frames())[1:]
    assert [tag for f in frames for tag in tags_of(f)] == ["three>5", "three>6"]
    assert [(f.first, f.count) for f in frames] == [(8, 1), (9, 1)]
    assert receiver.facts.marks == {"three": 6}
    _, receiver = delivered(fleet([out(1, 2)], {"three": 2})).partitions
    assert receiver.facts.next == 8


@pytest.mark.parametrize(("stamp", "expected"), [(50.0, 100.0), (150.0, 150.0)])
def test_its_time_is_the_newest_there_is(stamp: float, expected: float) -> None:
    contents = delivered(fleet([out(1, 1)], {}, Instant(stamp, 9.0, "boot")))
    _, receiver = contents.partitions
    assert [f.stamp for f in receiver.frames()] == [50.0, expected]
    assert receiver.facts.stamp.wall == expected


def test_a_gap_is_damage() -> None:
    with pytest.raises(DamagedData, match="go on at 3, and 2 is missing"):
        delivered(fleet([out(3, 1)], {"three": 1}))
