"""Would frames of columns be better compressed? Ratio and speed of ways to do it.

    python -m bench.compressing

A frame is appended to the inbox in one write and one sync. Compressing it first is worth it where
the time that takes is less than the time the disk needs for the bytes that are saved: the last
column says how long a megabyte of frame takes either way, at a given speed of the disk.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy
import zstandard

from holdfast.model.layout import Slot
from holdfast.stepping.columns import names_column, payload_columns, rising_column
from holdfast.stepping.frame import Column, Frame, const
from holdfast.stepping.names import Names

ROWS, DRONES, TIMES = 4096, 5_000, 30
DISKS = (110, 216)  # MB/s, appends of frames on the machine of docs/BENCHMARKS.md
SLOTS = (
    Slot("lat", "float"),
    Slot("lon", "float"),
    Slot("alt", "float"),
    Slot("battery", "int"),
    Slot("mode", "enum", values=("idle", "flying", "landing")),
)


def frame(*, rounded: bool) -> Frame:
    """Positions of drones over a city, as their autopilots send them."""
    draw = numpy.random.default_rng(7)
    drone = draw.integers(0, DRONES, ROWS)
    lat, lon = 52.5 + draw.normal(0, 0.1, ROWS), 13.4 + draw.normal(0, 0.15, ROWS)
    alt = draw.uniform(0, 120, ROWS)
    if rounded:  # a receiver gives 1e-7 degrees and centimetres
        lat, lon, alt = lat.round(7), lon.round(7), alt.round(2)
    arrays = [lat, lon, alt, draw.integers(5, 101, ROWS), draw.integers(0, 3, ROWS)]
    names = Names([b"drone-%05d" % i for i in range(DRONES)])
    columns = {
        "origin": const("external"),
        "agent": const("Drone"),
        "key": names_column(names, drone.astype("u4")),
        "seq": rising_column(1_000_000, numpy.arange(ROWS) * 2),
        **payload_columns(3, SLOTS, arrays),
    }
    return Frame(ROWS, columns)


def shuffled(made: Frame) -> bytes:
    """Columns of 8-byte values with all first bytes in front, then all second ones, …"""
    columns = {}
    for name, (kind, data) in made.columns.items():
        if kind == "f64":
            data = numpy.frombuffer(data, "u1").reshape(-1, 8).T.tobytes()
        columns[name] = Column(kind, data)
    return Frame(made.count, columns).encode()


def microseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(TIMES):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


def main() -> None:
    heads = [f"ms/MB at {disk} MB/s" for disk in DISKS]
    print(f"{'':34}{'ratio':>7}{'MB/s':>9}{'back':>9}" + "".join(f"{each:>22}" for each in heads))
    for rounded in (False, True):
        made = frame(rounded=rounded)
        size = len(made.encode())
        floats = "floats as receivers round them" if rounded else "floats with all their bits"
        print(f"{floats}, {size:,} bytes")
        tell("raw", size, size, microseconds(made.encode), 0.0)
        for shuffle in (False, True):
            for level in (-5, 1, 3, 6):
                compare(made, size, shuffle, level)


def compare(made: Frame, size: int, shuffle: bool, level: int) -> None:
    pack, unpack = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()

    def packed() -> bytes:
        return pack.compress(shuffled(made) if shuffle else made.encode())

    once = packed()
    name = f"{'bytes shuffled, ' if shuffle else ''}zstd {level}"
    back = microseconds(lambda: unpack.decompress(once))
    tell(name, size, len(once), microseconds(packed), back)


def would_cost() -> str:
    """Of the cheapest way, for the table of what is on and what is off."""
    made = frame(rounded=False)
    raw, packer = made.encode(), zstandard.ZstdCompressor(level=1)
    packed = packer.compress(raw)
    taken = 1000 * microseconds(lambda: packer.compress(raw)) / ROWS
    back = 1000 * microseconds(lambda: zstandard.ZstdDecompressor().decompress(packed)) / ROWS
    saved = 1 - len(packed) / len(raw)
    return f"zstd 1 would save {saved:.0%} of the bytes and cost {taken + back:.0f} ns per event"


def tell(name: str, size: int, packed: int, take: float, back: float) -> None:
    speed = f"{size / take:9.0f}{size / back if back else 0:9.0f}"
    costs = [1000 * (take / size + packed / size / disk) for disk in DISKS]
    figures = "".join(f"{cost:22.1f}" for cost in costs)
    print(f"    {name:30}{size / packed:7.2f}{speed}{figures}")


if __name__ == "__main__":
    main()
