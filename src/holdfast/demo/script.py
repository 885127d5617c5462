"""What the outside world does in the demo: a sequence of plain values, the same for the same seed.

The producer sends it, the audit computes it again. Neither the fleet's classes nor any clock are
known here; how fast the script is played is the producer's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

CYCLE_ROUNDS = 60  # from a full battery to an empty one
BATTERY_PER_ROUND = 1.6  # percent: 100 down to 5.6
ORDER_EVERY_ROUNDS = 12
SILENT_ONE_IN = 20  # drones that drop out of radio contact now and then
SILENT_FROM, SILENT_TO, SILENT_PERIOD = 1.0, 2.6, 6.0  # seconds
HIGH_ONE_IN = 50  # telemetries above the ceiling, each of which the drone answers at once

Values = tuple[int | float, ...]


class Line(NamedTuple):
    """One event: its number in the whole script, for whom, and its class and fields."""

    seq: int
    key: str
    event: str
    values: Values


@dataclass(frozen=True)
class Script:
    seed: int
    drones: int
    rounds_per_second: float

    def lines(self) -> Iterator[Line]:
        """Endless. In every round each drone that is in contact sends one event."""
        random = Random(self.seed)
        phases = [random.randrange(CYCLE_ROUNDS) for _ in range(self.drones)]
        keys = [f"d-{number}" for number in range(self.drones)]
        serials = [0] * self.drones
        seq = parcel = round_number = 0
        while True:
            silent = self._silent(round_number)
            for number, key in enumerate(keys):
                if silent and number % SILENT_ONE_IN == 3:
                    continue
                seq += 1
                serials[number] += 1
                step = round_number + phases[number]
                if step % ORDER_EVERY_ROUNDS == 5:
                    parcel += 1
                    yield Line(seq, key, "Order", (serials[number], parcel))
                else:
                    values = _telemetry(random.random(), step, serials[number])
                    yield Line(seq, key, "Telemetry", values)
            round_number += 1

    def _silent(self, round_number: int) -> bool:
        seconds = round_number / self.rounds_per_second % SILENT_PERIOD
        return SILENT_FROM <= seconds < SILENT_TO


def _telemetry(chance: float, step: int, serial: int) -> Values:
    altitude = 150.0 if chance * HIGH_ONE_IN < 1.0 else 60.0 + step % 40
    battery = 100.0 - step % CYCLE_ROUNDS * BATTERY_PER_ROUND
    return serial, int(chance * 5000.0) / 2, step % 997 * 2.5, altitude, battery
