"""A producer process for tests: `appender.py URL SOURCE COUNT`.

It says that it is ready, and from the next line of its input on it appends events numbered from 1,
one by one, to COUNT, and prints how many were taken.
"""

import sys

from holdfast.engine.urls import open_engine
from holdfast.testing.conformance.workbench import FLEET, append, numbered


def main(url: str, source: str, count: str) -> None:
    engine = open_engine(url, FLEET)
    append(engine, numbered(source, [0]))  # open everything before the race begins
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, int(count) + 1):
        taken = append(engine, numbered(source, [number]))
        assert taken.new == 1
    engine.close()
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
