"""The kernels of a fleet: what its compiled classes became, for whoever folds them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.model.fleet import FleetModel
from holdfast.runtime.heap import keep_freed_memory

_log = logging.getLogger("holdfast.worker")

if TYPE_CHECKING:
    from holdfast.stepping.compiled.kind import Kernel


def kernels_of(fleet: FleetModel) -> dict[str, Kernel]:
    """By the names of the classes. Those that defer events or expire are interpreted."""
    compiled = {}
    for name, cls in fleet.agents.items():
        definition = cls.__holdfast__
        waits = definition.unhandled == "defer" or definition.expire_after is not None
        if definition.compiled and waits:
            _log.warning(
                "%s is interpreted, as all classes that defer events or expire: leave out "
                "compiled=True, which only costs",
                name,
            )
        elif definition.compiled:
            compiled[name] = cls
    if not compiled:
        return {}
    from holdfast.model.compiling.program import Program
    from holdfast.runtime.compiling import compiled_fold, need_numba

    need_numba(next(iter(compiled)))
    keep_freed_memory()
    from holdfast.stepping.compiled.kind import Kernel

    programs = {name: Program(cls, agents=fleet.agents) for name, cls in compiled.items()}
    return {name: Kernel(program, compiled_fold(program)) for name, program in programs.items()}


def kernels_if_possible(fleet: FleetModel) -> dict[str, Kernel]:
    """For whoever can do without: the interpreter gives the same results."""
    from importlib.util import find_spec

    return kernels_of(fleet) if find_spec("numba") is not None else {}
