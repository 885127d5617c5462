"""A reader process: reads states and actions and asks, in a loop, and writes down what is wrong.

python -m tests.kills.reader URL COMPLAINTS

Whatever it sees must be committed: never half an event, never older than what it saw before.
"""

import sys
import time
import traceback
from pathlib import Path

from holdfast import Live, TryAgain
from tests.kills import swarm


class Reader:
    def __init__(self, live: Live, complaints: Path) -> None:
        self._live = live
        self._complaints = complaints
        self._cursor: str | None = None
        self._ids: set[str] = set()
        self._seen: dict[str, int] = {}

    def complain(self, text: str) -> None:
        with self._complaints.open("a") as file:
            file.write(text + "\n")

    def look(self) -> None:
        for key, drone in self._live.states(swarm.Drone):
            if drone.seen != sum(drone.counts.values()):
                self.complain(f"{key}: half an event: {drone}")
            if drone.seen < self._seen.get(key, 0):
                self.complain(f"{key}: went back from {self._seen[key]} to {drone.seen}")
            self._seen[key] = drone.seen
        page = self._live.actions(after=self._cursor, most=500)
        for action in page:
            if action.id in self._ids:
                self.complain(f"action {action.id} twice")
            self._ids.add(action.id)
        self._cursor = page.cursor

    def ask(self) -> None:
        """An answer may be late while a worker is replaced; it may not be older than a state."""
        before = self._live.state(swarm.Hub, "h-0")
        try:
            answer = self._live.ask(swarm.Hub, "h-0", swarm.HowMany(), timeout=3.0)
        except TryAgain:
            return
        if not isinstance(answer, swarm.Total):
            self.complain(f"a wrong answer: {answer}")
        elif before is not None and answer.tallies < before.tallies:
            self.complain(f"an old answer: {answer}, the state was {before}")


def main(url: str, complaints: str) -> None:
    with swarm.fleet.connect(url) as live:
        reader = Reader(live, Path(complaints))
        while True:
            try:
                reader.look()
                reader.ask()
            except Exception:
                reader.complain(traceback.format_exc())
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:3])
