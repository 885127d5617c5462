"""The events every contender folds: numbers from a seed and a counter, the same in every language.

Event `n` of a stream follows from `mix`, the finisher of splitmix64, in 64-bit integers. Each float
is an integer below 2**53 times a power of two, so NumPy, Java and Python get the same bits.

An agent's number and those of its events leave the same rest by 8. So 2, 4 or 8 producers that
deal the numbers out among themselves (each has a *lane*) never write to the same agent, and the
order of an agent's events does not depend on how many producers there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.uint64]
Floats = NDArray[np.float64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
WORD = 0xFFFFFFFFFFFFFFFF

RESTS = 8

POSITION, BATTERY, HEARTBEAT, NEAR = 0, 1, 2, 3
KINDS = ("Position", "Battery", "Heartbeat", "Near")
# Of 256 draws of the low byte, how many are not a position.
BATTERY_BELOW, HEARTBEAT_BELOW = 64, 102  # a mixed stream: 25 % and 15 %
NEAR_BELOW = 51  # a stream with messages: 20 %


@dataclass(frozen=True)
class Stream:
    """What decides every event. `mix` is "positions", "mixed" or "messages"."""

    seed: int = 7
    agents: int = 5_000
    mix: str = "positions"
    every: int = 0  # latency: each event whose number divides by it climbs, and no other one

    def __post_init__(self) -> None:
        if self.agents < RESTS or self.agents % RESTS:
            raise ValueError(f"{self.agents} agents: give a multiple of {RESTS}")
        if self.mix not in ("positions", "mixed", "messages"):
            raise ValueError(f"unknown mix {self.mix!r}: positions, mixed or messages")


def mix(x: Ints) -> Ints:
    """The finisher of splitmix64; products wrap at 64 bits."""
    x = x ^ (x >> np.uint64(30))
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def key_of(agent: int) -> str:
    return f"d-{agent}"


class Events:
    """Events `first` to `first + count` of a lane, whose i-th one has the number i * lanes + lane.

    Columns are made when they are asked for; a row uses those that its kind has.
    """

    def __init__(self, stream: Stream, lane: int, lanes: int, first: int, count: int) -> None:
        self._stream = stream
        begin = first * lanes + lane
        self.number = np.arange(begin, begin + count * lanes, lanes, dtype=np.int64)
        self._one = mix(self.number.view(np.uint64) * GOLDEN + np.uint64(stream.seed))
        self._two = mix(self._one)
        self._high = self._two >> np.uint64(40)

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def agent(self) -> NDArray[np.int64]:
        """First each agent once, so that all exist; from then on whichever the hash says."""
        groups = self._stream.agents // RESTS
        drawn = _below(groups, self._one >> np.uint64(32)) * RESTS + (self.number & (RESTS - 1))
        if not len(self) or self.number[0] >= self._stream.agents:
            return drawn
        return np.where(self.number < self._stream.agents, self.number, drawn)

    @cached_property
    def kind(self) -> NDArray[np.uint8]:
        if self._stream.mix == "positions":
            return np.zeros(len(self), dtype=np.uint8)
        byte = (self._two & np.uint64(0xFF)).astype(np.uint8)
        if self._stream.mix == "messages":
            return np.where(byte < NEAR_BELOW, NEAR, POSITION).astype(np.uint8)
        rest = np.where(byte < HEARTBEAT_BELOW, HEARTBEAT, POSITION)
        return np.where(byte < BATTERY_BELOW, BATTERY, rest).astype(np.uint8)

    @cached_property
    def lat(self) -> Floats:
        return _times(self._one & np.uint64(0xFFFFFFFF), 2.0**-32)

    @cached_property
    def lon(self) -> Floats:
        return _times((self._two >> np.uint64(8)) & np.uint64(0xFFFFFFF), 2.0**-28)

    @cached_property
    def alt(self) -> Floats:
        """One in 101 is above 100 m. For latency the altitude says which event it was."""
        if not self._stream.every:
            return _times(self._high, 101 * 2.0**-24)
        climbs = self.number % self._stream.every == 0
        return np.where(climbs, 101.0 + self.number * 2.0**-20, self.distance)

    @cached_property
    def percent(self) -> Floats:
        return _times(self._high, 100 * 2.0**-24)

    @cached_property
    def distance(self) -> Floats:
        return _times(self._high, 2.0**-24)

    @property
    def beat(self) -> NDArray[np.int64]:
        return self._high.view(np.int64)

    @cached_property
    def peer(self) -> NDArray[np.int64]:
        return _below(self._stream.agents, self._one & np.uint64(0xFFFFFFFF))


def _times(word: Ints, factor: float) -> Floats:
    """Exact: both are small, and signed integers convert faster."""
    found: Floats = np.multiply(word.view(np.int64), factor, dtype=np.float64)
    return found


def _below(bound: int, word: Ints) -> NDArray[np.int64]:
    """32 random bits as a number below `bound`, without a division."""
    return ((word * np.uint64(bound)) >> np.uint64(32)).view(np.int64)


def number_of(descend_to: Any) -> Any:
    """Which event of a latency stream led to `Descend(to)`: a number, or an array of them."""
    return (descend_to - 81.0) * 2.0**20
