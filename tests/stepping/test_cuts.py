"""Goal: what a stream of inputs does never depends on how it is cut into batches.

The same frames are folded as one batch (fast where possible), one event at a time, in random cuts
(also inside frames), and by workers that stop and load again in between. States, versions, timers,
actions with their ids, messages, calls, dead letters, answers, logs and the journal must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model.calls import CallFailed
from holdfast.model.event import Event
from holdfast.stepping.commit import Call
from holdfast.stepping.inputs import Inputs
from tests.stepping.rig import Bench, Row, codebook_of
from tests.stepping.scripted import (
    AGENTS,
    FLEET,
    Deferring,
    Do,
    Memory,
    Mortal,
    Nightly,
    Pausing,
    Plain,
    Planned,
    Told,
)

GOOD = ["add", "push", "take", "emit:x", "send:p-1", "draw", "log", "night", "day", "call:x"]
TIMED = [
    "after:0",
    "after:0.5",
    "after:3",
    "named:1",
    "named:2.5",
    "again:0.4",
    "every:0.7",
    "at:0",
    "at:12",
    "cancel:named",
    "cancel:every",
    "cancel:again",
]
BAD = [
    "fail",
    "exit",
    "misfit",
    "wrongaction",
    "wrongmessage",
    "wrongtimer",
    "wrongkey",
    "wrongcall",
    "nonsense",
]
WORDS = st.lists(st.sampled_from(GOOD * 3 + TIMED + BAD), min_size=1, max_size=4)
EVENTS: st.SearchStrategy[Event] = st.builds(
    Do, WORDS, st.lists(st.integers(0, 3), max_size=2)
) | st.builds(Nightly, st.sampled_from(["a", "b", "fail", "day"]))
ROWS = st.tuples(st.sampled_from(AGENTS), st.sampled_from(["p-1", "k-2"]), EVENTS)


ANSWERS = ["call:y", "fail", "add", "night", "failed", "other"]


@dataclass
class Append:
    """One frame, so many seconds after the one before; or an operator's command; or the answer to
    one of the calls that were made before, counted from the newest, perhaps not the first one."""

    rows: list[Row]
    later: float
    asks: bool = False
    command: tuple[str, ...] = ()
    answer: tuple[int, str] | None = None


FRAMES: st.SearchStrategy[list[Append]] = st.lists(
    st.builds(
        Append,
        st.lists(ROWS, min_size=1, max_size=4),
        st.sampled_from([0.0, 0.0001, 0.3, 1.0, 5.0]),
        st.booleans(),
        st.sampled_from([(), (), (), ("pause", "because"), ("resume",)]),
        st.none() | st.tuples(st.integers(0, 2), st.sampled_from(ANSWERS)),
    ),
    min_size=1,
    max_size=7,
)


def plain_frames(rows: Sequence[Sequence[Row]], later: float = 1.0) -> list[Append]:
    return [Append(list(each), later) for each in rows]


def called(agent: type[Memory], *answers: tuple[int, str]) -> list[Append]:
    """An agent that calls twice, and what comes back."""
    rows: list[Row] = [(agent, "a", Do(["call:x", "push", "call:x"]))]
    return [Append(rows, 1.0), *(Append(rows, 1.0, answer=each) for each in answers)]


def filled(frames: Sequence[Append]) -> Bench:
    """The inbox; a scout folds along, because replies need to know which calls were made."""
    bench = Bench(FLEET, codebook_of(FLEET))
    scout = Bench(FLEET, bench.codebook)
    scout.inbox = bench.inbox
    stamp = 10.0
    for frame in frames:
        stamp += frame.later
        if frame.answer is not None:
            which, kind = frame.answer
            if which < len(scout.calls):
                call = scout.calls[-1 - which]
                bench.inbox.reply(call, outcome_of(call, kind), stamp)
        elif frame.command:
            agent, key, _ = frame.rows[0]
            bench.inbox.command(agent, key, frame.command, stamp)
        else:
            bench.inbox.put(frame.rows, stamp, asks=frame.asks)
        scout.fold()
    return bench


def outcome_of(call: Call, kind: str) -> Event:
    if kind == "failed":
        return CallFailed(call.id, call.function, "timeout", "too slow", 3)
    return Told("no reply") if kind == "other" else Planned([kind])


def pieces(inputs: Sequence[Inputs], cuts: set[int]) -> list[list[Inputs]]:
    """The same inputs in batches that end before the positions in `cuts`."""
    batches: list[list[Inputs]] = [[]]
    for each in inputs:
        start = 0
        for index in range(1, len(each) + 1):
            cut = each.first + index in cuts
            if cut or index == len(each):
                batches[-1].append(each.part(start, index))
                start = index
            if cut:
                batches.append([])
    return [batch for batch in batches if batch]


def folded(frames: Sequence[Append], cuts: set[int], *, reopen: bool = False) -> Bench:
    bench = filled(frames)
    end = bench.inbox.next + 1
    for batch in pieces(bench.inbox.read(bench.codebook), {cut % end for cut in cuts}):
        bench.step(batch)
        if reopen:
            bench = bench.reopened()
    return rung_out(bench, reopen=reopen)


def rung_out(bench: Bench, *, reopen: bool = False) -> Bench:
    """Fire what is due long after; the clock jumps the same way for all."""
    for clock in (bench.stepper.head.now + 1.5, bench.stepper.head.now + 40.0):
        bench.step([], clock)
        if reopen:
            bench = bench.reopened()
    return bench


def folded_alone(frames: Sequence[Append]) -> Bench:
    """As after a crash loop: one input of any origin per commit."""
    bench = filled(frames)
    while (position := bench.stepper.head.position) < bench.inbox.next:
        waiting = [
            each.part(max(0, position - each.first), len(each))
            for each in bench.inbox.read(bench.codebook)
            if each.first + len(each) > position
        ]
        bench.commits.append(bench.stepper.step(waiting, None, alone=True))
    return rung_out(bench)


@settings(max_examples=150, deadline=None)
@given(FRAMES, st.sets(st.integers(1, 40), max_size=6))
@example(plain_frames([[(Plain, "a", Do(["take"], [1])), (Plain, "a", Do(["fail"]))]]), set())
@example(plain_frames([[(Plain, "a", Do(["emit:x"])), (Plain, "a", Do(["push"]))]]), set())
@example(plain_frames([[(Plain, "a", Do(["exit"]))]]), set())
@example(plain_frames([[(Plain, "a", Do(["after:0.5"]))], [(Plain, "a", Do(["push"]))]]), set())
@example(plain_frames([[(Plain, "a", Do(["every:0.1"]))], [(Plain, "a", Do(["push"]))]]), set())
@example(plain_frames([[(Plain, "a", Do(["wrongtimer"])), (Plain, "a", Do(["add"]))]]), set())
@example(plain_frames([[(Mortal, "a", Do(["add"]))], [(Mortal, "a", Nightly("x"))]], 5.0), set())
@example(plain_frames([[(Mortal, "a", Do(["add"]))], [(Mortal, "a", Do(["draw"]))]], 5.0), set())
@example(plain_frames([[(Deferring, "a", Nightly("x")), (Deferring, "a", Do(["night"]))]]), set())
@example(
    plain_frames([[(Pausing, "a", Do(["fail"])), (Pausing, "a", Do(["every:0.5"]))]], 3.0), set()
)
@example(
    plain_frames(
        [[(Mortal, "a", Do(["add"]))], [(Mortal, "a", Do(["add"]))], [(Plain, "a", Do(["fail"]))]],
        5.0,
    ),
    {1},
)
@example(called(Plain, (0, "call:y"), (0, "add"), (1, "add"), (0, "add")), set())
@example(called(Plain, (0, "fail"), (0, "add")), set())
@example(called(Plain, (0, "other"), (0, "failed")), set())
@example(called(Mortal, (0, "add"), (0, "add")), set())
@example(called(Deferring, (0, "failed"), (0, "night")), {1})
@example(called(Pausing, (0, "fail"), (1, "add"), (0, "add")), set())
def test_cuts_change_nothing(frames: list[Append], cuts: set[int]) -> None:
    whole = folded(frames, set()).everything()
    assert folded(frames, set(range(1, 50))).everything() == whole
    assert folded(frames, cuts).everything() == whole
    assert folded(frames, cuts, reopen=True).everything() == whole
    assert folded_alone(frames).everything() == whole
