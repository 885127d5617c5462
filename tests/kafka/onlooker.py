"""A process that looks on: `python -m tests.kafka.onlooker URL COMPLAINTS`.

The reader of the kill tests, with patience: here brokers are away at times, and then nobody can be
told anything. What it is told must still be committed, and never older than what it saw before.
"""

import sys
import time
import traceback
from pathlib import Path

from holdfast import TryAgain
from tests.kills import swarm
from tests.kills.reader import Reader

PAUSE_SECONDS = 0.3


def main(url: str, complaints: str) -> None:
    with swarm.fleet.connect(url) as live:
        reader = Reader(live, Path(complaints))
        while True:
            try:
                reader.look()
                reader.ask()
                print("looked", flush=True)
            except TryAgain as trouble:
                print(trouble, flush=True)
            except Exception:
                reader.complain(traceback.format_exc())
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:3])
