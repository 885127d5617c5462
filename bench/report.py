"""From results to a page: Markdown between two marks of docs/BENCHMARKS.md, plots beside it.

    python -m bench.report RESULTS.json [FOLDER]

writes again what a run has measured, without measuring. A figure that the oracle does not confirm
is never printed as one, and whoever could not run is listed with the reason.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.plots import plot
from bench.results import Result

BEGIN = "<!-- figures of `make bench`: written by bench/report.py -->"
END = "<!-- end of the figures -->"
FLINK = "Flink Java, heap"
WAYS = {"base": "positions", "mixed": "mixed events", "messages": "20 % messages"}
OWN = {
    "send-8192": "sends of 8,192, 1 thread",
    "send-4096": "sends of 4,096, 1 thread",
    "send-256": "sends of 256, 8 threads",
    "no-timer": "without the watchdog timer",
    "kill": "kill -9 of everybody in the middle, then on",
}


def publish(document: dict[str, Any], folder: Path) -> str:
    """Into `folder`/BENCHMARKS.md, made if there is none, and `folder`/img. Gives the text."""
    page = folder / "BENCHMARKS.md"
    images = folder / "img"
    images.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(part for part in (*sections(document), *plot(document, images)) if part)
    put_between(page, BEGIN, END, text)
    return text


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """In the place of what stands between two marks of a page, which is made if there is none."""
    old = page.read_text("utf-8") if page.exists() else f"{begin}\n{end}\n"
    if begin not in old or end not in old:
        raise ValueError(f"{page} has lost its marks: put {begin!r} and {end!r} back")
    before, _, rest = old.partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def sections(document: dict[str, Any]) -> list[str]:
    results = [Result.from_json(fields) for fields in document["results"]]
    fast = [each for each in results if not each.slow_sync]
    slow = [each for each in results if each.slow_sync]
    names = list(document["guarantees"])
    return [
        _machine(document),
        _guarantees(document),
        _throughput("### Throughput, events/s", fast, names),
        _settings(fast, names),
        _own(fast, names),
        _latency("### Latency, ms", fast, names),
        _throughput("### Throughput with 2 ms more for every sync, events/s", slow, names),
        _latency("### Latency with 2 ms more for every sync, ms", slow, names),
        _growth(fast, names),
        _on_off(document),
        _instructions(document),
        _missing(document, results),
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Empty if there is no row."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines])


def titled(title: str, text: str, words: str = "") -> str:
    return "\n\n".join(part for part in (title, words, text) if part) if text else ""


def _machine(document: dict[str, Any]) -> str:
    it = document["machine"]
    lengths = ", ".join(
        f"{part} {' or '.join(f'{seconds:g}' for seconds in each)}"
        for part, each in document["seconds"].items()
    )
    short = ", a quick run: not for comparison" if document["quick"] else ""
    return (
        f"Measured {document['date']}{short}: {it['cores']} cores ({it['processor']}), kernel "
        f"{it['kernel']}, Python {it['python']}, Holdfast {it['holdfast']}. A sync of the disk "
        f"took {it['sync_ms']} ms. Seconds of a run: {lengths}."
    )


def _guarantees(document: dict[str, Any]) -> str:
    rows = [
        (name, each["log"], each["state"], each["actions"], each["not_given"])
        for name, each in document["guarantees"].items()
    ]
    head = ("contender", "durable before it counts", "state", "actions", "not given")
    return titled("### What each guarantees", table(head, rows))


def figure(result: Result | None) -> str:
    if result is None:
        return ""
    if result.missing:
        return "failed"
    return "**wrong**" if result.wrong else f"{result.per_second:,.0f}"


def best(results: Sequence[Result], contender: str, workload: str) -> Result | None:
    """Of its settings the faster one; one that is wrong is the worst."""
    found = [r for r in results if r.contender == contender and r.workload == workload]
    return max(found, key=lambda r: (not r.missing, not r.wrong, r.per_second), default=None)


def _throughput(title: str, results: Sequence[Result], names: Sequence[str]) -> str:
    ways = [way for way in WAYS if any(r.workload == way for r in results)]
    flink = best(results, FLINK, "base")
    rows = []
    for name in names:
        mine = best(results, name, "base")
        if mine is None:
            continue
        sound = flink and flink.per_second and not (flink.wrong or mine.wrong or mine.missing)
        times = f"{mine.per_second / flink.per_second:.2f}" if flink and sound else ""
        figures = [figure(best(results, name, way)) for way in ways]
        rows.append((name, mine.setting, *figures, times))
    head = ("contender", "better setting", *(WAYS[way] for way in ways), f"positions / {FLINK}")
    return titled(title, table(head, rows))


def _settings(results: Sequence[Result], names: Sequence[str]) -> str:
    rows = [
        (r.contender, r.setting, f"{sum(r.counts):,}", f"{r.seconds:.1f}", figure(r))
        for name in names
        for r in results
        if r.workload == "base" and r.contender == name
    ]
    head = ("contender", "setting", "events", "seconds", "events/s")
    return titled("### Positions, every setting", table(head, rows))


def _own(results: Sequence[Result], names: Sequence[str]) -> str:
    shown = [name for name in names if any(best(results, name, way) for way in OWN)]
    rows = [(words, *(figure(best(results, n, way)) for n in shown)) for way, words in OWN.items()]
    words = "States and actions are compared with the oracle after each, the last one too."
    return titled(
        "### Ours in other ways, events/s", table(("", *shown), rows if shown else ()), words
    )


def _latency(title: str, results: Sequence[Result], names: Sequence[str]) -> str:
    rows = []
    for name in names:
        for r in results:
            if r.contender != name or not r.workload.startswith("latency-"):
                continue
            for kind, words in (("latency", "committed"), ("arrival", "at the sink, uncommitted")):
                if kind in r.figures and not r.wrong:
                    taken = r.figures[kind]
                    cuts = (
                        _number(taken.get(p)) for p in ("p50_ms", "p99_ms", "p999_ms", "max_ms")
                    )
                    offered = f"{int(r.workload.partition('-')[2]):,}"
                    rows.append((name, offered, words, *cuts))
            if r.missing or r.wrong:
                rows.append((name, r.workload.partition("-")[2], figure(r), "", "", "", ""))
    head = ("contender", "offered/s", "action is", "p50", "p99", "p99.9", "max")
    return titled(title, table(head, rows))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _growth(results: Sequence[Result], names: Sequence[str]) -> str:
    rows = []
    for name in names:
        mine = [r for r in results if r.contender == name and r.workload.startswith("agents-")]
        for r in sorted(mine, key=lambda r: (_agents(r), r.setting)):
            recovery = r.figures.get("recovery", {})
            seconds = f"{recovery['seconds']:.2f}" if recovery else ""
            imports = f"{recovery['imports_seconds']:.2f}" if recovery else ""
            own = _bytes_per_agent(r, mine)
            rows.append((name, f"{_agents(r):,}", r.setting, figure(r), own, seconds, imports))
    times = ("recovery, s", "of it imports, s")
    head = ("contender", "agents", "setting", "events/s", "bytes per agent", *times)
    words = (
        "Recovery: a fresh process, the data's pages not cached, until it has committed an event. "
        "Bytes per agent: how much more memory the workers hold than with the fewest agents."
    )
    return titled("### Growth", table(head, rows), words)


def _bytes_per_agent(result: Result, others: Sequence[Result]) -> str:
    alike = [r for r in others if r.setting == result.setting and "worker_bytes" in r.figures]
    if result not in alike or result is (small := min(alike, key=_agents)):
        return ""
    more = result.figures["worker_bytes"] - small.figures["worker_bytes"]
    return f"{more / (_agents(result) - _agents(small)):,.0f}"


def _agents(result: Result) -> int:
    return int(result.workload.partition("-")[2])


def _on_off(document: dict[str, Any]) -> str:
    rows = document.get("on_off", [])
    whole = next((row["per_second"] for row in rows if "per_second" in row), 0.0)
    lines = [
        (
            row["name"],
            f"{row['per_second']:,.0f}" if "per_second" in row else row["missing"],
            f"{row['per_second'] / whole:.2f}" if "per_second" in row and whole else "",
        )
        for row in rows
    ]
    return titled("### On and off", table(("", "events/s", "of the first figure"), lines))


def _instructions(document: dict[str, Any]) -> str:
    kept = document.get("instructions_kept") or (
        {document["machine"]["holdfast"]: document["instructions"]}
        if "instructions" in document
        else {}
    )
    rows = []
    for version, found in kept.items():
        for name, value in found.items():
            if name != "tool":
                told = f"{value:,}" if isinstance(value, int) else str(value)
                rows.append((version, name, told, str(found.get("tool", ""))))
    head = ("version", "", "instructions/event", "counted by")
    return titled("### Instructions", table(head, rows))


def _missing(document: dict[str, Any], results: Sequence[Result]) -> str:
    lines = [f"- {name}: {why}" for name, why in document["missing"].items()]
    lines += [
        f"- {r.contender}, {r.setting}, {r.workload}: {r.missing or '; '.join(r.wrong)}"
        for r in results
        if r.missing or r.wrong
    ]
    return titled("### Not measured", "\n".join(lines))


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    publish(document, Path(sys.argv[2] if len(sys.argv) > 2 else "docs"))


if __name__ == "__main__":
    main()
