"""Goal: the parts of the metrics do what they say: counts are exact where they claim to be, what is
sampled finds what it is for, files of the dead are not read, and any text survives."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from holdfast.engine.stamping import Instant
from holdfast.runtime.metering.board import (
    Bulletin,
    Publisher,
    bulletins,
    nothing_more,
    publish,
    tidy,
)
from holdfast.runtime.metering.hot import HOT_KEYS_TOLD_MAX, KEYS_COUNTED_MAX, HotKeys
from holdfast.runtime.metering.meter import PartitionMeter
from holdfast.runtime.metering.samples import (
    SECONDS,
    Family,
    Histogram,
    Sample,
    exposed,
    gauge,
)
from holdfast.runtime.metering.vitals import start_ticks
from holdfast.stepping.commit import Commit, Head
from holdfast.stepping.inputs import Inputs

FAMILY = Family("a_seconds", "histogram", "key", "With a \\ and\na line.")


@given(st.text(), st.lists(st.floats(0.0, 100.0)))
def test_another_reader_reads_the_same(text: str, seconds: list[float]) -> None:
    histogram = Histogram(SECONDS)
    for each in seconds:
        histogram.add(each)
    page = exposed([FAMILY], [histogram.sample("a_seconds", key=text)], {"fleet": "f"})
    [family] = text_string_to_metric_families(page.decode())
    found = {(s.name, s.labels.get("le", "")): s for s in family.samples}
    assert found["a_seconds_count", ""].value == len(seconds)
    assert found["a_seconds_sum", ""].value == pytest.approx(math.fsum(seconds))
    assert found["a_seconds_count", ""].labels.get("key", "") == text
    for bound in SECONDS:
        le = str(int(bound)) if bound == int(bound) else repr(bound)
        below = sum(each <= bound for each in seconds)
        assert found["a_seconds_bucket", le].value == below


def test_a_name_that_is_not_known_is_left_out() -> None:
    assert exposed([FAMILY], [gauge("another", 1.0)], {}) == b""


def some_inputs(first: int, count: int, stamp: float, key: str = "k") -> Inputs:
    return Inputs(first, stamp, "external", ["A"] * count, "A", [key] * count, [])


def metered(batch: list[Inputs], end: int, now: float) -> Sample:
    meter = PartitionMeter(0)
    commit = Commit(Head(position=batch[0].first), Head(position=end, commits=1))
    meter.committed(batch, [], commit, Instant(now, now, "boot"), 0.0, 0.0)
    return meter._to_action.sample("t")


@pytest.mark.parametrize("frames", [1, 5, 64, 65, 1_000])
@pytest.mark.parametrize("left", [0, 3])
def test_times_are_counted_as_if_each_event_were_looked_at(frames: int, left: int) -> None:
    chance = random.Random(frames * 7 + left)
    position, stamp, batch, times = 100, 1_000.0, [], []
    for _ in range(frames):
        count = chance.randint(1, 9)
        stamp += chance.choice([0.0, 0.001, 0.01, 0.1])
        batch.append(some_inputs(position, count, stamp))
        position += count
        times += [stamp] * count
    now = stamp + 0.002
    end = max(101, position - left)  # a commit may take less than what was read
    ages = [now - each for each in times[: end - 100]]
    sample = metered(batch, end, now)
    expected = Counter(bisect_left(SECONDS, age) for age in ages)
    assert sample.counts == tuple(expected[n] for n in range(len(SECONDS) + 1))
    if frames <= 64:
        assert sample.value == pytest.approx(math.fsum(ages))
    else:
        assert sample.value == pytest.approx(math.fsum(ages), rel=0.2)


def test_a_hot_key_is_found_among_many() -> None:
    chance, hot = random.Random(5), HotKeys()
    for _ in range(20_000):
        key = "hot" if chance.random() < 0.1 else f"k-{chance.randrange(100_000)}"
        hot.add("A", key)
    found = hot.hottest()
    assert [each.key for each in found] == ["hot"]
    assert 0.05 < found[0].share < 0.12
    assert len(hot._counts) <= KEYS_COUNTED_MAX


def test_a_hot_key_is_forgotten_when_its_load_is_over() -> None:
    chance, hot = random.Random(6), HotKeys()
    for _ in range(3_000):
        hot.add("A", "was")
    for _ in range(40_000):
        hot.add("A", f"k-{chance.randrange(100_000)}")
    assert hot.hottest() == []


def test_few_keys_are_told_at_most_so_many() -> None:
    hot = HotKeys()
    for n in range(10_000):
        hot.add("A", f"k-{n % 30}")
    assert len(hot.hottest()) == HOT_KEYS_TOLD_MAX


def test_the_dead_are_not_read_and_go(tmp_path: Path) -> None:
    publish(tmp_path, "worker-0", [gauge("a", 1.0, partition=0)])
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = start_ticks(child.pid)
    assert started is not None
    write(tmp_path / "worker-1.json", Bulletin("worker-1", child.pid, started, time.time(), []))
    # A process that has the pid of one that is gone is another one.
    other = Bulletin("worker-2", os.getpid(), (start_ticks(os.getpid()) or 0) + 1, time.time(), [])
    write(tmp_path / "worker-2.json", other)
    (tmp_path / "worker-3.json").write_bytes(b'{"process": "wor')
    assert {each.process for each in bulletins(tmp_path)} == {"worker-0", "worker-1"}
    child.kill()
    child.wait()
    assert [each.samples for each in bulletins(tmp_path)] == [[gauge("a", 1.0, partition=0)]]
    tidy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["worker-0.json"]


def test_one_that_ends_leaves_what_its_successor_tells(tmp_path: Path) -> None:
    first = Publisher(tmp_path, "worker-0", nothing_more)
    assert [each.process for each in bulletins(tmp_path)] == ["worker-0"]
    write(tmp_path / "worker-0.json", Bulletin("worker-0", 1, 0, time.time(), []))
    first.stop()
    assert (tmp_path / "worker-0.json").exists()
    second = Publisher(tmp_path, "worker-0", nothing_more)
    second.stop()
    assert not list(tmp_path.iterdir())


def write(path: Path, told: Bulletin) -> None:
    path.write_bytes(msgspec.json.encode(told))
