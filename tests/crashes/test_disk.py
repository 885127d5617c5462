"""Goal: the model loses what a power loss may lose, and nothing that a sync made certain."""

from collections.abc import Iterator
from itertools import product

from tests.crashes.disk import (
    LOST,
    WHOLE,
    ZEROS,
    Cut,
    Disk,
    Fates,
    File,
    Make,
    Operation,
    Rename,
    Sync,
    Unlink,
    Write,
)


def outcomes(*operations: Operation, tears: tuple[int, ...] = ()) -> list[dict[str, bytes | None]]:
    """Every distinct disk that these operations and a power loss may leave."""
    disk = Disk()
    for operation in operations:
        disk.apply(operation)
    images = []
    for fates in every_fate(disk, tears):
        entries = disk.image(fates).entries
        if entries not in images:
            images.append(entries)
    return images


def every_fate(disk: Disk, tears: tuple[int, ...]) -> Iterator[Fates]:
    uncertain = disk.uncertain()
    choices = [
        product((LOST, WHOLE, *(tears if isinstance(node, File) else ())), repeat=len(node.changes))
        for node in uncertain
    ]
    for combination in product(*choices):
        yield dict(zip(uncertain, combination, strict=True))


FILE: list[Operation] = [Make("f", False), Write("f", 0, b"old!"), Sync("f"), Sync(".")]


def test_what_is_synced_is_there() -> None:
    assert outcomes(*FILE) == [{"f": b"old!"}]


def test_a_file_without_a_sync_of_its_folder_may_have_no_name() -> None:
    assert outcomes(Make("f", False), Write("f", 0, b"x"), Sync("f")) == [{}, {"f": b"x"}]


def test_a_later_write_may_be_there_without_an_earlier_one() -> None:
    after = outcomes(*FILE, Write("f", 0, b"a"), Write("f", 1, b"b"))
    assert [one["f"] for one in after] == [b"old!", b"obd!", b"ald!", b"abd!"]


def test_a_lost_write_leaves_a_hole_before_a_later_one() -> None:
    after = outcomes(*FILE, Write("f", 4, b"a"), Write("f", 5, b"b"))
    assert {"f": b"old!\0b"} in after


def test_a_write_may_be_torn_or_leave_only_its_length() -> None:
    after = outcomes(*FILE, Write("f", 2, b"1234"), tears=(1, ZEROS))
    assert [one["f"] for one in after] == [b"old!", b"ol1234", b"ol1!", b"old!\0\0"]


def test_a_cut_may_be_lost() -> None:
    assert outcomes(*FILE, Cut("f", 1)) == [{"f": b"old!"}, {"f": b"o"}]


def test_a_rename_is_whole_or_not_at_all_until_its_folder_is_synced() -> None:
    renamed: list[Operation] = [
        *FILE,
        Make("g", False),
        Write("g", 0, b"new"),
        Sync("g"),
        Sync("."),
    ]
    assert outcomes(*renamed, Rename("g", "f")) == [{"f": b"old!", "g": b"new"}, {"f": b"new"}]
    assert outcomes(*renamed, Rename("g", "f"), Sync(".")) == [{"f": b"new"}]


def test_unlinks_may_be_lost_in_any_order() -> None:
    two: list[Operation] = [*FILE, Make("g", False), Sync("."), Unlink("f"), Unlink("g")]
    assert len(outcomes(*two)) == 4


def test_a_lost_folder_takes_its_synced_files_along() -> None:
    made: list[Operation] = [Make("d", True), Make("d/f", False), Sync("d/f"), Sync("d")]
    assert outcomes(*made) == [{}, {"d": None, "d/f": b""}]
