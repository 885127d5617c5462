"""`python -m bench.metering`: what metering costs, in instructions per event, on and off.

As bench.instructions, of producer and worker in one thread, interpreted and compiled. Publishing is
on another thread, once a second, and not in it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.contenders.holdfast import Holdfast
from bench.instructions import LONG_SENDS, SHORT_SENDS, count, counter
from bench.ours.one_thread import SEND


def per_event(tool: str, folder: Path, compiled: bool, metered: bool) -> float:
    more = count(tool, folder, LONG_SENDS, compiled, metered=metered)
    more -= count(tool, folder, SHORT_SENDS, compiled, metered=metered)
    return more / ((LONG_SENDS - SHORT_SENDS) * SEND)


def main() -> None:
    tool = counter()
    figures: dict[str, object] = {"tool": tool}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        for compiled in (False, True):
            Holdfast(compiled).prepare()
            if compiled:
                count(tool, folder, 0, compiled)  # to the tool's processor the kernels are new
            off = per_event(tool, folder, compiled, False)
            on = per_event(tool, folder, compiled, True)
            figures["compiled" if compiled else "interpreted"] = {
                "off": round(off, 1),
                "on": round(on, 1),
                "percent": round(100 * (on / off - 1), 2),
            }
            print(json.dumps(figures), file=sys.stderr)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
