"""One run: a fleet on Kafka under a plan of faults, then everything compared with the oracle.

    python -m tests.kafka.chaos --minutes 10 --seed 7

runs with one seed after the other, and says how to repeat what failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast import HoldfastError, Live
from tests.kafka.faults import MIXED, Fault, carry_out, plan
from tests.kafka.ledger import Claim, Ledger
from tests.kafka.place import Place, place
from tests.kafka.verdict import told, verdict
from tests.kills import evidence, swarm
from tests.kills.oracle import Oracle
from tests.kills.script import Row

FAULTS = 24
SETTLE_SECONDS = 120.0


@dataclass
class Result:
    seed: int
    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    worker_ends: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    claims: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        by_themselves = f", by themselves ended {dict(self.ends)}" if self.ends else ""
        return (
            f"seed {self.seed}: {self.events} events, {self.faults.total()} faults ({kinds}), "
            f"{self.claims} claims, workers ended {dict(self.worker_ends)}, {self.looks} looks, "
            f"{self.seconds:.0f} s{by_themselves}"
        )


def run(seed: int, faults: Sequence[Fault], brokers: int, disk_bytes: int | None = None) -> Result:
    """Raises AssertionError with the seed and the plan in it."""
    result = Result(seed)
    start = time.monotonic()
    try:
        with place(seed, brokers, disk_bytes) as here:
            here.begin()
            wait_for_events(here, 200)
            for fault in faults:
                time.sleep(fault.after_seconds)
                here.tend()
                here.mark(str(fault))
                carry_out(fault, here)
                result.faults[fault.kind] += 1
            here.mark("that was all")
            sent = here.calm()
            result.events = sum(map(len, sent.values()))
            result.ends = here.ends
            result.claims = claims_in(compared(here, sent))
            result.worker_ends = here.worker_ends()
            result.looks = here.log("onlooker").count("looked\n")
            surprises = here.surprises()
            assert not surprises, told(surprises)
    except (AssertionError, HoldfastError) as wrong:
        done = f"{result.faults.total()} of {[str(fault) for fault in faults]}"
        raise AssertionError(f"seed {seed}, {brokers} brokers, {done}:\n{wrong}") from wrong
    result.seconds = time.monotonic() - start
    return result


def wait_for_events(here: Place, count: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while here.acknowledged() < count:
        assert time.monotonic() < deadline, f"only {here.acknowledged()} of {count} events are sent"
        here.tend()
        time.sleep(0.1)


def compared(here: Place, sent: dict[str, list[Row]]) -> Ledger:
    """1 all states, 2 what else the fleet tells, 3 the topics themselves."""
    oracle = Oracle(sent)
    with swarm.fleet.connect(here.reading_url) as live:
        try:
            settle(here, live, oracle)
        except (AssertionError, HoldfastError) as wrong:
            raise AssertionError(f"{wrong}\n{here.groups()}") from wrong
        keys = [f"d-{i}" for i in range(0, swarm.DRONES, 5)]
        found = [
            *evidence.wrong_letters(live, oracle),
            *evidence.wrong_actions(live, oracle),
            *evidence.wrong_histories(live, sent, keys),
        ]
    ledger = here.ledger()
    if lines := verdict(ledger, oracle, sent):
        same = verdict(here.ledger(), oracle, sent) == lines
        found += [*lines, f"read once more, the topics say {'the same' if same else 'otherwise'}"]
    assert not found, told(found)
    return ledger


def claims_in(ledger: Ledger) -> int:
    return sum(isinstance(each, Claim) for log in ledger.changelogs.values() for each in log)


def settle(here: Place, live: Live, oracle: Oracle) -> None:
    """Until the states are as they must be; then once more, for what comes twice."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        here.tend()
        live.settle(timeout=SETTLE_SECONDS)
        wrong = evidence.wrong_states(live, oracle)
        if not wrong:
            break
        assert time.monotonic() < deadline, told(wrong)
        time.sleep(0.2)
    time.sleep(1.0)  # longer than any timer that could still ring a second time
    live.settle(timeout=SETTLE_SECONDS)
    wrong = evidence.wrong_states(live, oracle)
    assert not wrong, told(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults on a fleet on Kafka, by random seeds.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first run")
    parser.add_argument("--faults", type=int, default=FAULTS, help="of each run")
    parser.add_argument("--brokers", type=int, default=3)
    given = parser.parse_args()
    deadline = time.monotonic() + 60.0 * given.minutes
    seed, total = given.seed, Result(given.seed)
    while seed == given.seed or time.monotonic() < deadline:
        try:
            result = run(seed, plan(seed, MIXED, given.faults), given.brokers)
        except AssertionError as wrong:
            print(f"FAILED: {wrong}\nrepeat: python -m tests.kafka.chaos --minutes 0 --seed {seed}")
            sys.exit(1)
        print(result, flush=True)
        total.events += result.events
        total.faults += result.faults
        seed += 1
    kinds = "\n".join(f"  {count:5d} {kind}" for kind, count in total.faults.most_common())
    print(
        f"{seed - given.seed} runs from seed {given.seed}: {total.events} events, "
        f"{total.faults.total()} faults, nothing lost, doubled or out of order\n{kinds}"
    )


if __name__ == "__main__":
    main()
