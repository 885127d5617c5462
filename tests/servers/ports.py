"""Free loopback ports for servers that are stopped and started again."""

from __future__ import annotations

import os
import random
import socket
from collections import deque

# Below the range from which Linux gives ports to outgoing connections (32768 and up): there a
# client may take the port of a server that is down, or even connect to itself.
_FIRST, _LAST = 20_000, 32_000
# Tests that run side by side do not take each other's, which nothing holds until they are used.
_SHARE = "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"
_chance = random.SystemRandom()  # not `random`: a test that seeds it would get the same ports
_given: deque[int] = deque(maxlen=1000)  # what uses them may not have been started yet


def free_ports(count: int) -> list[int]:
    """Different ones; nothing holds them, so they are used soon."""
    first, last = _share()
    found: set[int] = set()
    while len(found) < count:
        port = _chance.randrange(first, last)
        if port in _given:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.add(port)
    _given.extend(found)
    return sorted(found, key=lambda _: _chance.random())


def _share() -> tuple[int, int]:
    worker, workers = (os.environ.get(name, "") for name in _SHARE)
    if not worker:
        return _FIRST, _LAST
    each = (_LAST - _FIRST) // int(workers)
    first = _FIRST + int(worker.removeprefix("gw")) % int(workers) * each
    return first, first + each
