"""A producer process for tests: `appender.py URL SOURCE COUNT SECONDS`.

It says that it is ready, and from the next line of its input on it appends events numbered from 1,
one by one, until it has appended COUNT or SECONDS have passed, and prints how many were taken.
"""

import sys
import time

from holdfast.engine.urls import open_engine
from holdfast.testing.conformance.workbench import FLEET, append, numbered


def main(url: str, source: str, count: str, seconds: str) -> None:
    engine = open_engine(url, FLEET)
    append(engine, numbered(source, [0]))  # open everything before the race begins
    print("ready", flush=True)
    sys.stdin.readline()
    deadline = time.monotonic() + float(seconds)
    number = 0
    while number < int(count) and time.monotonic() < deadline:
        number += 1
        taken = append(engine, numbered(source, [number]))
        assert taken.new == 1
    engine.close()
    print(number)


if __name__ == "__main__":
    main(*sys.argv[1:])
