"""Goal: an urgent event is folded once, in its own order, however often workers are killed, and
one that kills is found out like any other."""

import random
import time

import pytest

from tests.kills import sirens
from tests.kills.harness import PATIENCE_SECONDS, children, key_in, site, strike

SIRENS = "tests.kills.sirens:fleet"
ROUNDS = 36
TICKS = 50  # per round
pytestmark = pytest.mark.kill


def test_each_alarm_is_taken_once_while_workers_are_killed() -> None:
    chance = random.Random(7)
    keys = [key_in(partition, 2) for partition in range(2)]
    with site("partitions=2&segment_bytes=100000", SIRENS) as place:
        keeper = place.keeper(2)
        place.laid_out()
        with sirens.fleet.connect(place.url) as live:
            for round in range(ROUNDS):
                ticks = range(round * TICKS, (round + 1) * TICKS)
                for key in keys:
                    rows = [(sirens.Siren, key, sirens.Tick(n)) for n in ticks]
                    live.send_many(rows, source=f"ticks-{key}", first_seq=ticks.start)
                    last = ticks.stop
                    for _ in range(chance.choice([1, 1, 2])):  # a resend is a no-op
                        live.send(
                            sirens.Siren, key, sirens.Alarm(last), source=f"alarms-{key}", seq=round
                        )
                if round % 6 == 5:
                    while not (workers := children(keeper.pid, "holdfast.runtime.process")):
                        time.sleep(0.01)
                    strike(chance.choice(workers))
                    time.sleep(chance.random() * 0.3)
            live.settle(timeout=PATIENCE_SECONDS)
            issued = [each.id for each in live.actions()]
            assert len(issued) == len(set(issued)) == ROUNDS * len(keys)
            for key in keys:
                siren = live.state(sirens.Siren, key)
                assert siren is not None
                assert siren.ticks == list(range(ROUNDS * TICKS))
                assert siren.alarms == [(n + 1) * TICKS for n in range(ROUNDS)]
            states = [live.state(sirens.Siren, key) for key in keys]
            assert any(each and each.overtook for each in states), "nothing waited"


def test_one_that_kills_ends_as_a_dead_letter_and_the_others_are_folded() -> None:
    with site("partitions=1", SIRENS) as place:
        place.keeper(1)
        place.laid_out()
        with sirens.fleet.connect(place.url) as live:
            for n in range(10):
                live.send(sirens.Siren, "s", sirens.Tick(n))
            live.send(sirens.Siren, "s", sirens.Alarm(1))
            live.send(sirens.Siren, "s", sirens.Blast())
            live.send(sirens.Siren, "s", sirens.Alarm(2))
            for n in range(10, 20):
                live.send(sirens.Siren, "s", sirens.Tick(n))
            live.settle(timeout=PATIENCE_SECONDS)
            assert [letter.event for letter in live.dead_letters()] == [sirens.Blast()]
            siren = live.state(sirens.Siren, "s")
            assert siren is not None
            assert (siren.ticks, siren.alarms) == (list(range(20)), [1, 2])
