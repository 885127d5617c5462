"""Randomness that repeats: the generator behind `ctx.random`, and the seed it starts from.

The seed depends on fleet, agent class, key and version of the agent, never on partition or
position, so an event draws the same numbers after a retry, a replay or a rescale. The arithmetic is
integers and the five operations that IEEE 754 fixes to the last bit, so an aarch64 device and an
x86 server agree; that is why the logarithm is our own. Not for secrets: whoever knows the key can
compute the numbers.
"""

import hashlib
import math
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

from holdfast.errors import UsageError

_T = TypeVar("_T")
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LN_2 = 0.6931471805599453


def seed_of(fleet: str, agent: str, key: str, version: int) -> int:
    # NUL separates because no name, class or key can contain it.
    text = f"{fleet}\0{agent}\0{key}\0{version}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Random:
    """splitmix64, with the methods of `random.Random` that handlers need."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def bits(self) -> int:
        """The next 64 bits."""
        self.state = z = (self.state + 0x9E37_79B9_7F4A_7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
        return z ^ (z >> 31)

    def random(self) -> float:
        """At least 0.0, below 1.0, all 53 bits used."""
        return (self.bits() >> 11) * 2.0**-53

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def randint(self, low: int, high: int) -> int:
        """From `low` to `high`, both included, each equally likely."""
        if low > high:
            raise UsageError(f"randint({low}, {high}): the first must not be above the second")
        return low + self._below(high - low + 1)

    def choice(self, items: Sequence[_T]) -> _T:
        if not items:
            raise UsageError("choice() of nothing: check for an empty sequence first")
        return items[self._below(len(items))]

    def shuffle(self, items: MutableSequence[_T]) -> None:
        """In place, every order equally likely."""
        for last in range(len(items) - 1, 0, -1):
            other = self._below(last + 1)
            items[last], items[other] = items[other], items[last]

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Normally distributed, by Marsaglia's polar method; its twin is thrown away so that the
        whole state stays one integer."""
        while True:
            x = 2.0 * self.random() - 1.0
            y = 2.0 * self.random() - 1.0
            square = x * x + y * y
            if 0.0 < square < 1.0:
                return mu + sigma * x * math.sqrt(-2.0 * _logarithm(square) / square)

    def _below(self, bound: int) -> int:
        # Draw just enough bits and draw again when past the bound: no bias towards small numbers.
        width = (bound - 1).bit_length()
        while True:
            drawn, have = 0, 0
            while have < width:
                drawn = drawn << 64 | self.bits()
                have += 64
            drawn >>= have - width
            if drawn < bound:
                return drawn


def _logarithm(x: float) -> float:
    """Natural logarithm from exact operations only: libraries differ in the last bit."""
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    # ln m = 2 artanh((m-1)/(m+1)); |t| < 0.1716, so 11 terms go below 2**-53.
    t = (mantissa - 1.0) / (mantissa + 1.0)
    square, total = t * t, 0.0
    for odd in range(21, 0, -2):
        total = total * square + 1.0 / odd
    return 2.0 * t * total + exponent * _LN_2
