"""Everybody who runs the drone program, in the order of the table."""

from __future__ import annotations

from bench.contenders.base import Contender
from bench.contenders.flink import Flink
from bench.contenders.holdfast import Holdfast
from bench.contenders.scripted import Bytewax, PyFlink


def everybody() -> list[Contender]:
    return [
        Holdfast(compiled=True),
        Holdfast(compiled=False),
        Flink("heap"),
        Flink("RocksDB"),
        PyFlink(),
        Bytewax(),
    ]
