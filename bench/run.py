"""`make bench`: every contender, every workload, one after the other; then the report.

    python -m bench.run [--quick] [--seconds N] [--only NAME] [--part PART] [--workload NAME]
                        [--add] [--publish]

Nothing else should run on the machine. Results go to bench-data/results.json after each run, so an
interrupted benchmark is not lost; with --publish they also go into docs/BENCHMARKS.md and docs/img.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import workloads
from bench.contenders import everybody
from bench.contenders.base import Contender
from bench.instructions import instructions, keep
from bench.on_off import on_off
from bench.report import publish
from bench.results import Result, Unavailable, machine, without_places
from bench.workloads import QUICK_SECONDS, SECONDS, Workload

PARTS = ("throughput", "sends", "latency", "slow-sync", "growth", "on-off", "instructions")
# What a quick run leaves out: instructions, which take longer than all the rest, and the table of
# what is on and off, which says nothing in so short a time.
QUICK_SIZE, QUICK_RATE, QUICK_PARTS = 10_000, 10_000, PARTS[:-2]
QUICK_SENDS = ("send-256", "kill")
OUT = Path("bench-data/results.json")
COMPILED, FLINK = "Holdfast compiled", "Flink Java, heap"


class Bench:
    def __init__(
        self, folder: Path, out: Path, quick: bool, only: Sequence[str], seconds: float | None
    ) -> None:
        self._folder, self._out, self._quick = folder, out, quick
        self.workloads: Sequence[str] = ()  # only these, if any are named
        quick_or_not = dict.fromkeys(SECONDS, QUICK_SECONDS) if quick else SECONDS
        self.seconds = dict.fromkeys(SECONDS, seconds) if seconds else quick_or_not
        self.document: dict[str, Any] = {
            "quick": quick,
            "seconds": {},
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(folder),
            "guarantees": {each.name: each.guarantees.__dict__ for each in everybody()},
            "missing": {},
            "results": [],
        }
        self.ours, self.peers = self._prepare(only)
        # A quick run looks at one of ours and at the strongest peer where one is enough.
        self._few = [each for each in self.ours if each.name == COMPILED] if quick else self.ours
        self._rivals = [each for each in self.peers if each.name == FLINK] if quick else self.peers
        self.say(f"a sync of this disk takes {self.document['machine']['sync_ms']} ms")

    @staticmethod
    def say(line: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)

    def _prepare(self, only: Sequence[str]) -> tuple[list[Contender], list[Contender]]:
        """Who can run. Who cannot is in the result with the reason."""
        ready: list[Contender] = []
        for contender in everybody():
            if only and not any(word.lower() in contender.name.lower() for word in only):
                self.document["missing"][contender.name] = "left out by --only"
                continue
            self.say(f"preparing {contender.name}")
            try:
                contender.prepare()
            except Unavailable as why:
                self.document["missing"][contender.name] = without_places(str(why))
                self.say(f"{contender.name}: {why}")
            else:
                ready.append(contender)
        ours = [each for each in ready if each.name.startswith("Holdfast")]
        return ours, [each for each in ready if each not in ours]

    def run(self, contender: Contender, workload: Workload, settings: Sequence[str] = ()) -> None:
        if contender.refuses(workload) or workload.name not in (self.workloads or [workload.name]):
            return
        for setting in settings or contender.settings():
            slow = ", slow syncs" if workload.slow_sync else ""
            self.say(f"{contender.name}, {setting}: {workload.name}{slow}")
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            try:
                result = contender.run(workload, setting, folder)
            except Exception as error:
                why = without_places(f"{type(error).__name__}: {error}")
                result = Result(contender.name, workload.name, setting, missing=why)
                result = replace(result, slow_sync=workload.slow_sync)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            self._keep(result)

    def _keep(self, result: Result) -> None:
        verdict = "as the oracle says" if not result.wrong else f"WRONG: {'; '.join(result.wrong)}"
        told = result.missing or f"{result.per_second:,.0f} events/s, {verdict}"
        latency = result.figures.get("latency") or result.figures.get("arrival") or {}
        p99 = f", p99 {latency['p99_ms']:.1f} ms" if "p99_ms" in latency else ""
        self.say(f"  {told}{p99}")
        results = self.document["results"]
        results[:] = [each for each in results if not same_run(each, result)]
        results.append(result.as_json())
        self.save()

    def save(self) -> None:
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._out.write_text(json.dumps(self.document, indent=1))

    def best_setting(self, contender: Contender) -> Sequence[str]:
        """That of the best base run: whatever else is measured, is measured with it."""
        runs = [
            Result.from_json(fields)
            for fields in self.document["results"]
            if fields["contender"] == contender.name and fields["workload"] == "base"
        ]
        runs = [run for run in runs if not run.missing and not run.slow_sync]
        if not runs:
            return contender.settings()[:1]
        return [max(runs, key=lambda run: run.per_second).setting]

    def take_up(self, earlier: Path) -> None:
        """Go on with what an earlier run has measured; what is measured again replaces it."""
        before = json.loads(earlier.read_text())
        measured = {fields["contender"] for fields in before["results"]}
        left_out = self.document["missing"].items()
        before["missing"] = {name: why for name, why in left_out if name not in measured}
        self.document = before

    # The parts. A quick run has only one setting of each, and fewer contenders.

    def throughput(self) -> None:
        seconds = self.seconds["throughput"]
        base, *others = workloads.throughput(seconds, seconds / 4)
        for contender in (*self.ours, *self.peers):
            self.run(contender, base, contender.settings()[:1] if self._quick else ())
        for workload in others:
            for contender in (*self._few, *([] if self._quick else self.peers)):
                self.run(contender, workload, self.best_setting(contender))

    def sends(self) -> None:
        for workload in workloads.sends(self.seconds["sends"]):
            if not self._quick or workload.name in QUICK_SENDS:
                for contender in self._few:
                    self.run(contender, workload, self.best_setting(contender))

    def latency(self) -> None:
        for workload in workloads.latency(self.seconds["latency"]):
            if not self._quick or workload.rate == QUICK_RATE:
                for contender in (*self.ours, *self._rivals):
                    self.run(contender, workload, contender.settings()[:1])

    def slow_sync(self) -> None:
        seconds = self.seconds["slow-sync"]
        base = workloads.throughput(seconds, seconds / 4)[0]
        latency = [] if self._quick else workloads.latency(seconds)
        for workload in (base, *latency):
            for contender in (*self._few, *([] if self._quick else self.peers)):
                self.run(contender, replace(workload, slow_sync=True), contender.settings()[:1])

    def growth(self) -> None:
        sizes = (QUICK_SIZE,) if self._quick else workloads.SIZES
        for workload in workloads.growth(self.seconds["growth"], sizes):
            for contender in (*self._few, *([] if self._quick else self.peers)):
                # What is best for 5,000 agents need not be best for a million.
                settings = self.best_setting(contender) if self._quick else contender.settings()
                self.run(contender, workload, settings)

    def on_off(self) -> None:
        self.document["on_off"] = on_off(self._folder, self.seconds["on-off"], self.say)
        self.save()

    def instructions(self) -> None:
        self.document["instructions"] = instructions(self._folder, self.say)
        self.save()


def same_run(fields: dict[str, Any], result: Result) -> bool:
    names = ("contender", "workload", "setting", "slow_sync")
    return all(fields[name] == getattr(result, name) for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, help="of a run; else by part")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--part", action="append", default=[], choices=PARTS)
    parser.add_argument("--workload", action="append", default=[], metavar="NAME")
    parser.add_argument("--folder", type=Path, default=Path("bench-data"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--add", action="store_true", help="to the results that are there")
    parser.add_argument("--publish", action="store_true", help="into docs/, as measured now")
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=wanted.folder.resolve()) as folder:
        bench = Bench(Path(folder), wanted.out, wanted.quick, wanted.only, wanted.seconds)
        bench.workloads = wanted.workload
        if wanted.add and wanted.out.exists():
            bench.take_up(wanted.out)
        parts: dict[str, Callable[[], None]] = {
            "throughput": bench.throughput,
            "sends": bench.sends,
            "latency": bench.latency,
            "slow-sync": bench.slow_sync,
            "growth": bench.growth,
            "on-off": bench.on_off,
            "instructions": bench.instructions,
        }
        for part in wanted.part or (QUICK_PARTS if wanted.quick else PARTS):
            parts[part]()
            if part in bench.seconds:
                lengths = bench.document["seconds"]
                lengths[part] = sorted({*lengths.get(part, ()), bench.seconds[part]})
        bench.save()
    if wanted.publish and "instructions" in bench.document:
        version = bench.document["machine"]["holdfast"]
        bench.document["instructions_kept"] = keep(version, bench.document["instructions"])
    report = publish(bench.document, Path("docs") if wanted.publish else wanted.out.parent)
    print(report)
    if any(result["wrong"] for result in bench.document["results"]):
        sys.exit("a contender's states or actions differ from the oracle's: see above")


if __name__ == "__main__":
    main()
