"""Goal: the streams of the benchmark stay what they are: twins in other languages make them too.

The literals were written down once; bench/peers has the same arithmetic in Java and plain Python.
"""

import numpy as np
import pytest

from bench.events import KINDS, Events, Stream, number_of

AGENTS = [4416, 3409, 4786]
NAMES = ["Position", "Position", "Position"]
LAT = [0.6465328321792185, 0.7506416959222406, 0.8464062730781734]
ALT = [89.99905210733414, 75.11435896158218, 87.20727515220642]


def test_some_events_by_heart() -> None:
    part = Events(Stream(seed=7, agents=5_000, mix="mixed"), 0, 1, 6_000, 3)
    assert part.agent.tolist() == AGENTS
    assert [KINDS[kind] for kind in part.kind] == NAMES
    assert part.lat.tolist() == LAT
    assert part.alt.tolist() == ALT


def test_the_first_events_reach_every_agent_once() -> None:
    part = Events(Stream(agents=80), 0, 1, 0, 80)
    assert part.agent.tolist() == list(range(80))


def test_lanes_deal_out_the_same_events_and_never_share_an_agent() -> None:
    stream = Stream(agents=80, mix="mixed")
    whole = Events(stream, 0, 1, 0, 4_000)
    lanes = [Events(stream, lane, 4, 0, 1_000) for lane in range(4)]
    for lane, part in enumerate(lanes):
        assert part.agent.tolist() == whole.agent[lane::4].tolist()
        assert part.alt.tolist() == whole.alt[lane::4].tolist()
        assert part.kind.tolist() == whole.kind[lane::4].tolist()
    agents = [set(part.agent.tolist()) for part in lanes]
    assert sum(map(len, agents)) == len(set.union(*agents)) == 80


def test_shares_are_about_what_they_are_called() -> None:
    mixed = Events(Stream(mix="mixed"), 0, 1, 0, 100_000)
    shares = np.bincount(mixed.kind, minlength=4) / 100_000
    assert np.allclose(shares, [0.60, 0.25, 0.15, 0.0], atol=0.01)
    messages = Events(Stream(mix="messages"), 0, 1, 0, 100_000)
    assert np.allclose(np.mean(messages.kind == 3), 0.20, atol=0.01)
    assert np.allclose(np.mean(mixed.alt > 100.0), 1 / 101, atol=0.002)


def test_an_action_of_a_latency_run_tells_which_event_led_to_it() -> None:
    part = Events(Stream(every=10), 0, 1, 123_456_780, 100)
    climbs = part.alt > 100.0
    assert climbs.sum() == 10
    assert number_of(part.alt[climbs] - 20.0).tolist() == part.number[climbs].tolist()


@pytest.mark.parametrize("fields", [{"agents": 12}, {"agents": 0}, {"mix": "other"}])
def test_a_stream_that_cannot_be_dealt_out_is_refused(fields: dict) -> None:
    with pytest.raises(ValueError, match=r"multiple of 8|unknown mix"):
        Stream(**fields)
