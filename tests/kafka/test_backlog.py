"""Goal: on Kafka too senders are told to wait when more waits than may, and go on afterwards."""

import time
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.errors import Backlog

MOST = 200


class Load(Event):
    seconds: float = 0.0


class Crane(Agent):
    loads: int = 0

    @on
    def lift(self, event: Load, ctx: Context) -> None:
        time.sleep(event.seconds)  # never do this: here it makes a worker slow
        self.loads += 1


fleet = Fleet("cranes", agents=[Crane])


def test_senders_are_refused_at_the_bound_and_go_on_below_it(kafka: str, tmp_path: Path) -> None:
    url = f"kafka://{kafka}/cranes?cache={tmp_path}&backlog_events_max={MOST}"
    with fleet.open(url) as live, fleet.connect(url) as sender:
        live.send(Crane, "c-1", Load())
        live.settle()
        slow = 2 * MOST
        live.send_many([(Crane, "c-1", Load(seconds=0.02)) for _ in range(slow)])
        sent = 0
        with pytest.raises(Backlog, match="events wait to be folded, the bound: send slower"):
            for _ in range(100):  # the bound is told a second or two after it is passed
                sender.send(Crane, "c-1", Load(), timeout=2.0)
                sent += 1
                time.sleep(0.05)
        sender.send(Crane, "c-1", Load(), timeout=60.0)  # it waits for its turn
        sender.settle(timeout=60.0)
        found = live.state(Crane, "c-1")
        assert found is not None
        assert found.loads == 1 + slow + sent + 1
