"""The report of a fork as plain data: what the terminal, the JSON file and the page show.

`docs/time.md` documents the shape. Times are seconds since 1970, counts are of decisions (actions)
unless the name says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from holdfast.runtime.forking.comparing import KINDS, Difference
from holdfast.runtime.forking.fork import Forked
from holdfast.runtime.forking.kpis import Kpi
from holdfast.runtime.forking.leading import Lead
from holdfast.runtime.forking.workshop import LetterNote, Outcome

AGENTS_LISTED = 100
EXAMPLES_LISTED = 50
BUCKETS = 60


class ActionRow(msgspec.Struct):
    """One class of actions, or with an agent's name one agent."""

    name: str
    recorded: int = 0
    fork: int = 0
    missing: int = 0
    new: int = 0
    changed: int = 0
    moved: int = 0

    @property
    def different(self) -> int:
        return self.missing + self.new + self.changed + self.moved


class FirstDifference(msgspec.Struct):
    kind: str
    action: str
    agent: str
    time: float
    recorded: dict[str, object] | None
    fork: dict[str, object] | None
    moved_by: float
    led_by: list[Lead] = []


def moved_text(seconds: float) -> str:
    return f"{abs(seconds):.3f} s {'earlier' if seconds < 0.0 else 'later'}"


class StateRow(msgspec.Struct):
    agent: str
    field: str
    recorded: object
    fork: object


class StatesPart(msgspec.Struct):
    compared: int
    unknown: int
    differing: int
    fields: dict[str, int]
    new_fields: list[str]
    examples: list[StateRow]


class LetterRow(msgspec.Struct):
    agent: str
    event: str
    time: float
    error: str


class LettersPart(msgspec.Struct):
    recorded: int
    fork: int
    only_recorded: int
    only_fork: int
    examples_recorded: list[LetterRow]
    examples_fork: list[LetterRow]


class InputsPart(msgspec.Struct):
    """Messages, timers and expiries that only one of the two had."""

    only_recorded: int
    only_fork: int
    by_kind_recorded: dict[str, int]
    by_kind_fork: dict[str, int]


class CallRow(msgspec.Struct):
    function: str
    agent: str
    arguments: object
    count: int


class OverTime(msgspec.Struct):
    since: float
    bucket_seconds: float
    counts: dict[str, list[int]]


class Report(msgspec.Struct):
    fleet: str
    candidate: str
    compared_with: str  # "production", or the file of --baseline
    start: str  # as in "snapshot before-upgrade"
    since: float
    until: float
    inputs: int
    messages: int
    firings: int
    partitions: int
    jobs: int
    seconds: float
    inputs_per_second: float
    decisions: int
    different: int
    percent: float
    actions: list[ActionRow]
    agents_differing: int
    agents: list[ActionRow]
    first_differences: list[FirstDifference]
    states: StatesPart
    dead_letters: LettersPart
    messages_and_timers: InputsPart
    calls_unanswered: list[CallRow]
    kpis: list[Kpi]
    over_time: OverTime


def make_report(
    forked: Forked,
    *,
    fleet: str,
    candidate: str,
    compared_with: str,
    partitions: int,
    kpis: Sequence[Kpi],
    leads: Sequence[tuple[Difference, list[Lead]]],
    start: str,
) -> Report:
    outcome = forked.outcome
    actions = _actions(outcome)
    different = sum(row.different for row in actions)
    decisions = sum(row.recorded for row in actions)
    return Report(
        fleet=fleet,
        candidate=candidate,
        compared_with=compared_with,
        start=start,
        since=forked.since,
        until=forked.until,
        inputs=outcome.inputs,
        messages=outcome.messages,
        firings=outcome.firings,
        partitions=partitions,
        jobs=forked.jobs,
        seconds=forked.seconds,
        inputs_per_second=outcome.inputs / max(forked.seconds, 1e-9),
        decisions=decisions,
        different=different,
        percent=100.0 * different / max(1, decisions),
        actions=actions,
        agents_differing=len(outcome.agents),
        agents=_agents(outcome),
        first_differences=[_first(each, led) for each, led in leads],
        states=_states(outcome),
        dead_letters=_letters(outcome),
        messages_and_timers=_inputs(outcome),
        calls_unanswered=_calls(outcome),
        kpis=list(kpis),
        over_time=_over_time(outcome, forked),
    )


