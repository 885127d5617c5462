"""The classes of the past: what wrote the directory `written/`, and how to write it again.

    python -m tests.olddata.first_classes

Run it only when the format of the files changes; the directory is checked in as it is.
"""

from __future__ import annotations

import shutil
from enum import Enum
from pathlib import Path

import apsw

from holdfast import Action, Agent, Context, Event, Fleet, on

WRITTEN = Path(__file__).parent / "written"


class Mode(Enum):
    IDLE = "idle"
    BUSY = "busy"


class Work(Event):
    amount: int


class Finish(Event):
    pass


class Broken(Event):
    reason: str


class Report(Action):
    total: int


class Robot(Agent):
    mode: Mode = Mode.IDLE
    done: int = 0
    log: list[str] = []

    @on
    def work(self, event: Work, ctx: Context) -> None:
        self.mode = Mode.BUSY
        self.done += event.amount
        self.log.append(f"work {event.amount}")
        # Far away: the data is read years later, and must look the same.
        ctx.after(100 * 365 * 86_400.0, Finish(), name="finish")
        ctx.emit(Report(total=self.done))

    @on
    def finish(self, event: Finish, ctx: Context) -> None:
        self.mode = Mode.IDLE

    @on
    def broken(self, event: Broken, ctx: Context) -> None:
        raise ValueError(event.reason)


fleet = Fleet("factory", agents=[Robot])


def write() -> None:
    shutil.rmtree(WRITTEN, ignore_errors=True)
    with fleet.open(f"sqlite:{WRITTEN}", partitions=2) as live:
        for number in range(20):
            key = f"r-{number % 4}"
            live.send(Robot, key, Work(amount=number), source="plan", seq=number + 1)
        live.send(Robot, "r-0", Broken(reason="a jam"), source="plan", seq=21)
        live.settle()
    for path in [*WRITTEN.rglob("*.db"), *WRITTEN.rglob("*.seg")]:
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA user_version")  # a connection that has read nothing has no WAL
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()
    for path in list(WRITTEN.rglob("*")):
        if path.is_file() and path.suffix in (".db", ".seg"):
            continue
        if not path.is_dir():
            path.unlink()


if __name__ == "__main__":
    write()
