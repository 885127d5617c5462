"""Clocks of the simulated machine: set wrongly at times, and each process sees its own."""

from __future__ import annotations

from holdfast.engine.stamping import Instant
from holdfast.testing.simulation.faults import Fault, Faults
from holdfast.testing.simulation.universe import Universe

EPOCH = 1_700_000_000.0
JUMP_SECONDS = (-4_000.0, 8_000.0)  # past what stamping accepts, so that refusals happen too
DRIFT = 0.002
SKEW_SECONDS = 0.5


class MachineClock:
    """Wall time as the machine tells it, beside uptime, which nobody can set."""

    def __init__(self, universe: Universe, faults: Faults) -> None:
        self._universe = universe
        self._faults = faults
        self.offset = 0.0
        self._greatest = 0.0
        self.boots = 1
        self._booted = 0.0
        self.drifts = faults.strikes(Fault.CLOCK_DRIFT)

    def jump(self) -> None:
        """Set wrongly, and set right again some seconds later."""
        self.offset = self._faults.draw(Fault.CLOCK_JUMP, *JUMP_SECONDS)
        self._greatest = max(self._greatest, self.offset)
        self._universe.note("clock", f"is set {self.offset:+,.0f} s wrong", fault=True)
        self._universe.after(self._faults.draw(Fault.CLOCK_JUMP, 0.5, 4.0), self.set_right)

    def set_right(self) -> None:
        if not self._faults.active:
            return  # it is, since the faults have ended
        self.offset = 0.0
        self._universe.note("clock", "is right again")

    def heal(self) -> None:
        """Never behind what was stamped already, so that nothing has to wait for hours.

        It counts as a boot: behind one, no time is too far from the time before.
        """
        self.boot()
        self.offset = self._greatest + 1.0

    def boot(self) -> None:
        self.boots += 1
        self._booted = self._universe.now

    def process_clock(self) -> ProcessClock:
        skew = self._faults.draw(Fault.CLOCK_DRIFT, -SKEW_SECONDS, SKEW_SECONDS)
        drift = self._faults.draw(Fault.CLOCK_DRIFT, -DRIFT, DRIFT)
        return ProcessClock(self, skew, drift) if self.drifts else ProcessClock(self, 0.0, 0.0)

    def read(self, skew: float, drift: float) -> Instant:
        now = self._universe.now
        wall = EPOCH + now * (1.0 + drift) + skew + self.offset
        return Instant(wall, now - self._booted, f"boot {self.boots}")


class ProcessClock:
    def __init__(self, machine: MachineClock, skew: float, drift: float) -> None:
        self._machine = machine
        self._skew = skew
        self._drift = drift

    def __call__(self) -> Instant:
        return self._machine.read(self._skew, self._drift)
