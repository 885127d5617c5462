"""Goal: a table finds the row of every key, new or known, however much it grows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.keys import slot_of
from holdfast.stepping.compiled.table import Table

# Bytes are taken by eights: lengths around these, and the longest.
lengths = st.one_of(st.integers(1, 18), st.sampled_from([24, 31, 254, 255]))
keys = lengths.flatmap(lambda size: st.text("ab", min_size=size, max_size=size))


def table() -> Table:
    found = Table([("version", "<i8"), ("alt", "<f8")])
    found.default["alt"] = 7.0
    return found


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(keys, min_size=1, max_size=80), min_size=1, max_size=8))
def test_it_is_a_dictionary(batches: list[list[str]]) -> None:
    made, known = table(), dict[str, int]()
    for batch in batches:
        for key in batch:
            known.setdefault(key, len(known))
        rows = made.place_names([key.encode() for key in batch])
        assert rows.tolist() == [known[key] for key in batch]
    assert made.count == len(known)
    for key, row in known.items():
        assert (made.find(key), made.key_of(row)) == (row, key)
        assert made.slots[row] == slot_of(key)
    names, bounds = made.names_of(np.arange(len(known))[::-1])
    assert names.tobytes() == "".join(reversed(known)).encode()
    assert bounds[-1] == len(names)
    assert made.find("never-met") is None


def test_it_grows_and_keeps_what_it_has() -> None:
    made = table()
    for first in range(0, 20_000, 1_000):
        rows = made.place_names([b"d-%d" % n for n in range(first, first + 1_000)])
        assert (made.rows["alt"][rows] == 7.0).all(), "a new row begins with the defaults"
        made.rows["version"][rows] = rows
    assert (made.rows["version"][:20_000] == np.arange(20_000)).all()
    assert made.find("d-12345") == 12_345


def test_names_of_rows_stand_one_behind_the_other() -> None:
    made = table()
    rows = made.place_names([b"one", b"three", b"two"])
    names, bounds = made.names_of(rows[[2, 0, 2]])
    assert names.tobytes() == b"twoonetwo"
    assert bounds.tolist() == [0, 3, 6, 9]


def test_many_names_at_once_need_room_for_the_new_ones_only() -> None:
    made = table()
    names = [b"d-%d" % n for n in range(450_000)]
    rows = made.place_names(names)
    size = len(made.rows)
    assert (made.rows["alt"][:450_000] == 7.0).all()
    assert (made.place_names(names) == rows).all()
    assert (len(made.rows), made.count) == (size, 450_000)
