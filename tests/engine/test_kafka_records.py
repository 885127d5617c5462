"""Goal: however many messages a commit sends to one partition, each record of them is taken."""

from holdfast.engine.kafka.records import PART_BYTES_MAX, parts_of
from holdfast.stepping.commit import Outgoing
from holdfast.stepping.frame import Frame
from holdfast.testing.conformance.workbench import parcel


def test_many_messages_go_out_in_several_records() -> None:
    tags = [f"{number}" * 500 for number in range(5_000)]
    frame = parcel(tags).frame
    parts = list(parts_of(Outgoing(3, 17, len(tags), frame.encode())))
    assert len(parts) > 1
    assert all(len(part.frame) <= PART_BYTES_MAX for part in parts)
    first = 17
    for part in parts:
        assert part.first == first
        first += part.count
    found = [key for part in parts for key in Frame.decode(part.frame).values("key") or []]
    assert found == frame.values("key")


def test_one_that_fits_is_left_as_it_is() -> None:
    out = Outgoing(0, 1, 2, parcel(["a", "b"]).encoded)
    assert list(parts_of(out)) == [out]
