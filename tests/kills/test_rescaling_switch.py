"""Goal: a rescale that ends in the very moment of its switch has happened or not, for everybody and
for ever: nothing acknowledged on either side of it is lost.

The switch is one transaction of the catalog. Its sync is reached through a VFS of the test.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.engine.sqlite.catalog import SqliteCatalog
from holdfast.runtime.rescaling import rescale

pytestmark = pytest.mark.kill


class Add(Event):
    amount: int


class Box(Agent):
    total: int = 0

    @on
    def add(self, event: Add, ctx: Context) -> None:
        self.total += event.amount


fleet = Fleet("boxes", agents=[Box])

ENDS_IN_THE_SYNC = """
    import os, signal, sys
    import apsw
    sys.path.insert(0, {root!r})
    armed = []

    class File(apsw.VFSFile):
        def __init__(self, name, flags):
            self.path = name if isinstance(name, str) else name.filename()
            super().__init__("unix", name, flags)

        def xSync(self, flags):
            if armed and self.path.endswith("fleet.db-wal"):
                armed.append("sync")
                if len(armed) == 3:  # the first is for the header of a new WAL
                    {end}
            return super().xSync(flags)

    class Disk(apsw.VFS):
        def __init__(self):
            super().__init__("failing", "unix", makedefault=True)

        def xOpen(self, name, flags):
            return File(name, flags)

    disk = Disk()
    from tests.kills.test_rescaling_switch import fleet
    from holdfast.runtime.rescaling import rescale
    rescale(fleet, {url!r}, 4, faults=lambda p: armed.append(p) if p == "rescale.inside" else None)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=2) as live:
        live.send(Box, "b", Add(amount=1))
        live.settle()
    return url


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise apsw.IOError('the sync failed')"]
)
def test_a_switch_that_ends_in_its_sync(url: str, end: str) -> None:
    """A producer keeps the catalog open all the time, so that SQLite recovers nothing."""
    root = str(Path(__file__).parents[2])
    script = textwrap.dedent(ENDS_IN_THE_SYNC).format(root=root, url=url, end=end)
    with fleet.connect(url) as producer:
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert ended.returncode != 0
        with fleet.open(url) as live:
            for _ in range(20):
                producer.send(Box, "b", Add(amount=1))
            live.settle()
            assert live.state(Box, "b").total == 21
    # Now nobody has it open: what SQLite finds behind the end of its WAL must not come back.
    with fleet.open(url) as live:
        live.settle()
        assert live.state(Box, "b").total == 21


def test_an_interrupt_behind_the_switch(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is delivered when COMMIT returns, before anybody has looked at the new layout."""
    switch = SqliteCatalog.switch

    def interrupted(self: SqliteCatalog, *arguments: object) -> None:
        layout = self._layout, self._retired
        switch(self, *arguments)  # type: ignore[arg-type]
        self._layout, self._retired = layout
        raise KeyboardInterrupt

    with fleet.connect(url) as producer:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SqliteCatalog, "switch", interrupted)
            rescale(fleet, url, 4)
        producer.send(Box, "b", Add(amount=1))
        with fleet.open(url) as live:
            live.settle()
            assert live.state(Box, "b").total == 2
