"""Goal: what kernels commit is what the interpreter commits, for every supported feature, however
inputs are cut into frames and batches: states, actions, messages, timers, dead letters with their
traces, answers, calls, logs, random numbers and ids."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.stepping.compiled import agenda, kind, table
from holdfast.stepping.compiled.kind import Kernel
from tests.compiled.agents import FLEET
from tests.compiled.streams import Stream
from tests.compiled.twins import Twins, view, with_traced_rows

Kernels = Mapping[str, Kernel]


@given(r=st.randoms(use_true_random=False))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_generated_streams(kernels: Kernels, r: Random) -> None:
    stream = Stream(Twins(FLEET, kernels), r, keys=3, rows=4)
    for _ in range(4):
        stream.turn()
    stream.end()


@pytest.mark.parametrize("seed", range(12))
def test_long_streams(kernels: Kernels, seed: int) -> None:
    """Long enough for timers of timers, answers to answers and agents that come back."""
    stream = Stream(Twins(FLEET, kernels), Random(seed))
    for _ in range(20):
        stream.turn()
    stream.end()


def test_streams_meet_everything(kernels: Kernels) -> None:
    """The streams above are no good if what they compare is nothing."""
    stream = Stream(Twins(FLEET, kernels), Random(1))
    for _ in range(40):
        stream.turn()
    commits = stream.twins.plain.commits
    met = {name for each in commits for name, value in view_of(stream, each).items() if value}
    assert met >= {
        "letters",
        "records",
        "actions",
        "messages",
        "journal",
        "answers",
        "logs",
        "traced",
    }
    assert any(each.calls for each in commits)
    assert any(each.closed for each in commits)
    assert any(each.redriven for each in commits)
    assert any(each.fates for each in commits)
    assert any(each.condemned for each in commits)
    agents = {letter.agent for each in commits for letter in each.letters}
    assert agents == set(FLEET.agents)
    made = stream.twins.compiled.commits
    assert sum(each.blocks != [] for each in made) > len(made) // 3


def view_of(stream: Stream, commit: object) -> dict[str, object]:
    return view(commit, stream.twins.fleet, stream.twins.codebook)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_rooms_that_grow(kernels: Kernels, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers, queues, tables and agendas begin tiny: everything grows in the middle of batches."""
    monkeypatch.setattr(kind, "_OUTPUTS_AT_FIRST", 2)
    monkeypatch.setattr(table, "_ROWS_AT_FIRST", 2)
    monkeypatch.setattr(table, "_KEY_BYTES_AT_FIRST", 8)
    monkeypatch.setattr(agenda, "_FEW", 1)
    stream = Stream(Twins(FLEET, kernels), Random(1_000 + seed), keys=40, rows=60)
    for _ in range(8):
        stream.turn()
    stream.end()


@pytest.mark.parametrize("seed", range(6))
def test_batches_do_not_matter(kernels: Kernels, seed: int) -> None:
    """The same frames once more: event by event, in one batch, and as a script says."""
    r = Random(500 + seed)
    twins = Twins(FLEET, kernels)
    stream = Stream(twins, r)
    stream.redrives = False  # only what was committed before can be redriven
    for _ in range(8):
        stream.put()
        twins.step(1)
        stream.carry()
        while twins.waiting():
            twins.step(1)
    frames = twins.inbox.frames
    for way in ("alone", "whole", "script"):
        again = Twins(FLEET, kernels, twins.codebook)
        again.inbox = twins.inbox
        if way == "alone":
            while again.waiting():
                again.step(1, alone=True)
        elif way == "whole":
            again.step(len(frames))
        else:
            script = twins.plain.script()
            batch = [again.waiting() for _ in range(2)]
            sides = [again.plain.scripted(), again.compiled.scripted()]
            made = [
                with_traced_rows(side.repeat(own, script), side)
                for side, own in zip(sides, batch, strict=True)
            ]
            again.compare(*made)
            assert sides[0].unfired == sides[1].unfired == []
            again.plain.keep(made[0])
            again.compiled.keep(made[1])
        assert without_times(again) == without_times(twins), way


def without_times(twins: Twins) -> object:
    """All that does not depend on batches. `updated` does: it is the time of a commit."""
    states = {at: (each[0], *each[2:]) for at, each in twins.compiled.states().items()}  # type: ignore[index]
    found = [view(each, twins.fleet, twins.codebook) for each in twins.compiled.commits]
    rows = ("letters", "actions", "answers", "logs")
    outputs = [[row for each in found for row in each[name]] for name in rows]  # type: ignore[attr-defined]
    sent = [out[3] for each in found for out in sorted(each["messages"], key=str)]  # type: ignore[call-overload]
    by_pair: dict[object, list[object]] = {}
    for row, event in (each for group in sent for each in group):
        by_pair.setdefault(row[:4], []).append((row[4:], event))
    return states, outputs, by_pair, [repr(each) for each in twins.compiled.script()]
