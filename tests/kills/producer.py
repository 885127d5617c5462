"""A producer process: sends its script until told to stop, and resends what it has no answer for.

python -m tests.kills.producer connect|open URL SOURCE SEED PROGRESS

PROGRESS holds how many rows are acknowledged and how many may have been sent. A producer that
starts again takes up at the first number or, to be a nuisance, a good way before it. Once there is
a file PROGRESS.stop it sends on until nothing is in doubt, then ends. With `open` it is a program
that runs the fleet itself.
"""

import os
import random
import sys
import time
from pathlib import Path

from holdfast import Event, Live, TryAgain
from tests.kills import swarm
from tests.kills.script import Row, rows

REWIND_ROWS_MAX = 600
ROWS_PER_SECOND = float(os.environ.get("SWARM_ROWS_PER_SECOND", "600"))
BATCHES = (1, 2, 20, 60, 200)


class Progress:
    """Replaced as a whole: a producer killed while it writes leaves the old numbers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.acknowledged, self.attempted = 0, 0
        if path.exists():
            self.acknowledged, self.attempted = map(int, path.read_text().split())

    def note(self, acknowledged: int, attempted: int) -> None:
        self.acknowledged = max(self.acknowledged, acknowledged)
        self.attempted = max(self.attempted, attempted)
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(f"{self.acknowledged} {self.attempted}")
        unfinished.rename(self._path)


def event_of(row: Row) -> Event:
    made = getattr(swarm, row.event)(**row.fields)
    assert isinstance(made, Event)
    return made


def main(how: str, url: str, source: str, seed: str, progress_path: str) -> None:
    chance = random.Random(os.getpid())
    progress, stop = Progress(Path(progress_path)), Path(f"{progress_path}.stop")
    at = max(0, progress.acknowledged - chance.randrange(REWIND_ROWS_MAX))
    script = rows(int(seed), source)
    for _ in range(at):
        next(script)
    hold = swarm.fleet.open if how == "open" else swarm.fleet.connect
    with hold(url) as live:
        while not stop.exists() or at < progress.attempted:
            batch = [next(script) for _ in range(chance.choice(BATCHES))]
            at = batch[-1].number
            progress.note(0, at)
            send(live, source, batch)
            progress.note(at, at)
            time.sleep(len(batch) / ROWS_PER_SECOND)


def send(live: Live, source: str, batch: list[Row]) -> None:
    """Until it is acknowledged; a refusal that passes is no reason to stop."""
    events = [(getattr(swarm, r.agent), r.key, event_of(r)) for r in batch]
    first = batch[0].number
    while True:
        try:
            if len(events) == 1:
                live.send(*events[0], source=source, seq=first)
            else:
                live.send_many(events, source=source, first_seq=first)
            return
        except TryAgain as refusal:
            print(f"{source}: {refusal}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:6])
