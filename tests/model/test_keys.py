"""Goal: keys follow one narrow grammar, and a key's place never changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model.keys import SLOTS, Layout, check_key, slot_of

GRAMMAR = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"


@pytest.mark.parametrize("key", ["d", "7", "d-1", "zone:a.b_c-9", "A" * 128])
def test_keys(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "it is empty"),
        ("-d", "it begins with '-'"),
        (".d", "it begins with '.'"),
        ("a/b", "it contains '/'"),
        ("a+b", r"it contains '\+'"),
        ("a b", "it contains ' '"),
        ("d\n", r"it contains '\\n'"),
        ("d\0", "it contains"),
        ("é", "it begins with 'é'"),
        ("dé", "it contains 'é'"),
        ("A" * 129, "129 characters; 128 is the most"),
        (7, "of type int; give a string"),
        (None, "of type NoneType"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason(key: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_key(key)


def test_a_huge_key_does_not_fill_the_screen() -> None:
    with pytest.raises(UsageError) as caught:
        check_key("x" * 1_000_000)
    assert len(str(caught.value)) < 200


@given(st.from_regex(GRAMMAR, fullmatch=True))
def test_every_key_has_a_slot_and_one_partition(key: str) -> None:
    check_key(key)
    assert 0 <= slot_of(key) < SLOTS
    layout = Layout.even(7)
    assert slot_of(key) in layout.partitions[layout.partition_of(key)]


@pytest.mark.parametrize(
    ("key", "slot"),
    # Data on disk, and clients in other languages, depend on them.
    [("123456789", 184), ("A", 189), ("d-1", 316), ("d-2", 523), ("zone:a", 686)],
)
def test_slots_are_published_and_stay(key: str, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize("pattern", ["d-{}", "r-{:02d}", "drone-{}", "{}"])
def test_numbered_keys_spread_even_in_small_fleets(pattern: str) -> None:
    layout = Layout.even(2)
    first = sum(layout.partition_of(pattern.format(n)) == 0 for n in range(100))
    assert 35 <= first <= 65


def test_an_even_layout_covers_every_slot_once() -> None:
    for partitions in (1, 2, 3, 7, 1000, 1024):
        ranges = Layout.even(partitions).partitions
        assert len(ranges) == partitions
        assert [slot for each in ranges for slot in each] == list(range(SLOTS))
        sizes = {len(each) for each in ranges}
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("partitions", [0, -1, 1025])
def test_impossible_numbers_of_partitions(partitions: int) -> None:
    with pytest.raises(UsageError, match="give 1 to 1024"):
        Layout.even(partitions)


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ((), "cover 0 slots"),
        ((range(1000),), "cover 1000 slots"),
        ((range(512), range(513, 1024)), "begin at slot 512"),
        ((range(512), range(500, 1024)), "begin at slot 512"),
        ((range(0), range(1024)), "none is empty"),
        ((range(0, 1024, 2),), "begin at slot 0"),
        ((range(1025),), "cover 1025 slots"),
    ],
)
def test_layouts_with_gaps_or_overlaps_are_refused(ranges: tuple[range, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Layout(ranges)
