"""Goal: deltas are moved to the base when they have its size, or are very many, and not before."""

from __future__ import annotations

from holdfast.engine.sqlite.deltas import DELTA_BYTES_MAX, DELTAS_MAX, DeltaRun
from holdfast.stepping.blocks import bucket_of
from holdfast.stepping.commit import Commit, Head
from holdfast.testing.conformance.blocks import KEYS, block_of
from holdfast.testing.conformance.workbench import record


def test_the_base_is_written_when_the_deltas_have_its_size() -> None:
    block = block_of([record(key, "x") for key in KEYS])
    run = DeltaRun()
    base = 10 * DELTA_BYTES_MAX
    run.start(0, 0, {"Drone": base, "Depot": base})
    size = 0
    while not run.full:
        run.add(Commit(Head(), Head(), blocks=[block], delta=bytes(DELTA_BYTES_MAX // 2)))
        size += DELTA_BYTES_MAX // 2
    assert base < size <= base + DELTA_BYTES_MAX
    before, swept = run.count, 0
    while run.full:
        part = run.next_part(lambda: [block])
        assert part.deltas in (0, before), "with the last step of the sweep all of them go"
        swept += len(part.places)
        run.moved(part, {"Drone": base})
    assert (run.count, swept) == (0, len({bucket_of(key) for key in KEYS}))


def test_small_deltas_wait_for_longer_where_the_base_is_large() -> None:
    large = 1024 * 1024 * 1024
    for base, most in (({}, DELTAS_MAX), ({"Drone": large}, 16 * 1024), ({"X": large}, DELTAS_MAX)):
        run = DeltaRun()
        run.start(0, 0, base)
        while not run.full:
            run.add(Commit(Head(), Head(), [record("k", "x")], delta=b"small"))
        assert run.count == most + 1
