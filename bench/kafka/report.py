"""From figures to tables, between two marks of docs/BENCHMARKS.md.

A figure that the oracle does not confirm is never printed as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.report import put_between, table, titled

BEGIN = "<!-- figures of `make bench-kafka`: written by bench/kafka/report.py -->"
END = "<!-- end of the figures on Kafka -->"

Row = tuple[str, str]
Figures = Mapping[str, Any]


def publish(document: Figures, folder: Path) -> str:
    text = "\n\n".join(part for part in sections(document) if part)
    put_between(folder / "BENCHMARKS.md", BEGIN, END, text)
    return text


def sections(document: Figures) -> Iterator[str]:
    it = document["machine"]
    yield (
        f"Measured {document['date']}: {it['cores']} cores ({it['processor']}), Python "
        f"{it['python']}, Holdfast {it['holdfast']}, one broker beside everything else. Seconds of "
        f"a run: {document['seconds']:g}."
    )
    yield titled("### Throughput on Kafka", table(("what", "events/s"), _throughput(document)))
    yield titled(
        "### Latency on Kafka, ms",
        table(("what", "p50", "p99", "p99.9"), _latencies(document)),
        "From the moment an event was due until a reader in another process has its action.",
    )
    yield titled("### Takeover and restore", table(("what", "seconds"), _seconds(document)))


def rate(found: Figures) -> str:
    return "**wrong**" if found["wrong"] else f"{found['per_second']:,}"


def _throughput(document: Figures) -> Iterator[Row]:
    ours, waiting = document.get("throughput", {}), document.get("waiting", {})
    names = {
        "compiled": "Holdfast compiled, columns of 65,536, a producer at the same time",
        "interpreted": "Holdfast interpreted, rows of 4,096, a producer at the same time",
    }
    for name, words in names.items():
        if name in ours:
            yield words, rate(ours[name])
    forms = {
        "frames": "Holdfast interpreted, mixed events that wait as frames",
        "records": "Holdfast interpreted, mixed events that wait as JSON records",
    }
    for form, words in forms.items():
        if form in waiting:
            yield words, rate(waiting[form])
    for name, found in document.get("peers", {}).items():
        yield f"{name}, {found['guarantee']}, the same JSON records", rate(found)


def _latencies(document: Figures) -> Iterator[tuple[str, ...]]:
    for count, found in document.get("latency", {}).items():
        yield _latency(f"{int(count):,} events/s", found)
    for seconds, found in document.get("intervals", {}).items():
        yield _latency(f"10,000 events/s, `commit_interval_seconds={seconds}`", found)


def _latency(words: str, found: Figures) -> tuple[str, ...]:
    taken = found["latency"]
    shares = [taken.get(name) for name in ("p50_ms", "p99_ms", "p999_ms")]
    if found["wrong"]:
        return words, "**wrong**", "", ""
    return words, *("" if share is None else f"{share:.1f}" for share in shares)


def _seconds(document: Figures) -> Iterator[Row]:
    session = document.get("takeover", {}).get("session_seconds", 0.0)
    words = {
        "standby": f"machine killed, another with `standby=yes` folds on (session {session:g} s)",
        "no standby": f"the same without a standby, 100,000 agents (session {session:g} s)",
        "restarted": "one worker killed, its supervisor starts another",
    }
    for name, told in words.items():
        if name in document.get("takeover", {}):
            yield told, f"{document['takeover'][name]:.2f}"
    copies = {
        "base copy": "a copy of 100,000 agents from a base copy",
        "changelog": "the same from the changelog alone, ten commits per agent",
    }
    for name, told in copies.items():
        if name in document.get("restore", {}):
            yield told, f"{document['restore'][name]:.2f}"
