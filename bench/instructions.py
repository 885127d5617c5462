"""`python -m bench.instructions`: instructions per event, the figure that no noise changes.

Counted by `perf stat` where the processor lets it, else by `valgrind --tool=callgrind`, of producer
and worker in one thread. Two lengths are run; their difference is that of the events alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contenders.holdfast import Holdfast
from bench.ours.one_thread import SEND
from bench.results import Unavailable

KEPT = Path(__file__).with_name("instructions.json")  # version to figures: what changes, shows
SHORT_SENDS, LONG_SENDS = 4, 12
COUNT_SECONDS_MAX = 1_800.0  # the first of compiled code compiles it, fifty times slower


def counter() -> str:
    """Which of the two works here."""
    if shutil.which("perf"):
        words = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
        tried = subprocess.run(words, capture_output=True, text=True, check=False)
        if tried.returncode == 0 and re.match(r"\d+,", tried.stderr):
            return "perf"
    if shutil.which("valgrind"):
        return "callgrind"
    raise Unavailable("neither perf with counters nor valgrind is here: install valgrind")


def count(tool: str, folder: Path, sends: int, compiled: bool) -> int:
    own = Path(tempfile.mkdtemp(dir=folder))
    program = [sys.executable, "-m", "bench.ours.one_thread", str(own), str(sends)]
    if tool == "perf":
        words = ["perf", "stat", "-x,", "-e", "instructions:u", *program]
    else:
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={own}/out", *program]
    environment = {
        **os.environ,
        "BENCH_COMPILED": "1" if compiled else "0",
        "PYTHONHASHSEED": "0",
        "PYTHONMALLOC": "pymalloc",
    }
    try:
        done = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COUNT_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{tool} was not done after {COUNT_SECONDS_MAX:g} s") from None
    finally:
        shutil.rmtree(own, ignore_errors=True)
    if done.stdout.split()[-1:] != [str(sends * SEND)]:
        raise Unavailable(f"{tool}: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}")
    pattern = r"^(\d+)," if tool == "perf" else r"Collected : (\d+)"
    found = re.search(pattern, done.stderr, re.MULTILINE)
    if found is None:
        raise Unavailable(f"{tool} gave no count: {done.stderr.strip().splitlines()[-1]}")
    return int(found[1])


def instructions(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Per event, interpreted and compiled; with the reason where there is no figure."""
    figures: dict[str, Any] = {}
    try:
        figures["tool"] = tool = counter()
    except Unavailable as why:
        return {"missing": str(why)}
    for compiled in (False, True):
        contender = Holdfast(compiled)
        say(f"instructions of {contender.name}, by {tool}")
        try:
            contender.prepare()
            if compiled:
                count(tool, folder, 0, compiled)  # to the tool's processor the kernels are new
            more = count(tool, folder, LONG_SENDS, compiled)
            more -= count(tool, folder, SHORT_SENDS, compiled)
            figures[contender.name] = round(more / ((LONG_SENDS - SHORT_SENDS) * SEND))
            say(f"  {figures[contender.name]:,} per event")
        except Unavailable as why:
            figures[f"{contender.name}: missing"] = str(why)
            say(f"  {why}")
    return figures


def keep(version: str, figures: dict[str, Any], path: Path = KEPT) -> dict[str, Any]:
    """Beside those of other versions; all of them."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    kept[version] = figures
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return kept


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = instructions(Path(folder), lambda line: print(line, file=sys.stderr))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
