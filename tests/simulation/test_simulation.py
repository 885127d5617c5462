"""Goal: the real worker, relay, supervisor and rescale keep every promise under every seed; and the
simulation itself is deterministic, faulty enough, and small enough to be read when it fails.

The seeds are fixed: `make soak` runs others.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from holdfast.runtime.live import Live
from holdfast.testing import simulate
from holdfast.testing.simulation.campaign import Campaign, PromiseBroken, Tally, judged
from holdfast.testing.simulation.contract.overtaking import in_order_of_folding
from holdfast.testing.simulation.decoding import inputs_of
from holdfast.testing.simulation.faults import Fault, Restriction
from holdfast.testing.simulation.history import History
from holdfast.testing.simulation.run import Run, run
from tests.simulation import fleet_v1, fleet_v2
from tests.simulation.broken import BROKEN, outbox_is_not_loaded
from tests.simulation.variants import SEEDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PROGRAMS = [fleet_v1.fleet, fleet_v2.fleet]
CORES = 2
SOME = range(36, 60)


@pytest.fixture(scope="module")
def tally() -> Tally:
    """All seeds once, on two cores."""
    total = Tally()
    for part in Campaign(PROGRAMS, CORES).tallies(0, SEEDS, None):
        total.merge(part)
    return total


@pytest.fixture(scope="module")
def some() -> dict[int, Run]:
    """Runs to look into."""
    return {seed: run(PROGRAMS, seed) for seed in SOME}


def test_every_promise_holds_under_every_seed(tally: Tally) -> None:
    assert tally.seeds == SEEDS
    assert tally.failing == [], (
        "holdfast simulate tests/simulation/fleet_v1.py --upgrade … --seed N"
    )


def test_every_kind_of_fault_strikes(tally: Tally) -> None:
    rare = {fault: tally.faults[fault] for fault in Fault if tally.faults[fault] < 20}
    assert rare == {}


def test_the_seeds_are_those_that_catch_mistakes() -> None:
    assert max(variant.seed for variant in BROKEN) < SEEDS


def test_runs_do_much(tally: Tally) -> None:
    """A simulation in which little happens holds every promise too."""
    assert tally.events > 50 * SEEDS
    assert tally.commits > 20 * SEEDS


def test_calls_end_in_every_way(some: dict[int, Run]) -> None:
    """Functions return, fail, take too long, die, and are left alone by a breaker; replies come
    twice and are dropped; open calls move to new partitions."""
    seen = Counter[str]()
    for evidence in (each.evidence for each in some.values()):
        logs = [log for generation in evidence.generations for log in generation]
        seen["inherited"] += sum(len(log.calls) for log in logs)
        seen["closed"] += sum(len(a.commit.closed) for log in logs for a in log.commits)
        for one in (one for log in logs for frame in log.frames for one in inputs_of(frame)):
            if one.answers is not None:
                failed = evidence.schemas[one.raw[0]].name == "CallFailed"
                seen[msgspec.msgpack.decode(one.raw[1])[2] if failed else "returned"] += 1
                seen["came"] += 1
    ways = ("returned", "error", "timeout", "died", "circuit-open", "inherited")
    assert [way for way in ways if seen[way] < 3] == []
    assert seen["came"] - seen["closed"] > 50


def test_urgent_events_overtake_others(some: dict[int, Run]) -> None:
    """From numbered and ordered sources, as questions and as commands; what they overtake is
    folded behind them, though it came first."""
    seen = Counter[str]()
    for each in some.values():
        for partition in History(each.evidence).partitions:
            now = 0.0
            for urgent, one in in_order_of_folding(partition):
                if urgent:
                    kind = "asked" if one.asks else str(one.source or one.origin).partition("-")[0]
                    seen[kind] += 1
                seen["overtaken"] += one.stamp < now
                now = max(now, one.stamp)
    ways = ("device", "logbook", "asked", "control")
    assert [way for way in ways if seen[way] < 5] == [], seen
    assert seen["overtaken"] > 200


def test_a_seed_gives_the_same_trace_in_another_process(some: dict[int, Run]) -> None:
    """Other hash seeds, other addresses, another past: the same run to the last commit."""
    seeds = SOME[:12]
    script = (
        "from tests.simulation import fleet_v1, fleet_v2\n"
        "from holdfast.testing.simulation.run import run\n"
        f"for seed in {list(reversed(seeds))}:\n"
        "    print(seed, run([fleet_v1.fleet, fleet_v2.fleet], seed).trace_hash)\n"
    )
    told = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        told.append(done.stdout.decode().split())
    assert told[0] == told[1]
    here = {seed: some[seed].trace_hash for seed in seeds}
    assert here == dict(zip(map(int, told[0][::2]), told[0][1::2], strict=True))
    assert len(set(here.values())) == len(seeds), "different seeds are different runs"


def test_a_smaller_run_leaves_out_what_it_is_told() -> None:
    """What the minimiser relies on."""
    whole = run(PROGRAMS, 18)
    kinds = Counter(fault for fault, _ in whole.struck)
    most = kinds.most_common(1)[0][0]
    smaller = run(PROGRAMS, 18, Restriction(without=frozenset({most})))
    assert most not in {fault for fault, _ in smaller.struck}
    assert run(PROGRAMS, 18, Restriction(operations_max=5)).operations == 5
    skipped = frozenset(whole.struck[:3])
    assert not skipped & set(run(PROGRAMS, 18, Restriction(skipped=skipped)).struck)


def test_a_broken_promise_is_told_in_one_command_and_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outbox_is_not_loaded(monkeypatch)
    with pytest.raises(PromiseBroken) as raised:
        simulate(fleet_v1.fleet, 200, command="holdfast simulate fleet.py")
    text = str(raised.value)
    lines = text.splitlines()
    seed = int(lines[0].split()[1])
    assert lines[0].endswith(f"holdfast simulate fleet.py --seed {seed}")
    assert "everything settles" in lines[1]
    assert len(lines) < 80
    operations = next(line for line in lines if "operations" in line)
    assert int(operations.split(": ")[1].split()[0]) < 60
    # The same seed breaks it again, and without the mistake it does not.
    assert judged([fleet_v1.fleet], seed)[1]
    monkeypatch.undo()
    assert judged([fleet_v1.fleet], seed)[1] == []


def test_a_run_that_raises_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one process and on several: the seed is named, and none is left out."""

    def ask(*arguments: object, **named: object) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(Live, "ask", ask)
    for jobs in (1, 2):
        total = Tally()
        for part in Campaign(PROGRAMS, jobs).tallies(0, 12, None):
            total.merge(part)
        assert total.seeds == 12
        assert total.failing == sorted(total.crashed) != []
        assert "a mistake of ours" in next(iter(total.crashed.values()))
