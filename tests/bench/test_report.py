"""Goal: results become a page that says what was measured, and never more than that."""

from pathlib import Path
from typing import Any

import pytest

from bench.report import BEGIN, END, best, publish
from bench.results import Result, percentiles

OURS, FLINK, OTHER = "Holdfast interpreted", "Flink Java, heap", "Bytewax"
GIVEN = {"log": "the log", "state": "the state", "actions": "the actions", "not_given": "a thing"}
LATENCY = {"samples": 5000.0, "p50_ms": 1.25, "p99_ms": 4.5, "p999_ms": 9.0, "max_ms": 11.0}


def document(*results: Result, **more: Any) -> dict[str, Any]:
    return {
        "quick": False,
        "seconds": {"throughput": [60.0], "growth": [15.0, 60.0]},
        "date": "2000-01-02",
        "machine": {
            "cores": 2,
            "processor": "a processor",
            "kernel": "6",
            "python": "3.11",
            "holdfast": "0.1.0",
            "sync_ms": 0.5,
        },
        "guarantees": {OURS: GIVEN, FLINK: GIVEN, OTHER: GIVEN},
        "missing": {},
        "results": [result.as_json() for result in results],
        **more,
    }


def base(contender: str, setting: str, rate: float, **more: Any) -> Result:
    return Result(contender, "base", setting, (600, 600), 60.0, rate, **more)


def test_a_whole_run_becomes_tables_and_plots(tmp_path: Path) -> None:
    recovery = {"seconds": 1.5, "imports_seconds": 0.5, "bytes": 1}
    text = publish(
        document(
            base(OURS, "1 worker", 300_000.0),
            base(OURS, "2 workers", 450_000.0),
            base(FLINK, "parallelism 1", 200_000.0),
            base(FLINK, "parallelism 2", 150_000.0),
            base(OURS, "1 worker", 90_000.0, slow_sync=True),
            Result(OURS, "mixed", "2 workers", (1,), 60.0, 410_000.0),
            Result(OURS, "kill", "2 workers", (1,), 60.0, 370_000.0),
            Result(OURS, "latency-10000", "1 worker", (1,), 1.0, 1.0, figures={"latency": LATENCY}),
            Result(OTHER, "latency-10000", "", (1,), 1.0, 1.0, figures={"arrival": LATENCY}),
            Result(
                OURS,
                "agents-1000",
                "1 worker",
                (1,),
                1.0,
                5.0,
                figures={"worker_bytes": 1_000_000},
            ),
            Result(OURS, "agents-10000", "2 workers", (1,), 1.0, 3.0),
            Result(
                OURS,
                "agents-10000",
                "1 worker",
                (1,),
                1.0,
                4.0,
                figures={"worker_bytes": 10_000_000, "recovery": recovery},
            ),
            on_off=[
                {"name": "everything on", "per_second": 1000.0},
                {"name": "without columns", "per_second": 250.0},
                {"name": "without compression", "missing": "not in this build"},
            ],
            instructions={"tool": "callgrind", OURS: 12_345},
        ),
        tmp_path,
    )
    assert (tmp_path / "BENCHMARKS.md").read_text("utf-8") == f"{BEGIN}\n\n{text}\n\n{END}\n"
    for line in (
        "A sync of the disk took 0.5 ms. Seconds of a run: throughput 60, growth 15 or 60.",
        f"| {OURS} | the log | the state | the actions | a thing |",
        f"| {OURS} | 2 workers | 450,000 | 410,000 | 2.25 |",
        f"| {FLINK} | parallelism 1 | 200,000 |  | 1.00 |",
        f"| {OURS} | 1 worker | 90,000 |  |",
        "| kill -9 of everybody in the middle, then on | 370,000 |",
        f"| {OURS} | 10,000 | committed | 1.2 | 4.5 | 9.0 | 11.0 |",
        f"| {OTHER} | 10,000 | at the sink, uncommitted | 1.2 | 4.5 | 9.0 | 11.0 |",
        f"| {OURS} | 10,000 | 1 worker | 4 | 1,000 | 1.50 | 0.50 |",
        f"| {OURS} | 10,000 | 2 workers | 3 |  |  |  |",
        "| without columns | 250 | 0.25 |",
        "| without compression | not in this build |  |",
        f"| 0.1.0 | {OURS} | 12,345 | callgrind |",
    ):
        assert line in text
    images = sorted((tmp_path / "img").iterdir())
    assert [image.name for image in images] == [
        "bench-growth.png",
        "bench-latency.png",
        "bench-throughput.png",
    ]
    for image in images:
        assert image.read_bytes().startswith(b"\x89PNG\r\n")
        assert f"(img/{image.name})" in text


def test_what_the_oracle_does_not_confirm_is_no_figure(tmp_path: Path) -> None:
    wrong = base(OURS, "1 worker", 999_999.0, wrong=("states differ in lat",))
    text = publish(document(wrong, base(FLINK, "parallelism 1", 200_000.0)), tmp_path)
    assert "999,999" not in text
    assert f"| {OURS} | 1 worker | **wrong** |  |" in text
    assert f"- {OURS}, 1 worker, base: states differ in lat" in text


def test_a_right_run_is_better_than_a_fast_wrong_one() -> None:
    wrong = base(OURS, "2 workers", 9.0, wrong=("states differ in lat",))
    right = base(OURS, "1 worker", 3.0)
    failed = base(OURS, "3 workers", 0.0, missing="it broke")
    assert best([wrong, failed, right], OURS, "base") is right


def test_who_could_not_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    failed = Result(OTHER, "base", "workers 1", missing="ended with 1: no disk")
    text = publish(document(failed, missing={FLINK: "javac is not installed"}), tmp_path)
    assert f"- {FLINK}: javac is not installed" in text
    assert f"- {OTHER}, workers 1, base: ended with 1: no disk" in text
    assert not list((tmp_path / "img").iterdir()), "a plot of nothing"


def test_text_around_the_marks_stays(tmp_path: Path) -> None:
    page = tmp_path / "BENCHMARKS.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold figures\n{END}\n\n## After\n", "utf-8")
    for rate in (100.0, 200.0):
        publish(document(base(OURS, "1 worker", rate)), tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith(f"# Before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\n## After\n")
    assert "old figures" not in text
    assert "| 100 |" not in text
    assert "| 200 |" in text


def test_a_page_without_marks_is_not_overwritten(tmp_path: Path) -> None:
    page = tmp_path / "BENCHMARKS.md"
    page.write_text("# Mine\n", "utf-8")
    with pytest.raises(ValueError, match="has lost its marks"):
        publish(document(), tmp_path)
    assert page.read_text("utf-8") == "# Mine\n"


def test_percentiles_that_too_few_samples_cannot_tell_are_left_out() -> None:
    assert percentiles([0.001] * 99 + [0.5]) == {
        "samples": 100.0,
        "p50_ms": 1.0,
        "p99_ms": 500.0,
        "max_ms": 500.0,
    }
    assert percentiles([]) == {"samples": 0.0}
