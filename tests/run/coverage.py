"""Which share of the lines of each top folder the tests run: `make test-coverage`.

Reads the JSON of `coverage json`. Processes that tests start count too, those that are killed do
not: what they have run is lost with them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def table(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> str:
    lines: Counter[str] = Counter()
    run: Counter[str] = Counter()
    for name, file in report["files"].items():
        inside = name.partition("src/holdfast/")[2].split("/")
        for folder in (inside[0] if len(inside) > 1 else "(above)", "all"):
            lines[folder] += file["summary"]["num_statements"]
            run[folder] += file["summary"]["covered_lines"]
    rows = [f"| {name} | {lines[name]:,} | {100 * run[name] / lines[name]:.1f} |" for name in lines]
    return "\n".join(["| folder | lines | run, % |", "|---|---|---|", *sorted(rows)])


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
