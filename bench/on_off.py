"""What each part of the design contributes: everything on, then one thing off at a time.

Without numba everything is interpreted, and what is about compiling has no figure.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.compressing import would_cost
from bench.contenders.holdfast import Holdfast
from bench.oracle import Outcome, expect
from bench.results import Unavailable, without_places
from bench.workloads import Workload


@dataclass(frozen=True)
class Switch:
    """None: as this machine can."""

    name: str
    compiled: bool | None = None
    columns: bool | None = None
    send: int = 0
    options: dict[str, Any] = field(default_factory=dict)


SWITCHES = (
    Switch("everything on"),
    Switch("without batching: sends of 1", send=1),
    Switch("without columns: row sends to the compiled agent", True, False),
    Switch("without compilation: column sends to the interpreted agent", False, True),
    Switch("without both", False, False),
    Switch("with pinned workers", options={"pinned": True}),
    Switch("without overlap: all processes on one core", options={"one_core": True}),
)


def on_off(folder: Path, seconds: float, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rows of the table: events per second, or why there is no figure."""
    rows = []
    can = _can_compile()
    for switch in SWITCHES:
        say(f"on/off: {switch.name}")
        row: dict[str, Any] = {"name": switch.name}
        try:
            row["per_second"] = round(_rate(switch, can, folder, seconds), 1)
            say(f"  {row['per_second']:,.0f} events/s")
        except Exception as error:
            row["missing"] = without_places(str(error))
            say(f"  {error}")
        rows.append(row)
    return [*rows, {"name": "with compression: frames are stored raw", "missing": would_cost()}]


def _rate(switch: Switch, can: bool, folder: Path, seconds: float) -> float:
    contender = Holdfast(
        can if switch.compiled is None else switch.compiled,
        can if switch.columns is None else switch.columns,
    )
    contender.prepare()
    workload = replace(Workload("on-off"), seconds=seconds, send=switch.send)
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        found = contender.measure(workload, own, **switch.options)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    actions = {name: (count, value) for name, (count, value) in found["outcome"]["actions"].items()}
    outcome = Outcome(found["outcome"]["agents"], found["outcome"]["states"], actions)
    if wrong := expect(workload.stream, found["counts"]).differences(outcome):
        raise AssertionError(f"the oracle disagrees: {wrong[0]}")
    return float(sum(found["counts"]) / found["seconds"])


def _can_compile() -> bool:
    try:
        Holdfast(compiled=True).prepare()
    except Unavailable:
        return False
    return True
