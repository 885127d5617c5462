"""A fleet whose code hangs, ends its process or takes all memory, as a variable says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.gateway.settings import Settings
from holdfast.runtime.loading import load_fleet
from tests.cli.commands import children_of
from tests.gateway.served import Client, gateway_on

HANGS = "HOLDFAST_TEST_HANGS"
CODE = f'''
import os, time
from holdfast import Agent, Context, Event, Fleet, on

class Tick(Event):
    pass

class Clock(Agent):
    ticks: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        print("tick")
        match os.environ.get("{HANGS}"):
            case "hang":
                time.sleep(3600)  # a loop would only take a core from other tests
            case "exit":
                os._exit(7)
            case "memory":
                self.ticks = len(bytearray(1 << 36))
        self.ticks += 1

fleet = Fleet("clocks", agents=[Clock])
'''


class Clocks(NamedTuple):
    """A clock `c` that has ticked twice, and its gateway, which has the code."""

    client: Client
    then: float  # after the first tick


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[Clocks]:
    code = tmp_path / "clocks.py"
    code.write_text(CODE)
    fleet = load_fleet(str(code))
    clock, tick = fleet.agents["Clock"], next(e for e in fleet.events.values())
    url = f"sqlite:{tmp_path / 'data'}"
    before = children_of(os.getpid())
    with fleet.open(url) as live:
        for _ in range(2):
            live.send(clock, "c", tick())
            live.settle()
        then = live.history(clock, "c")[0].now
        with gateway_on(url, Settings(fleet=str(code))) as port:
            yield Clocks(Client(port), then)
    assert children_of(os.getpid()) == before, "a process is left"
