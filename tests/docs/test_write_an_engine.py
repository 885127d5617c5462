"""Goal: the engine in docs/write-an-engine.md passes the whole kit, and is as durable as it says.

The Python blocks are one module, taken from the document as they stand; TestJournal is theirs.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.engine.port import Limits
from holdfast.errors import Backlog, DamagedData, WrongFleet
from holdfast.testing.conformance.workbench import (
    FLEET,
    Owner,
    append,
    inbox,
    numbered,
    parcel,
    record,
    refusal,
)
from tests.docs.documents import ROOT, program_of

DOCUMENT = ROOT / "docs" / "write-an-engine.md"


def load() -> ModuleType:
    """The program of the document as a module; its lines are those of the document."""
    module = ModuleType("write_an_engine")
    sys.modules[module.__name__] = module  # where annotations are looked up
    text = program_of(DOCUMENT.read_text("utf-8"))
    exec(compile(text, str(DOCUMENT), "exec"), module.__dict__)
    return module


example: Any = load()
TestJournal = example.TestJournal


def three_calls(folder: Path) -> tuple[bytes, int]:
    """A journal whose last record is an append, and how long it was before that."""
    engine = example.JournalEngine(folder, FLEET)
    append(engine, numbered("gcs", [1, 2]))
    Owner.of(engine).commit([record("d-1", "one")], events=1)
    before = (folder / "journal").stat().st_size
    append(engine, numbered("gcs", [3]))
    engine.close()
    return (folder / "journal").read_bytes(), before


def test_a_last_record_cut_short_anywhere_is_dropped(tmp_path: Path) -> None:
    content, before = three_calls(tmp_path)
    for length in range(before, len(content)):
        (tmp_path / "journal").write_bytes(content[:length])
        engine = example.JournalEngine(tmp_path, FLEET)
        assert inbox(engine) == ["gcs.1", "gcs.2"]
        assert engine.view(0).record("Drone", "d-1") == record("d-1", "one")
        assert append(engine, numbered("gcs", [3])).new == 1
        engine.close()


def test_a_last_record_of_rubbish_is_dropped(tmp_path: Path) -> None:
    content, before = three_calls(tmp_path)
    (tmp_path / "journal").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    engine = example.JournalEngine(tmp_path, FLEET)
    assert inbox(engine) == ["gcs.1", "gcs.2"]
    engine.close()
    assert (tmp_path / "journal").stat().st_size > before, "it was opened, and that is noted"


def test_space_without_content_is_dropped(tmp_path: Path) -> None:
    """After a power failure a file may be longer than what was written into it."""
    content, _ = three_calls(tmp_path)
    for extra in (1, 12, 500):
        (tmp_path / "journal").write_bytes(content + bytes(extra))
        engine = example.JournalEngine(tmp_path, FLEET)
        assert inbox(engine) == ["gcs.1", "gcs.2", "gcs.3"]
        engine.close()


def test_damage_before_the_last_record_is_refused(tmp_path: Path) -> None:
    """Every byte, also those of lengths and checksums: nothing acknowledged is dropped."""
    content, before = three_calls(tmp_path)
    for at in range(before):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        (tmp_path / "journal").write_bytes(damaged)
        with pytest.raises(DamagedData, match="damaged at byte"):
            example.JournalEngine(tmp_path, FLEET)


@pytest.mark.kill
def test_it_survives_the_death_of_its_process(tmp_path: Path) -> None:
    """Acknowledged and then killed: no close, no exit handler, nothing flushed."""
    program = tmp_path / "program.py"
    program.write_text(
        program_of(DOCUMENT.read_text("utf-8"))
        + "\nimport signal, sys\n"
        + "from holdfast.testing.conformance.workbench import Owner, append, numbered, record\n"
        + "engine = JournalEngine(Path(sys.argv[1]), FLEET)\n"
        + "append(engine, numbered('gcs', [1, 2]))\n"
        + "Owner.of(engine).commit([record('d-1', 'one')], events=1)\n"
        + "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(program), str(tmp_path / "data")]
    result = subprocess.run(command, env=environment, check=False, timeout=60)
    assert result.returncode == -9
    engine = example.JournalEngine(tmp_path / "data", FLEET)
    assert inbox(engine) == ["gcs.1", "gcs.2"]
    assert append(engine, numbered("gcs", [1, 2])).new == 0
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "one")
    engine.close()


def test_every_acknowledgement_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = example.JournalEngine(tmp_path, FLEET)
    owner = Owner.of(engine)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for call in (lambda: append(engine, parcel(["a"])), lambda: owner.commit(events=1)):
        synced.clear()
        call()
        assert len(synced) == 1
    engine.close()


def test_other_bounds_after_a_restart_do_not_change_the_past(tmp_path: Path) -> None:
    """What was taken under one bound is still there under a smaller one."""
    engine = example.JournalEngine(tmp_path, FLEET)
    append(engine, parcel(["a", "b", "c"]))
    append(engine, parcel(["d"]))
    engine.close()
    engine = example.JournalEngine(tmp_path, FLEET, limits=Limits(backlog_events_max=1))
    assert inbox(engine) == ["a", "b", "c", "d"]
    assert isinstance(refusal(engine, parcel(["e"])), Backlog)
    engine.close()
    engine = example.JournalEngine(tmp_path, FLEET)
    assert inbox(engine) == ["a", "b", "c", "d"], "what was refused is refused again"
    engine.close()


def test_another_fleet_is_refused(tmp_path: Path) -> None:
    example.JournalEngine(tmp_path, FLEET).close()
    with pytest.raises(WrongFleet, match="conformance"):
        example.JournalEngine(tmp_path, "another")
