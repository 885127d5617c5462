"""Outcomes of several workshops as one, in an order that does not tell who found what."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter

from holdfast.runtime.forking.comparing import EXAMPLES_KEPT, Difference
from holdfast.runtime.forking.states import EXAMPLES_KEPT as STATES_KEPT
from holdfast.runtime.forking.states import States
from holdfast.runtime.forking.workshop import GAPS_KEPT, Outcome


def together(parts: Sequence[Outcome]) -> Outcome:
    whole = Outcome()
    for part in parts:
        whole.inputs += part.inputs
        whole.messages += part.messages
        whole.firings += part.firings
        whole.missed_count += part.missed_count
        whole.fresh_count += part.fresh_count
        for name, totals in part.totals.items():
            mine = whole.totals.setdefault(name, [0, 0])
            mine[0] += totals[0]
            mine[1] += totals[1]
        for name, counts in part.counts.items():
            kinds = whole.counts.setdefault(name, {})
            for kind, count in counts.items():
                kinds[kind] = kinds.get(kind, 0) + count
        whole.agents.update(part.agents)
        for name, times in part.times.items():
            whole.times.setdefault(name, []).extend(times)
        for side in (0, 1):
            whole.letters[side].extend(part.letters[side])
        for asked, count in part.unanswered.items():
            whole.unanswered[asked] = whole.unanswered.get(asked, 0) + count
        whole.examples += part.examples
        whole.missed += part.missed
        whole.fresh += part.fresh
        whole.issued += part.issued
        whole.records += part.records
    _sort(whole)
    whole.states = _states([part.states for part in parts])
    return whole


def _sort(whole: Outcome) -> None:
    whole.totals = dict(sorted(whole.totals.items()))
    whole.counts = {name: dict(sorted(c.items())) for name, c in sorted(whole.counts.items())}
    whole.agents = {name: dict(sorted(c.items())) for name, c in sorted(whole.agents.items())}
    whole.times = {name: sorted(times) for name, times in sorted(whole.times.items())}
    for letters in whole.letters:
        letters.sort(key=attrgetter("now", "agent", "key", "event", "error"))
    whole.examples = _first_of_each(whole.examples)
    for gaps in (whole.missed, whole.fresh):
        gaps.sort(key=attrgetter("now", "agent", "key", "what"))
        del gaps[GAPS_KEPT:]
    whole.issued.sort(key=itemgetter(1))  # in their order within a partition
    whole.unanswered = dict(sorted(whole.unanswered.items()))
    whole.records.sort(key=attrgetter("agent", "key"))


def _first_of_each(found: list[Difference]) -> list[Difference]:
    found.sort(key=attrgetter("now", "agent", "key", "name", "kind"))
    seen: dict[tuple[str, str], int] = {}
    kept = []
    for each in found:
        at = (each.name, each.kind)
        seen[at] = seen.get(at, 0) + 1
        if seen[at] <= EXAMPLES_KEPT:
            kept.append(each)
    return kept


def _states(parts: Sequence[States]) -> States:
    fields: dict[str, int] = {}
    for part in parts:
        for name, count in part.fields.items():
            fields[name] = fields.get(name, 0) + count
    examples = sorted(
        (each for part in parts for each in part.examples), key=attrgetter("agent", "key", "field")
    )
    return States(
        sum(part.compared for part in parts),
        sum(part.unknown for part in parts),
        sorted(agent for part in parts for agent in part.agents),
        dict(sorted(fields.items())),
        sorted({name for part in parts for name in part.new_fields}),
        examples[:STATES_KEPT],
    )
