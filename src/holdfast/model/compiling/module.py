"""The text of a kernel: the lowered functions, and around them routes, outputs, timers and the
loop that folds. How its arrays are laid out is told in `program`."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING

from holdfast.model.compiling.kinds import BOOL, CannotCompile
from holdfast.model.compiling.values import Ctx, Given, Meaning, Self
from holdfast.model.context import HOPS_MAX, TIMERS_PER_AGENT_MAX
from holdfast.model.layout import Slot

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function
    from holdfast.model.compiling.program import Output, Program
    from holdfast.model.event import Event
    from holdfast.model.handlers import Handler

BUFFERS = 8  # C[8] and on are the buffers of outputs
COUNTS = 16  # ctl[16] and on are how many records each of them holds
GLANCE_ROWS_MIN = 16_384
MARKS = 48  # ctl[48] and on are how many they held before this event

_HEAD = """\
import math

import numpy as np
from numba import njit

from holdfast.stepping.compiled.kernels import *
"""
_INNER = "@njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)"
_OUTER = "@njit(nogil=True, _nrt=False, no_cfunc_wrapper=True)"


def text_of(program: Program) -> str:
    # Routes first: lowering their handlers finds out what else is needed.
    routes = [_route(program, number, event) for number, event in enumerate(program.events)]
    inner = [_writer(number, each) for number, each in enumerate(program.outputs)]
    for number, timer in enumerate(program.timers):
        inner.append(_canceller(number))
        for which, cls in enumerate(timer.classes):
            inner.append(_armer(number, which, program.slots(cls)))
    inner += [*program.functions, *routes]
    parts = [_HEAD, *program.tables, *("\n".join([_INNER, *lines]) for lines in inner)]
    return "\n\n\n".join([*parts, "\n".join([_OUTER, *_fold(program)])]) + "\n"


# Outputs and timers.


def _parameters(slots: Sequence[Slot]) -> list[str]:
    names = []
    for k, slot in enumerate(slots):
        names += [f"a{k}", f"n{k}"] if slot.kind == "list" else [f"a{k}"]
    return names


def _copies(record: str, prefix: str, slots: Sequence[Slot]) -> list[str]:
    lines = []
    for k, slot in enumerate(slots):
        name = f"{record}.{prefix}{slot.name}"
        if slot.kind == "text":
            lines.append(f"    {name}__n = put_text({name}, {slot.most}, C, a{k})")
        elif slot.kind == "list":
            lines.append(f"    {name}__n = put_list({name}, {slot.most}, a{k}, n{k})")
        else:
            lines.append(f"    {name} = a{k}")
    return lines


def _writer(number: int, output: Output) -> list[str]:
    way = output.way
    extra = {"emit": [], "send": ["to", "key"], "arm": ["way", "when"]}[way]
    lines = [
        f"def {way}_{number}({', '.join(['S', 'i', 'C', *extra, *_parameters(output.slots)])}):",
        f"    n = C[0][{COUNTS + number}]",
        f"    if n >= len(C[{BUFFERS + number}]):",
        f"        C[0][5] = {number + 1}",
        "        raise Unusual",
        f"    r = C[{BUFFERS + number}][n]",
        "    r.row = i",
        "    r.version = S[i].version",
        "    r.order = C[0][2]",
        "    r.now = C[1][0]",
    ]
    if way == "send":
        lines += [
            f"    if C[0][4] >= {HOPS_MAX}:",
            "        raise Unusual",
            "    r.hops = C[0][4] + 1",
            "    r.to = to",
            "    r.key__n = put_key(r.key, C, key)",
        ]
    if way == "arm":
        lines += [
            f"    if S[i].timers >= {TIMERS_PER_AGENT_MAX}:",
            "        raise Unusual",
            "    S[i].timers += 1",
            "    C[0][3] += 1",
            "    r.serial = C[0][3]",
            "    r.due = due_at(C[1][0], way, when)",
            "    r.period = when if way == 2 else 0.0",
        ]
    lines += _copies("r", "f_", output.slots)
    return [*lines, "    C[0][2] += 1", f"    C[0][{COUNTS + number}] = n + 1"]


def _armer(number: int, which: int, slots: Sequence[Slot]) -> list[str]:
    names = ["S", "i", "C", "way", "when", *_parameters(slots)]
    t = f"S[i].t{number}"
    return [
        f"def timer_{number}_{which}({', '.join(names)}):",
        "    due = due_at(C[1][0], way, when)",
        f"    if {t}_due == 0.0:",
        f"        if S[i].timers >= {TIMERS_PER_AGENT_MAX}:",
        "            raise Unusual",
        "        S[i].timers += 1",
        f"    {t}_due = due",
        f"    {t}_period = when if way == 2 else 0.0",
        f"    {t}_event = {which}",
        *_copies("S[i]", f"t{number}_{which}_", slots),
        f"    if {t}_queued == 0.0 or {t}_queued > due:",
        "        n = C[0][8]",
        "        if n >= len(C[5]):",
        "            C[0][5] = -1",
        "            raise Unusual",
        "        C[5][n].row = i",
        f"        C[5][n].timer = {number}",
        "        C[5][n].due = due",
        "        C[0][8] = n + 1",
        f"        {t}_queued = due",
    ]


def _canceller(number: int) -> list[str]:
    return [
        f"def cancel_{number}(S, i):",
        f"    if S[i].t{number}_due == 0.0:",
        "        return False",
        f"    S[i].t{number}_due = 0.0",
        "    S[i].timers -= 1",
        "    return True",
    ]


# Routes: which handler takes an event, as `Route.choose` finds it.


def _route(program: Program, number: int, event: type[Event]) -> list[str]:
    route = program.definition.routes[event]
    lines = [f"def route_{number}(S, i, C, E, j):"]
    modes = dict.fromkeys(mode for each in route.handlers for mode in each.modes)
    anyhow = [each for each in route.handlers if not each.modes]
    for mode in modes:
        ordinal = list(type(mode)).index(mode)
        lines.append(f"    if S[i].f_{program.definition.mode_field} == {ordinal}:")
        own = [each for each in route.handlers if mode in each.modes]
        lines += _candidates(program, [*own, *anyhow], event, "        ")
        lines.append("        return False")
    return [*lines, *_candidates(program, anyhow, event, "    "), "    return False"]


def _candidates(
    program: Program, handlers: Sequence[Handler], event: type[Event], indent: str
) -> list[str]:
    lines = []
    given: list[Meaning] = [Self(program.agent), Given(event), Ctx()]
    for each in handlers:
        inner = indent
        if each.when is not None:
            lines.append(f"{indent}if {_guard(program, each, given[:2])}:")
            inner = indent + "    "
        lowered = program.helper(_plain(each.function, each), given, each.place.line)
        _check_borrowed(lowered, each)
        lines += [
            f"{inner}S[i].version += 1",
            f"{inner}{lowered.name}(S, i, C, E, j)",
            f"{inner}return True",
        ]
    return lines


def _plain(function: object, handler: Handler) -> FunctionType:
    if isinstance(function, FunctionType):
        return function
    place = handler.place
    name = getattr(function, "__name__", type(function).__name__)
    raise CannotCompile(f"{name} is not a plain function: write it as one", place.line, place.file)


def _check_borrowed(lowered: Function, handler: Handler) -> None:
    """In the interpreter it is one list until the commit, whoever changes it."""
    lent: dict[str, str] = {}
    for (name, source), line in lowered.borrows.items():
        if f"self.{name}" in lowered.changes:
            raise CannotCompile(
                f"self.{name} becomes the event's own list and is changed: write list(…)",
                line,
                handler.place.file,
            )
        if lent.setdefault(source, name) != name:
            raise CannotCompile(
                f"{source} becomes self.{lent[source]} and self.{name}: write list({source})",
                line,
                handler.place.file,
            )


def _guard(program: Program, handler: Handler, given: Sequence[Meaning]) -> str:
    lowered = program.helper(_plain(handler.when, handler), given, handler.place.line)
    place = handler.place
    if lowered.acts:
        raise CannotCompile(
            "a guard may only look: change the agent in the handler", place.line, place.file
        )
    if lowered.returns != BOOL:
        raise CannotCompile(
            f"a guard answers with a bool, this one with {lowered.returns}: compare",
            place.line,
            place.file,
        )
    return f"{lowered.name}(S, i, C, E, j)"


# The loop.


def _fold(program: Program) -> list[str]:
    buffers = [f"out{k}" for k in range(len(program.outputs))]
    events = [f"E{k}" for k in range(len(program.events))]
    fixed = ["S", "undo", "images", "touched", "rows", "codes", "times", "hops", "at", "batch"]
    fixed.append("versions")
    shared = ["ctl", "clk", "keys", "offsets", "rng", "queue", "scratch", "prefix"]
    lines = [
        f"def fold({', '.join([*fixed, *shared, *events, *buffers])}):",
        f"    C = ({', '.join([*shared, *buffers])},)",
        "    for j in range(ctl[0], len(rows)):",
        *_glance(program),
        "        i = rows[j]",
        "        ctl[0] = j",
        "        undo[0] = S[i]",
        "        ctl[9] = ctl[2]",
        "        ctl[10] = ctl[8]",
    ]
    lines += [f"        ctl[{MARKS + k}] = ctl[{COUNTS + k}]" for k in range(len(buffers))]
    lines += [
        "        if S[i].flags & 1:",
        "            raise Unusual",
        "        if S[i].batch != batch and ctl[1] >= len(touched):",
        "            ctl[5] = -2",
        "            raise Unusual",
        "        ctl[3] = 0",
        f"        ctl[11] = {sum(map(len, program.texts))}",
        "        rng[1] = 0",
        "        clk[1] = times[j] if len(times) > 1 else times[0]",
        "        ctl[4] = hops[j] if len(hops) > 1 else hops[0]",
        "        code = codes[j] if len(codes) > 1 else codes[0]",
        "        k = at[j]",
        "        taken = False",
    ]
    for number in range(len(events)):
        lines.append(f"        {'if' if number == 0 else 'elif'} code == {number}:")
        lines.append(f"            taken = route_{number}(S, i, C, E{number}, k)")
    if program.definition.unhandled != "ignore":
        lines += ["        if not taken:", "            raise Unusual"]
    return [
        *lines,
        "        if taken:",
        "            S[i].updated = clk[0]",
        "            if len(versions) > 0:",
        "                versions[j] = S[i].version",
        "            if S[i].batch != batch:",
        "                images[ctl[1]] = undo[0]",
        "                touched[ctl[1]] = i",
        "                ctl[1] += 1",
        "                S[i].batch = batch",
        "    ctl[0] = len(rows)",
    ]


def _glance(program: Program) -> list[str]:
    """Bring the agents of the next events to the cache: of a large fleet hardly one is there, and
    looks that do not wait for each other cost little more than one. ctl[12] is for nobody: it keeps
    them from being left out."""
    return [
        f"        if len(S) > {GLANCE_ROWS_MIN} and j % 16 == 0:",
        "            for n in range(j, min(j + 16, len(rows))):",
        "                ctl[12] += S[rows[n]].version",
        *(
            f"                ctl[12] += S[rows[n]].t{k}_due > 0.0"
            for k in range(len(program.timers))
        ),
    ]
