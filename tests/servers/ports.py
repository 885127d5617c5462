"""Free loopback ports for servers that are stopped and started again."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux gives ports to outgoing connections (32768 and up): there a
# client may take the port of a server that is down, or even connect to itself.
_FIRST, _LAST = 20_000, 32_000
_chance = random.SystemRandom()  # not `random`: a test that seeds it would get the same ports


def free_ports(count: int) -> list[int]:
    """Different ones; nothing holds them, so they are used soon."""
    found: set[int] = set()
    while len(found) < count:
        port = _chance.randrange(_FIRST, _LAST)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.add(port)
    return sorted(found, key=lambda _: _chance.random())
