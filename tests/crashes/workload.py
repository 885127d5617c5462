"""The recorded workload: one of everything the engine does to its files, in small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engine.port import Limits, Parcel
from holdfast.engine.sqlite import deltas as deltas_module
from holdfast.engine.sqlite import engine as engine_module
from holdfast.engine.sqlite import inbox as inbox_module
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.segment import list_segments
from holdfast.errors import Fenced
from holdfast.model.schema import Field, Schema
from holdfast.stepping.commit import Issued, Journalled, Outgoing, Record
from holdfast.testing.conformance.blocks import block_of
from holdfast.testing.conformance.commits import ANSWER, framed, letter
from holdfast.testing.conformance.workbench import (
    HandClock,
    Owner,
    gone,
    messages,
    numbered,
    parcel,
    record,
)
from tests.crashes.disk import Disk
from tests.crashes.recorder import Recorder
from tests.crashes.script import PARTITIONS, Run, Script

ROOMY = Limits(segment_bytes=100_000, disk_reserve_bytes=1)
SPARING = replace(ROOMY, retain_bytes=1, retain_seconds=900_000.0)
SCHEMAS = [Schema("event", f"Position{n}", (Field("lat", "float", True),)) for n in range(3)]


def run(base: Path) -> Run:
    recorder = Recorder(base)
    script = Script(recorder)
    with recorder.recording(), _small():
        script.create()
        first, owners = _first_owner(script)
        second, owners = _takeover(script, first, owners)
        _upkeep(script, second, owners)
        with script.step("close"):
            second.close()
            first.close()
    return Run(Disk(), recorder.operations, script.steps, [])


@contextmanager
def _small() -> Iterator[None]:
    """Compaction, checkpoints and retention after a few rows already."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inbox_module, "SETTLED_SECONDS", -math.inf)
        patched.setattr(deltas_module, "DELTAS_MAX", 3)
        patched.setattr(deltas_module, "DELTAS_AT_ONCE", 2)
        patched.setattr(engine_module, "WAL_BYTES_BEFORE_CHECKPOINT", 0)
        patched.setattr(engine_module, "CHECKPOINT_SECONDS", -1.0)
        yield


def _first_owner(script: Script) -> tuple[SqliteEngine, list[Owner]]:
    engine = SqliteEngine(script.root, ROOMY, HandClock())
    script.register(engine, *SCHEMAS[:2])
    owners = [script.claim(engine, number) for number in range(PARTITIONS)]
    script.append(engine, 0, numbered("gcs", [1, 2, 3]))
    several = (numbered("gcs", [4, 5]), numbered("uav", range(1, 3)), _ordered(1))
    script.append(engine, 0, *several)
    script.append(engine, 0, numbered("gcs", range(2, 7)), messages("9-abc", 1, 2))
    _commit(script, owners[0], events=4)
    script.append(engine, 1, messages(owners[0].claim.incarnation, 1, 1))
    script.commit(owners[0], relayed={1: 1})
    script.append(engine, 0, _ordered(2), messages("9-abc", 2, 2))
    _commit(script, owners[1], events=1)
    for version in range(2, 5):
        _commit(script, owners[0], events=2, version=version)
        script.append(engine, 0, numbered("gcs", [10 * version, 10 * version + 1]))
    with script.step("upkeep"):
        engine.maintain()
    script.register(engine, SCHEMAS[2])
    script.append(engine, 0, _large("uav", 50))
    _commit(script, owners[0], events=3, version=5)
    return engine, owners


def _takeover(
    script: Script, first: SqliteEngine, owners: list[Owner]
) -> tuple[SqliteEngine, list[Owner]]:
    """Another engine claims while the first one is still there, and is refused from then on."""
    engine = SqliteEngine(script.root, SPARING, HandClock())
    claimed = [script.claim(engine, number) for number in range(PARTITIONS)]
    with script.step("a refused commit"), pytest.raises(Fenced):
        owners[0].commit([record("d-1", "late")])
    script.append(first, 0, numbered("gcs", [60, 61]))
    script.append(engine, 1, messages(owners[0].claim.incarnation, 1, 4), numbered("gcs", [1]))
    _commit(script, claimed[0], events=2, version=6)
    return engine, claimed


def _upkeep(script: Script, engine: SqliteEngine, owners: list[Owner]) -> None:
    _commit(script, owners[0], events=_waiting(script), version=7)
    part = script.part(0)
    firsts = [name.first for name in list_segments(script.root / "p000" / "inbox")]
    assert len(firsts) > 3, "too few segments to forget some"
    with script.step("retention", script.changed(0, replace(part, first=firsts[-1])), whole=False):
        engine.maintain()
    script.append(engine, 0, numbered("gcs", [70]), _large("gcs", 71))
    _commit(script, owners[0], events=1, version=8)
    part = replace(script.part(0), actions=(), journal=(), answers=())
    other = replace(script.part(1), actions=(), journal=(), answers=())
    after = script.changed(0, part).changed(1, other)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine_module, "FORGET_EVERY_SECONDS", -1.0)
        patched.setattr(engine_module, "WAL_BYTES_MAX", 1)
        with script.step("forgetting and a cut of the WAL", after, whole=False):
            engine.maintain()
    script.append(engine, 0, numbered("gcs", [80, 81, 82]))
    _commit(script, owners[0], events=2, version=9)


def _ordered(seq: int) -> Parcel:
    return parcel([f"up.{seq}"], source="up", seqs=[seq], keys=["k"], previous=[seq - 1])


def _large(source: str, seq: int) -> Parcel:
    """More than a page of SQLite's."""
    tag = f"{source}.{seq}"
    return parcel([tag], source=source, seqs=[seq], keys=[tag.ljust(20_000)])


def _waiting(script: Script) -> int:
    part = script.part(0)
    return len(part.tags) - part.head.position


def _commit(script: Script, owner: Owner, events: int, version: int = 1) -> None:
    """One of everything that a commit may carry."""
    head = owner.head
    part = script.part(owner.claim.partition)
    destination = 1 - owner.claim.partition
    number = part.sent_next.get(destination, 1)
    records: list[Record] = [
        record("d-1", f"state {version}", version),
        record(f"d-{version}", f"own of {version} ".ljust(3000, "x"), version),
    ]
    if version > 4:
        records.append(gone(f"d-{version - 2}", version))
    flock = [record(f"f-{n}", f"bird {version}", version, "Flock") for n in range(version, 12, 3)]
    script.commit(
        owner,
        records,
        events=events,
        blocks=[block_of(flock)],
        outgoing=[Outgoing(destination, number, 1, framed(f"out {version}"))],
        sent_next={destination: number + 1},
        issued=Issued(head.actions_next, 1, 5.0, framed(f"action {version}")),
        journalled=Journalled(head.journal_next, 1, framed(f"timer {version}")),
        letters=[letter(head.letters_next)],
        redriven=[head.letters_next - 1] if version % 2 == 0 else [],
        answers=[ANSWER._replace(position=head.position, now=5.0)],
        head={
            "actions_next": head.actions_next + 1,
            "journal_next": head.journal_next + 1,
            "letters_next": head.letters_next + 1,
        },
    )
