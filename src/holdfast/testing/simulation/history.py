"""The history of a run: its evidence decoded once, for all who judge it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from holdfast.model.keys import slot_of
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.decoding import Input, Release, inputs_of
from holdfast.testing.simulation.evidence import Evidence, PartitionLog


@dataclass(frozen=True, eq=False)
class Partition:
    generation: int
    log: PartitionLog
    inputs: list[Input]
    lane: list[Input]  # urgent ones; their numbers are from LANE on

    @cached_property
    def number(self) -> int:
        return self.log.number

    @cached_property
    def end(self) -> int:
        """The position after the last event of the inbox."""
        return self.log.first + len(self.inputs)

    def owns(self, key: str) -> bool:
        return slot_of(key) in self.log.slots

    @cached_property
    def every(self) -> list[Input]:
        """Whatever came, wherever it stands."""
        return [*self.inputs, *self.lane]

    def input_at(self, position: int) -> Input | None:
        if position >= LANE:
            return self.lane[position - LANE] if position - LANE < len(self.lane) else None
        inside = self.log.first <= position < self.end
        return self.inputs[position - self.log.first] if inside else None


class History:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.schemas = evidence.schemas
        self.fleet = evidence.programs[0].name
        self.releases = [
            Release(number, model, evidence.schemas)
            for number, model in enumerate(evidence.programs)
        ]
        self.generations = [
            [
                Partition(generation, log, _inputs_in(log.frames), _inputs_in(log.lane))
                for log in logs
            ]
            for generation, logs in enumerate(evidence.generations)
        ]

    @cached_property
    def partitions(self) -> list[Partition]:
        return [each for generation in self.generations for each in generation]

    @cached_property
    def acknowledged(self) -> dict[tuple[str | None, int], float]:
        """When a source first knew that an event of that number is durable."""
        found: dict[tuple[str | None, int], float] = {}
        for send in self.evidence.sends:
            if send.outcome == "acknowledged":
                number = send.source, send.seq
                found[number] = min(send.ended, found.get(number, send.ended))
        return found

    def home_of(self, generation: int, key: str) -> int | None:
        """The number of the partition in which a key lives."""
        for each in self.generations[generation]:
            if each.owns(key):
                return each.number
        return None


def _inputs_in(frames: list[StoredFrame]) -> list[Input]:
    return [one for frame in frames for one in inputs_of(frame)]
