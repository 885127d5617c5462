"""Goal: a directory that nobody folds is plain files: it can be copied, and the copy opens."""

import shutil
from pathlib import Path

from holdfast import Agent, Context, Event, Fleet, on


class Count(Event):
    pass


class Counter(Agent):
    count: int = 0

    @on
    def counted(self, event: Count, ctx: Context) -> None:
        self.count += 1


fleet = Fleet("counters", agents=[Counter])


def test_a_copy_of_a_directory_at_rest_opens(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        live.send_many([(Counter, f"c-{n}", Count()) for n in range(20)])
        live.settle()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with fleet.open(f"sqlite:{tmp_path / 'copy'}") as live:
        assert sum(counter.count for _, counter in live.states(Counter)) == 20
