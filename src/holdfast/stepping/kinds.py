"""The kinds of a fleet: interpreted ones, and those that a kernel was made for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, cast

from holdfast.model.fleet import FleetModel
from holdfast.stepping.cell import Kind
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.inputs import Inputs

if TYPE_CHECKING:
    from holdfast.stepping.compiled.kind import CompiledKind, Kernel


def make_kinds(
    fleet: FleetModel, codebook: Codebook, kernels: Mapping[str, Kernel]
) -> dict[str, Kind]:
    kinds = {name: Kind(cls, codebook) for name, cls in fleet.agents.items() if name not in kernels}
    if kernels:
        from holdfast.stepping.compiled.kind import CompiledKind

        for name, kernel in kernels.items():
            kinds[name] = CompiledKind(fleet.agents[name], codebook, fleet.name, kernel)
    return kinds


def compiled_among(kinds: Iterable[Kind]) -> list[CompiledKind]:
    return [cast("CompiledKind", kind) for kind in kinds if kind.compiled]


def runs(inputs: Inputs) -> Iterator[Inputs]:
    """A frame for several classes, cut so that each part is for one."""
    start = 0
    for agent, group in groupby(inputs.agents):
        stop = start + len(list(group))
        part = inputs.part(start, stop)
        part.agent = agent
        yield part
        start = stop
