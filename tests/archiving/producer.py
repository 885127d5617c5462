"""A producer: sends small batches to the fleet of bots until it is killed.

`python -m tests.archiving.producer URL PAUSE`
"""

import itertools
import sys
import time

from holdfast.errors import TryAgain
from tests.archiving.bots import Bot, Ping, fleet

if __name__ == "__main__":
    with fleet.connect(sys.argv[1]) as live:
        for batch in itertools.count():
            rows = [(Bot, f"b-{n % 50}", Ping(number=batch + n)) for n in range(20)]
            try:
                live.send_many(rows)
            except TryAgain:
                pass  # another has the turn for long: what is sent does not matter here
            time.sleep(float(sys.argv[2]))
