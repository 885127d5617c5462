"""Goal: what docs/operating.md says of damaged files holds: named, refused, never read in silence.

The damage is one flipped bit in the last append of an inbox, in the part that is not checkpointed.
SQLite takes that for a write a crash has cut short and drops it, so only Holdfast can notice: the
state has folded an event that the inbox no longer has.
"""

from pathlib import Path

import pytest

from holdfast import Agent, Context, DamagedData, Event, Fleet, on
from tests.cli.commands import holdfast_here


class Battery(Event):
    percent: float


class Drone(Agent):
    battery: float = 100.0

    @on
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent


fleet = Fleet("damage", agents=[Drone])


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Five folded events, of which the inbox has lost the last."""
    folder = tmp_path / "data"
    with fleet.open(f"sqlite:{folder}") as live:
        for number in range(5):
            live.send(Drone, "d-1", Battery(percent=50.0 - number))
        live.settle()
    (wal,) = folder.glob("p000/inbox/*.seg-wal")
    content = bytearray(wal.read_bytes())
    content[content.rfind(b"HFRM") + 30] ^= 0xFF
    wal.write_bytes(content)
    return folder


def test_it_does_not_open(damaged: Path) -> None:
    with pytest.raises(DamagedData, match="p000"):
        fleet.open(f"sqlite:{damaged}")


def test_a_send_is_refused(damaged: Path) -> None:
    """Taken, it would get a position that is folded already: acknowledged, and lost."""
    with fleet.connect(f"sqlite:{damaged}") as live, pytest.raises(DamagedData, match="p000"):
        live.send(Drone, "d-1", Battery(percent=1.0), timeout=1.0)


def test_history_does_not_leave_it_out(damaged: Path) -> None:
    with fleet.connect(f"sqlite:{damaged}") as live, pytest.raises(DamagedData, match="p000"):
        live.history(Drone, "d-1")


def test_the_salvage_listing_is_printed(damaged: Path) -> None:
    before = {file: file.read_bytes() for file in damaged.rglob("*") if file.suffix == ".seg"}
    words = ("doctor", "--salvage", "--data", damaged)
    assert holdfast_here(*words, cwd=damaged, code=None).stdout
    assert {file: file.read_bytes() for file in before} == before
