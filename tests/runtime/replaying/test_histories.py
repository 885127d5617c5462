"""Goal: whatever happened to a fleet, its recorded history folded again comes out as it was.

Runs are those of the oracle's own tests: workers are killed in commits, come back as zombies, have
wrong clocks, fold alone, condemn events; operators pause, resume and redrive; frames are cut. Calls
are answered, fail, are answered twice or late; actions are compensated, some twice.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from holdfast.runtime.replaying.feeding import Until
from holdfast.runtime.replaying.history import History
from holdfast.runtime.replaying.moments import Past, compare_agent
from holdfast.runtime.replaying.replay import Replay
from holdfast.runtime.replaying.running import compare, partitions
from holdfast.stepping.commit import Record
from tests.runtime.replaying.yards import (
    codebook,
    commits_of,
    entries_of,
    random_yard,
    rescaled_yard,
    states_after,
)
from tests.seeds import seeds
from tests.simulation.fleet_v1 import fleet


def images(records: object) -> dict[tuple[str, str], Record]:
    return {(r.agent, r.key): r for r in records}  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", seeds(4, 24))
def test_every_commit_and_every_agent_comes_out_as_it_was(seed: int) -> None:
    engine = random_yard(seed).engine
    for number in partitions(engine):
        outcome = compare(engine, fleet, number)
        assert outcome.difference is None
        assert outcome.sums == outcome.commits
        assert outcome.events == engine.view(number).head().position


def test_these_histories_have_it_all() -> None:
    runs = [*map(random_yard, range(4)), rescaled_yard(0)]
    every = [
        c for run in runs for number in partitions(run.engine) for c in commits_of(run, number)
    ]
    inputs = [e for run in runs for n in partitions(run.engine) for e in entries_of(run.engine, n)]
    replies = [entry for entry in inputs if entry[0] == "reply"]
    asked = [entry for entry in inputs if entry[1] == "compensate"]
    assert len(replies) > sum(len(commit.closed) for commit in every) > 0, "some came too late"
    assert {name for _, name in replies} == {"Routed", "Audited", "CallFailed"}
    answers = [answer.text for commit in every for answer in commit.answers]
    assert len(asked) > sum(len(commit.fates) for commit in every) > 0
    assert any("compensated before" in text for text in answers)
    assert any("nobody knows where" in text for text in answers)


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_also_commit_by_commit_in_bytes(seed: int) -> None:
    run = random_yard(seed)
    for number in partitions(run.engine):
        history = History(run.engine, number)
        replay = Replay(fleet, codebook(run.engine), history.layout)
        made = list(history.run(replay))
        recorded = commits_of(run, number)
        assert [commit.note for commit in made] == [commit.note for commit in recorded]
        for one, other in zip(made, recorded, strict=True):
            assert one.head == other.head
            assert one.delta == other.delta
            assert one.issued == other.issued
            assert one.journalled == other.journalled
            assert one.redriven == other.redriven
            assert one.fates == other.fates
            assert one.calls == other.calls
            assert one.closed == other.closed
            assert one.answers == other.answers
            assert [out.frame for out in one.outgoing] == [out.frame for out in other.outgoing]
        assert replay.stepper.sent_next == history.view.sent_next()


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_without_notes_too_in_batches_of_any_size(seed: int) -> None:
    """As of a release that made no notes. Only when a state was stored differs."""
    run = random_yard(seed)
    while run.engine.condemned:  # which only notes tell for sure
        seed += 100
        run = random_yard(seed)
    for number in partitions(run.engine):
        history = History(run.engine, number)
        replay = Replay(fleet, codebook(run.engine), history.layout)
        end = Until(history.end.position)
        for _ in replay.run(history.frames(), history.journal(), until=end):
            pass
        ours = {name: r[:6] for name, r in images(replay.records()).items()}
        assert ours == {name: r[:6] for name, r in images(history.view.records()).items()}
        assert replay.head._replace(commits=0) == history.end._replace(commits=0)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_it_goes_through_rescalings(seed: int) -> None:
    """A new partition begins with what the retired ones ended with, which stays readable."""
    engine = rescaled_yard(seed).engine
    numbers = partitions(engine)
    assert len(numbers) > len(engine.catalog.layout.numbers)
    for number in numbers:
        outcome = compare(engine, fleet, number)
        assert outcome.difference is None, number
    for view in (engine.view(number) for number in engine.catalog.layout.numbers):
        for record in list(view.records())[:5]:
            lives = compare_agent(engine, fleet, record.agent, record.key)
            assert len(lives) == 3
            assert [life.difference for life in lives] == [None, None, None]


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_one_agent_alone_comes_out_the_same(seed: int) -> None:
    engine = random_yard(seed).engine
    for number in partitions(engine):
        for record in engine.view(number).records():
            (outcome,) = compare_agent(engine, fleet, record.agent, record.key)
            assert outcome.difference is None, (record.agent, record.key)


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_until_a_position_gives_what_was_committed_there(seed: int) -> None:
    run = random_yard(seed)
    draw = random.Random(seed)
    for number in partitions(run.engine):
        commits = commits_of(run, number)
        ends = [
            i
            for i, (one, other) in enumerate(pairwise(commits))
            if other.head.journal_next == one.head.journal_next
        ]
        for i in draw.sample(ends, min(5, len(ends))):
            history = History(run.engine, number)
            replay = Replay(fleet, codebook(run.engine), history.layout)
            for _ in history.run(replay, Until(position=commits[i].head.position)):
                pass
            assert images(replay.records()) == states_after(commits[: i + 1])


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_one_agent_until_a_time_is_as_in_the_replay_of_all(seed: int) -> None:
    engine = random_yard(seed).engine
    draw = random.Random(seed)
    for number in partitions(engine):
        end = engine.view(number).head().now
        for time in [draw.uniform(999.0, end) for _ in range(3)]:
            history = History(engine, number)
            whole = Replay(fleet, codebook(engine), history.layout)
            for _ in history.run(whole, Until(time=time)):
                pass
            assert whole.head.now <= time
            for agent, key in images(engine.view(number).records()):
                past = Past(fleet, codebook(engine), engine, number, agent, key)
                alone = past.replay()
                for _ in past.history.run(alone, Until(time=time)):
                    pass
                one, other = alone.record(agent, key), whole.record(agent, key)
                assert (one and one[:6]) == (other and other[:6]), (agent, key, time)
