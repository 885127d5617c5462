"""Goal: the benchmark's oracle and Holdfast agree, and the oracle notices when they should not.

The oracle is NumPy and shares nothing with the drone program but the events, so what both say of a
stream is right, or both are wrong in the same way.
"""

from collections.abc import Callable

import pytest

from bench.events import Events, Stream, key_of
from bench.oracle import Outcome, expect
from bench.ours.producing import rows_of
from bench.ours.reading import outcome_of
from bench.program import fleet
from holdfast.runtime.sending import Row

MIXES = ("positions", "mixed", "messages")
COUNT = 4_000


def stream_of(mix: str) -> Stream:
    return Stream(seed=3, agents=40, mix=mix)


def folded(stream: Stream, change: Callable[[list[Row]], list[Row]] = lambda rows: rows) -> Outcome:
    keys = [key_of(n) for n in range(stream.agents)]
    rows = change(rows_of(Events(stream, 0, 1, 0, COUNT), keys))
    with fleet.open("memory:", partitions=2) as live:
        live.send_many(rows)
        live.settle()
        return outcome_of(live, stream.agents)


@pytest.mark.parametrize("mix", MIXES)
def test_holdfast_does_what_the_oracle_says(mix: str) -> None:
    stream = stream_of(mix)
    outcome = expect(stream, [COUNT])
    assert outcome.agents == stream.agents
    assert outcome.actions["Descend"][0] > 10, "too little happens in this stream"
    assert outcome.actions["Land"][0] > 10 or mix != "mixed"
    assert outcome.actions["Avoid"][0] > 5 or mix != "messages"
    assert outcome.differences(folded(stream)) == []


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("where", [COUNT - 1, COUNT // 2])
def test_an_event_lost_or_doubled_is_noticed(mix: str, where: int) -> None:
    stream = stream_of(mix)
    outcome = expect(stream, [COUNT])
    lost = folded(stream, lambda rows: rows[:where] + rows[where + 1 :])
    doubled = folded(stream, lambda rows: [*rows[: where + 1], *rows[where:]])
    kind = Events(stream, 0, 1, where, 1).kind[0]
    if kind == 1:  # a battery's reading may repeat the one before, and then changes nothing
        pytest.fail("choose another event: this one need not show")
    assert outcome.differences(lost)
    assert outcome.differences(doubled)


def test_two_events_of_one_agent_in_the_wrong_order_are_noticed() -> None:
    stream = stream_of("positions")
    agents = Events(stream, 0, 1, 0, COUNT).agent
    last = COUNT - 1
    before = max(n for n in range(last) if agents[n] == agents[last])

    def exchanged(rows: list[Row]) -> list[Row]:
        rows[before], rows[last] = rows[last], rows[before]
        return rows

    assert expect(stream, [COUNT]).differences(folded(stream, exchanged)) == [
        "states differ in lat",
        "states differ in lon",
        "states differ in alt",
    ]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_how_many_producers_share_a_stream_does_not_matter(mix: str, lanes: int) -> None:
    stream = stream_of(mix)
    assert expect(stream, [COUNT // lanes] * lanes) == expect(stream, [COUNT])


def test_what_differs_is_named() -> None:
    states = {"lat": 1, "alt": 2}
    wanted = Outcome(2, states, {"Land": (3, 4), "Lost": (1, 1)})
    assert wanted.differences(Outcome(1, {"lat": 1}, {"Land": (3, 5)})) == [
        "1 agents instead of 2",
        "states differ in alt",
        "3 actions Land, but others",
        "0 actions Lost instead of 1",
    ]
