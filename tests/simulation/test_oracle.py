"""Goal: the oracle agrees with the real code on good runs, and names every promise that is broken.

The runs are the real worker and handles on the memory engine, in made-up time, under crashes, wrong
clocks, zombies, upgrades and rescales. Then their evidence is spoiled in every way we could think
of, and the promises that this breaks must be reported.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast.testing.simulation as simulation
from holdfast.model.context import HOPS_MAX
from holdfast.testing.simulation.contract.overtaking import is_overtaking
from holdfast.testing.simulation.contract.report import FINDINGS_PER_PROMISE
from holdfast.testing.simulation.decoding import Fired, Input, extras_of, fired_of, inputs_of
from holdfast.testing.simulation.evidence import Evidence
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.retelling import CONDEMNED
from holdfast.testing.simulation.verdict import judge
from tests.simulation import tampers_calls, tampers_inputs, tampers_lane, tampers_outputs
from tests.simulation.runs import Run, random_run, rich_run
from tests.simulation.tampering import TAMPERS, Case, NothingToSpoil, Tamper

BATCHES = 8
RUNS_PER_BATCH = 10
# Importing them fills TAMPERS.
SPOILED = [tampers_calls, tampers_inputs, tampers_lane, tampers_outputs]

# The product's own fold, which the reference must not lean on.
PRODUCT = {"stepper", "fast", "careful", "cell", "agenda", "outputs", "records"}


@cache
def good_run(seed: int) -> Evidence:
    return random_run(seed, steps=70)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_found_in_good_runs(batch: int) -> None:
    for seed in range(batch * RUNS_PER_BATCH, (batch + 1) * RUNS_PER_BATCH):
        assert judge(good_run(seed)) == [], f"seed {seed}"


def inputs_in(evidence: Evidence) -> Iterator[Input]:
    logs = (each for generation in evidence.generations for each in generation)
    return (one for log in logs for f in (*log.frames, *log.lane) for one in inputs_of(f))


def seen_in(evidence: Evidence) -> Counter[str]:
    """How often each thing that may happen did."""
    seen = Counter[str]()
    seen["rescale"] += len(evidence.generations) - 1
    seen.update(f"send {send.outcome}" for send in evidence.sends)
    seen.update("answered" for ask in evidence.asks if ask.reply is not None)
    seen.update("read after a receipt" for read in evidence.reads if read.after is not None)
    replies = [one.answers for one in inputs_in(evidence) if one.answers is not None]
    seen["call answered twice"] += len(replies) - len(set(replies))
    seen.update("page" for page in evidence.pages if page.ids)
    for log in (each for generation in evidence.generations for each in generation):
        seen["inherited call"] += len(log.calls)
        for frame in log.frames:
            inputs = inputs_of(frame)
            seen.update(one.origin for one in inputs)
            seen["message at the bound of hops"] += sum(one.hops == HOPS_MAX for one in inputs)
        seen["cut frame"] += sum(
            frame.first < accepted.commit.head.position < frame.first + frame.count
            for frame in log.frames
            for accepted in log.commits
        )
        seen["epoch"] += len({accepted.epoch for accepted in log.commits})
        for accepted in log.commits:
            commit = accepted.commit
            seen[f"release {accepted.program}"] += 1
            seen["redriven"] += len(commit.redriven)
            seen.update(f"answer {answer.status}" for answer in commit.answers)
            seen.update(letter.error.partition(":")[0] for letter in commit.letters)
            seen.update(_kind(fired) for fired in fired_of(commit))
            extras = [extras_of(record.extras) for record in commit.records]
            seen.update(each.paused for each in extras)
            seen["held"] += sum(bool(each.held) for each in extras)
            seen["call"] += len(commit.calls)
            seen["closed call"] += len(commit.closed)
    return seen


def _kind(fired: Fired) -> str:
    if is_overtaking(fired):
        return "urgent"
    return "expiry" if fired.raw is None else "timer"


def test_the_good_runs_have_everything_in_them() -> None:
    runs = map(good_run, range(BATCHES * RUNS_PER_BATCH))
    seen = sum(map(seen_in, runs), Counter[str]())
    expected = [
        *("send acknowledged", "send unknown", "send refused", "rescale", "release 0", "release 1"),
        *("answered", "reply", "call", "closed call", "call answered twice", "inherited call"),
        *("read after a receipt", "page", "external", "message", "control", "cut frame"),
        *("answer reply", "answer silent", "answer failed", "redriven", "expiry", "timer", "held"),
        "urgent",
        *(
            "ValueError",
            "UsageError",
            "LookupError",
            "RuntimeError",
            "tea",
            "ValueError: -4 kilograms",
        ),
        *("no handler of Charger takes Level now", CONDEMNED),
    ]
    assert [each for each in expected if seen[each] < 3] == []
    assert seen["epoch"] > 200
    assert seen["message at the bound of hops"] > 0


RICH_SEEDS = (18, 20, 0)


@cache
def richest(seed: int = RICH_SEEDS[0]) -> Evidence:
    return rich_run(seed)


@pytest.mark.planted("oracle of the simulator")
@pytest.mark.parametrize("tamper", TAMPERS, ids=[each.name for each in TAMPERS])
def test_spoiled_evidence_is_found(tamper: Tamper) -> None:
    """In the first rich run that has what it takes; there, and under no other promise if it says
    so. What is spoiled may show elsewhere in one run and not in another."""
    told = "no rich run has anything to spoil"
    for seed in RICH_SEEDS:
        case = Case(richest(seed))
        try:
            tamper.spoil(case)
        except (NothingToSpoil, StopIteration):
            continue
        findings = judge(case.evidence)
        found = {each.promise for each in findings}
        told = "\n".join(map(str, findings))
        assert tamper.broken <= found, told
        if found == tamper.broken or not tamper.alone:
            return
    pytest.fail(told)


def test_every_promise_is_spoiled_and_the_good_run_is_good() -> None:
    assert {promise for tamper in TAMPERS for promise in tamper.broken} == set(Promise)
    assert judge(richest()) == [], "a tamper has spoiled more than its copy"


def test_findings_are_few_and_always_the_same() -> None:
    def spoiled() -> Evidence:
        case = Case(richest())
        case.evidence.sends.clear()
        return case.evidence

    findings = judge(spoiled())
    assert [each.promise for each in findings] == [Promise.ONCE] * FINDINGS_PER_PROMISE
    assert findings == judge(spoiled())


def test_what_still_waits_is_not_lost() -> None:
    for seed in range(10):
        run = Run(seed, trouble=0.1)
        for _ in range(60):
            run.step()
        findings = judge(run.cut_off())
        assert [each.promise for each in findings] == [Promise.SETTLES], f"seed {seed}: {findings}"


def test_the_reference_shares_nothing_with_the_stepper() -> None:
    folder = Path(simulation.__file__).parent
    judging = [folder / f"{name}.py" for name in ("decoding", "history", "plainagent", "verdict")]
    judging += [folder / f"{name}.py" for name in ("plaincontext", "reference", "retelling")]
    for file in [*judging, *sorted((folder / "contract").glob("*.py"))]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            parts = (module or "").split(".")
            shared = parts[1:2] == ["stepping"] and parts[2] in PRODUCT
            assert not shared, f"{file.name} imports {module}"
