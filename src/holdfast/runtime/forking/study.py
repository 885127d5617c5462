"""A whole study: fork, compare with production or with a fork of older code, and report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.blob.urls import open_blob
from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema
from holdfast.runtime.forking.comparing import Decision, Decisions, Difference, decisions
from holdfast.runtime.forking.fork import Forked, Generations, Options, fork_engine
from holdfast.runtime.forking.kpis import Kpi, in_order, load_kpi, measure
from holdfast.runtime.forking.leading import Lead, Leads, first_of
from holdfast.runtime.forking.report import Report, make_report
from holdfast.runtime.forking.starting import (
    BEGINNING,
    StartingPoint,
    from_snapshot,
    from_states,
    generation_at,
    newest_before,
)
from holdfast.runtime.forking.states import compare_states
from holdfast.runtime.forking.values import Values
from holdfast.runtime.forking.workshop import ACTIONS_AT_ONCE, Outcome
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.reading import IssuedAction
from holdfast.runtime.replaying.history import written
from holdfast.runtime.schemas import codebook_of
from holdfast.runtime.snapshots.store import SnapshotStore, store_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Head


@dataclass(frozen=True)
class Question:
    """What is tried on which past."""

    candidate: str
    url: str
    options: Options
    kpis: Sequence[str] = ()
    baseline: str | None = None
    snapshot: str | None = None  # to begin at
    begin: float | None = None  # or a time
    store: str | None = None  # of snapshots; None: beside the data


def study(question: Question) -> Report:
    for reference in question.kpis:
        load_kpi(reference)  # before the work begins
    if question.url.startswith("memory:"):
        raise UsageError("memory: keeps no history: give sqlite:PATH")
    fleet = load_fleet(question.candidate)
    engine = open_engine(question.url, fleet.name)
    try:
        return _Study(question, fleet, engine).report()
    finally:
        engine.close()


def _refuse_nothing(report: Report, question: Question) -> None:
    """`no difference` where nothing was compared would let any candidate pass."""
    if not report.inputs:
        raise UsageError(
            "nothing came in the time of this fork: there is nothing to compare; give an earlier "
            "--from or a later --until"
        )
    states, letters = report.states, report.dead_letters
    met = report.decisions or states.compared or states.unknown or letters.recorded or letters.fork
    if question.options.agents and not met:
        raise UsageError(
            f"--agents {question.options.agents!r}: nobody of that name has lived in the time of "
            "this fork: `holdfast state AGENT` lists who there is"
        )


class _Study:
    def __init__(self, question: Question, fleet: FleetModel, engine: Engine) -> None:
        self._question = question
        self._fleet = fleet
        self._engine = engine
        self._stored = engine.catalog.schemas()

    def report(self) -> Report:
        question = self._question
        keep = bool(question.kpis or question.baseline)
        compare = question.baseline is None
        options = replace(question.options, keep_actions=keep, compare=compare)
        ends = {n: self._engine.view(n).head() for n in Generations(self._engine).numbers()}
        self._check_times(max(head.now for head in ends.values()))
        options = replace(options, ends=ends, start=self._start())
        forked = self._fork(question.candidate, self._fleet, options)
        codebook = codebook_of(self._fleet, self._stored)
        before: Outcome | None = None
        if question.baseline is not None:
            old = load_fleet(question.baseline)
            before = self._fork(question.baseline, old, options).outcome
            _compare(before, forked.outcome, (codebook_of(old, self._stored), codebook))
        report = make_report(
            forked,
            fleet=self._fleet.name,
            candidate=question.candidate,
            compared_with=question.baseline or "production",
            partitions=len(self._engine.catalog.layout.partitions),
            kpis=self._kpis(forked, before, codebook, ends),
            leads=self._leads(forked, ends),
            start=options.start.what,
        )
        _refuse_nothing(report, question)
        return report

    def _check_times(self, now: float) -> None:
        """A fork of nothing finds no difference: whoever trusts that has to be told."""
        begin, until = self._question.begin, self._question.options.until
        if begin is not None and begin > now:
            raise UsageError(
                f"--from {written(begin)}: production has folded up to {written(now)}: "
                "give a time before that"
            )
        if begin is not None and until < begin:
            raise UsageError(f"--until {written(until)} is before --from {written(begin)}")

    def _start(self) -> StartingPoint:
        question, engine = self._question, self._engine
        if question.snapshot is None and question.begin is None:
            return BEGINNING
        blob = open_blob(store_of(question.store, question.url))
        try:
            store = SnapshotStore(blob)
            if question.snapshot is not None:
                return from_snapshot(engine, store, question.snapshot)
            assert question.begin is not None
            if question.baseline is not None:
                return self._start_with_baseline(question.baseline, question.begin)
            found = newest_before(engine, store, question.begin)
        finally:
            blob.close()
        if found is None:
            raise UsageError(
                "no snapshot is from before that time, so the states at it are not known: name the "
                "code that ran with --baseline, or leave --from out"
            )
        return found

    def _start_with_baseline(self, reference: str, at: float) -> StartingPoint:
        options = Options(until=at, jobs=self._question.options.jobs, compare=False)
        made = self._fork(reference, load_fleet(reference), options).outcome
        numbers = generation_at(self._engine, at)
        return from_states(self._engine, at, numbers, made.records, made.waiting)

    def _fork(self, reference: str, fleet: FleetModel, options: Options) -> Forked:
        return fork_engine(fleet, self._engine, options, reference, self._question.url)

    def _kpis(
        self,
        forked: Forked,
        before: Outcome | None,
        codebook: Codebook,
        ends: dict[int, Head],
    ) -> list[Kpi]:
        if not self._question.kpis:
            return []
        values = _values(codebook)

        def recorded() -> Iterator[IssuedAction]:
            if before is not None:
                return in_order(_made(before, values), self._fleet.name, codebook)
            begins = forked.begins
            parts = [
                self._recorded(n, begins[n].head if n in begins else Head(), end, forked.until)
                for n, end in ends.items()
                if n >= min(begins, default=0)
            ]
            return in_order(parts, self._fleet.name, codebook)

        def fork() -> Iterator[IssuedAction]:
            return in_order(_made(forked.outcome, values), self._fleet.name, codebook)

        return measure(self._question.kpis, recorded, fork)

    def _recorded(self, number: int, start: Head, end: Head, until: float) -> Iterator[Decision]:
        view, values = self._engine.view(number), _stored_values(self._stored)
        first = start.actions_next
        while first < end.actions_next and (batch := view.actions(first, ACTIONS_AT_ONCE)):
            for issued in batch:
                for number_of, each in enumerate(decisions(issued.frame, values), issued.first):
                    if start.actions_next <= number_of < end.actions_next and each.now <= until:
                        yield each
                first = issued.first + issued.count

    def _leads(self, forked: Forked, ends: dict[int, Head]) -> list[tuple[Difference, list[Lead]]]:
        outcome, leads = forked.outcome, Leads(self._engine, ends)
        return [
            (each, leads.of(each, outcome.missed, outcome.fresh))
            for each in first_of(outcome.examples)
        ]


def _values(codebook: Codebook) -> Values:
    return Values(lambda: dict(codebook.schemas()), codebook)


def _stored_values(stored: dict[int, Schema]) -> Values:
    return Values(lambda: stored, None)


def _made(outcome: Outcome, values: Values) -> list[list[Decision]]:
    parts: dict[int, list[Decision]] = {}
    for _, number, frame in outcome.issued:
        parts.setdefault(number, []).extend(decisions(frame, values))
    return list(parts.values())


def _compare(old: Outcome, new: Outcome, books: tuple[Codebook, Codebook]) -> None:
    """Fork with fork: `new` becomes what differs from `old`."""
    sides = (_values(books[0]), _values(books[1]))
    found = Decisions(*sides)
    found.feed(
        sorted((d for part in _made(old, sides[0]) for d in part), key=lambda d: d.now),
        sorted((d for part in _made(new, sides[1]) for d in part), key=lambda d: d.now),
    )
    found.finish()
    new.totals, new.counts, new.agents = found.totals, found.counts, found.agents
    new.times = {name: sorted(times) for name, times in found.times.items()}
    new.examples = found.examples()
    new.letters[0].extend(old.letters[1])
    new.states = compare_states(
        old.records, new.records, sides, lambda record: True, lambda record: False
    )
