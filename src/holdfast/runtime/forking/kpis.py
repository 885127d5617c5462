"""KPI functions of the user, for what production decided and for what the candidate does.

A KPI is `def kpi(actions: Iterable[IssuedAction]) -> dict[str, float]`. It gets every action in the
order of time, as an instance of the candidate's classes.
"""

from __future__ import annotations

import heapq
import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, UsageError
from holdfast.runtime.forking.comparing import Decision
from holdfast.runtime.loading import line_of, module_from_file
from holdfast.runtime.reading import IssuedAction
from holdfast.stepping.actionids import action_id
from holdfast.stepping.codebook import Codebook

KpiFunction = Callable[[Iterable[IssuedAction]], dict[str, float]]


class Kpi(msgspec.Struct):
    name: str
    recorded: float
    fork: float


def load_kpi(reference: str) -> KpiFunction:
    place, colon, name = reference.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"--kpi {reference!r}: write module:function or file.py:function")
    if place.endswith(".py"):
        module = module_from_file(Path(place), "your KPI")
    else:
        try:
            module = importlib.import_module(place)
        except HoldfastError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(f"--kpi {reference}: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"--kpi {reference}: {place} has no function {name!r}")
    function: KpiFunction = found
    return function


def measure(
    references: Sequence[str],
    recorded: Callable[[], Iterator[IssuedAction]],
    fork: Callable[[], Iterator[IssuedAction]],
) -> list[Kpi]:
    rows = []
    for reference in references:
        function = load_kpi(reference)
        ours, theirs = _run(reference, function, recorded()), _run(reference, function, fork())
        rows += [
            Kpi(name, ours.get(name, math.nan), theirs.get(name, math.nan))
            for name in dict.fromkeys([*ours, *theirs])
        ]
    return rows


def _run(
    reference: str, function: KpiFunction, actions: Iterator[IssuedAction]
) -> dict[str, float]:
    try:
        found = function(actions)
        return {str(name): float(value) for name, value in found.items()}
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:
        line = line_of(error, reference.rpartition(":")[0])
        raise UsageError(
            f"--kpi {reference}{line}: {type(error).__name__}: {error}: return a dict of numbers"
        ) from error


def in_order(
    parts: Iterable[Iterable[Decision]], fleet: str, codebook: Codebook
) -> Iterator[IssuedAction]:
    """Actions of several partitions by time; those of one moment by partition."""
    for each in heapq.merge(*parts, key=attrgetter("now")):
        schema = codebook.schema_of(each.schema)
        expires = schema.options.get("expires")
        yield IssuedAction(
            agent=each.agent,
            key=each.key,
            action=codebook.reader_of(each.schema).row(each.row),
            id=action_id(fleet, each.agent, each.key, each.version, each.place),
            now=each.now,
            expires_at=None if expires is None else each.now + float(str(expires)),
            priority=str(schema.options.get("priority", "normal")),
        )