def _actions(outcome: Outcome) -> list[ActionRow]:
    rows = []
    for name, (recorded, fork) in outcome.totals.items():
        counts = {kind: outcome.counts.get(name, {}).get(kind, 0) for kind in KINDS}
        rows.append(ActionRow(name, recorded, fork, **counts))
    return sorted(rows, key=lambda row: (-row.different, row.name))


def _agents(outcome: Outcome) -> list[ActionRow]:
    rows = [
        ActionRow(f"{agent}/{key}", **{kind: counts.get(kind, 0) for kind in KINDS})
        for (agent, key), counts in outcome.agents.items()
    ]
    return sorted(rows, key=lambda row: (-row.different, row.name))[:AGENTS_LISTED]


def _first(each: Difference, led: list[Lead]) -> FirstDifference:
    who = f"{each.agent}/{each.key}"
    return FirstDifference(
        each.kind, each.name, who, each.now, each.recorded, each.fork, each.moved_by, led
    )


def _states(outcome: Outcome) -> StatesPart:
    states = outcome.states
    return StatesPart(
        states.compared,
        states.unknown,
        len(states.agents),
        states.fields,
        states.new_fields,
        [
            StateRow(f"{e.agent}/{e.key}", e.field, e.recorded, e.fork)
            for e in states.examples[:EXAMPLES_LISTED]
        ],
    )


def _letters(outcome: Outcome) -> LettersPart:
    recorded, fork = outcome.letters
    ours, theirs = Counter(map(_letter_key, recorded)), Counter(map(_letter_key, fork))
    lost, gained = ours - theirs, theirs - ours
    return LettersPart(
        len(recorded),
        len(fork),
        lost.total(),
        gained.total(),
        _letter_rows(recorded, lost),
        _letter_rows(fork, gained),
    )


def _letter_key(letter: LetterNote) -> tuple[str, str, str, float, str]:
    return (letter.agent, letter.key, letter.event, letter.now, letter.error)


def _letter_rows(
    letters: Sequence[LetterNote], wanted: Counter[tuple[str, str, str, float, str]]
) -> list[LetterRow]:
    found = [each for each in letters if _letter_key(each) in wanted][:EXAMPLES_LISTED]
    return [LetterRow(f"{e.agent}/{e.key}", e.event, e.now, e.error) for e in found]


def _calls(outcome: Outcome) -> list[CallRow]:
    rows = [
        CallRow(function, f"{agent}/{key}", msgspec.msgpack.decode(arguments), count)
        for (function, agent, key, arguments), count in outcome.unanswered.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.function, row.agent))[:AGENTS_LISTED]


def _inputs(outcome: Outcome) -> InputsPart:
    def kinds(gaps: Sequence[object]) -> dict[str, int]:
        return dict(sorted(Counter(str(gap[2]).partition(" ")[0] for gap in gaps).items()))  # type: ignore[index]

    return InputsPart(
        outcome.missed_count, outcome.fresh_count, kinds(outcome.missed), kinds(outcome.fresh)
    )


def _over_time(outcome: Outcome, forked: Forked) -> OverTime:
    since, until = forked.since, max(forked.until, forked.since)
    width = max((until - since) / BUCKETS, 1e-3)
    counts: dict[str, list[int]] = {}
    for name, times in outcome.times.items():
        row = counts[name] = [0] * BUCKETS
        for at in times:
            row[min(BUCKETS - 1, max(0, int((at - since) / width)))] += 1
    return OverTime(since, width, counts)
