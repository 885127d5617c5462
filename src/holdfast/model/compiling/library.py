"""Built-in functions and `math`: what each becomes in a kernel."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from holdfast.model.compiling import operators
from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, TEXT, CannotCompile
from holdfast.model.compiling.values import Thing, Value, as_float, as_int, shown

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

# Those whose compiled form gives the same bits; `finite` gives up where Python may raise.
_FINITE: set[object] = {
    math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.sinh, math.cosh, math.tanh,
    math.asinh, math.acosh, math.atanh, math.exp, math.expm1, math.log, math.log1p, math.log2,
    math.log10, math.degrees, math.radians, math.erf, math.erfc, math.atan2, math.fabs,
}  # fmt: skip
_OWN: dict[object, str] = {
    math.sqrt: "sqrt",
    math.hypot: "hypot",
    math.fmod: "fmod",
    math.copysign: "copysign",
    math.pow: "power",
}
_TO_INT: dict[object, str] = {math.floor: "floor", math.ceil: "ceil", math.trunc: "truncate"}
_TESTS: set[object] = {math.isnan, math.isinf, math.isfinite}
_TWO: set[object] = {math.atan2, math.copysign, math.hypot, math.fmod, math.pow}


def call_library(function: Function, called: object, values: list[Value]) -> Value:
    made: Value | None = None
    known = _BUILTINS.get(called) if isinstance(called, Hashable) else None
    if known is not None:
        made = known(function, values)
    elif getattr(called, "__module__", None) == "math":
        made = _math(called, values)
    if made is None:
        kinds = ", ".join(str(each.kind) for each in values)
        raise CannotCompile(
            f"{shown(Thing(called))}({kinds}) cannot be compiled: {_instead(called)}"
        )
    return made


def _instead(called: object) -> str:
    """What to do about a function that has no compiled form."""
    module = (getattr(called, "__module__", None) or "").partition(".")[0]
    if called in (print, input, open):
        return "handlers do no I/O; use ctx.log"
    if module in ("time", "datetime"):
        return "handlers have no clock of their own; use ctx.now"
    if module in ("random", "secrets", "uuid"):
        return "it differs at every re-execution; use ctx.random or ctx.new_id"
    if module in ("numpy", "statistics", "cmath") or called is math.fsum:
        return "use math, or a loop"
    if called in (str, int, float) or isinstance(called, type):
        return "there is no compiled form for it; let the event bring the value as it is needed"
    return "write it as a function of your own, with numbers"


def _math(called: object, values: list[Value]) -> Value | None:
    if any(not each.kind.numeric for each in values):
        return None
    name = getattr(called, "__name__", "")
    if called is math.log and len(values) == 2:
        logarithms = [_math(math.log, [each]) for each in values]
        return Value(f"divide({', '.join(each.code for each in logarithms if each)})", FLOAT)
    if len(values) != (2 if called in _TWO else 1):
        return None
    if called in _TO_INT:
        whole = values[0].kind != FLOAT
        return Value(as_int(values[0]) if whole else f"{_TO_INT[called]}({values[0].code})", INT)
    arguments = ", ".join(map(as_float, values))
    if called in _OWN:
        one = ", C[1][2]" if called is math.pow else ""
        return Value(f"{_OWN[called]}({arguments}{one})", FLOAT)
    if called in _TESTS:
        return Value(f"math.{name}({arguments})", BOOL)
    if called in _FINITE:
        return Value(f"finite(math.{name}({arguments}))", FLOAT)
    return None


# Each gets the values and gives None for those it does not know.


def _absolute(_: Function, values: list[Value]) -> Value | None:
    if len(values) != 1 or not values[0].kind.numeric:
        return None
    if values[0].kind == FLOAT:
        return Value(f"abs({values[0].code})", FLOAT)
    return Value(f"magnitude({as_int(values[0])})", INT)


def _to_int(_: Function, values: list[Value]) -> Value | None:
    if len(values) != 1 or not values[0].kind.numeric:
        return None
    if values[0].kind == FLOAT:
        return Value(f"truncate({values[0].code})", INT)
    return Value(as_int(values[0]), INT)


def _to_float(_: Function, values: list[Value]) -> Value | None:
    if len(values) != 1 or not values[0].kind.numeric:
        return None
    return Value(as_float(values[0]), FLOAT)


def _to_bool(function: Function, values: list[Value]) -> Value | None:
    if len(values) != 1 or values[0].kind.enum is not None:
        return None
    found = values[0]
    if found.kind.name == "list":
        return Value(function.keep(f"({found.count} != 0)"), BOOL)
    zero = f"length({found.code})" if found.kind == TEXT else found.code
    return found if found.kind == BOOL else Value(f"({zero} != 0)", BOOL)


def _to_text(_: Function, values: list[Value]) -> Value | None:
    if len(values) == 1 and values[0].kind == TEXT:
        return values[0]
    if len(values) == 1 and values[0].kind == INT:
        return Value(f"digits(C, {values[0].code})", TEXT)
    return None


def _round(_: Function, values: list[Value]) -> Value | None:
    if not values or not values[0].kind.numeric:
        return None
    found = values[0]
    if len(values) == 1:
        return Value(f"nearest({found.code})" if found.kind == FLOAT else as_int(found), INT)
    if len(values) == 2 and values[1].kind == INT:
        if found.kind == FLOAT:
            return Value(f"rounded({found.code}, {values[1].code})", FLOAT)
        return Value(f"rounded_whole({as_int(found)}, {values[1].code})", INT)
    return None


def _length(function: Function, values: list[Value]) -> Value | None:
    if len(values) == 1 and values[0].kind.name == "list":
        return Value(function.keep(values[0].count), INT)
    if len(values) == 1 and values[0].kind == TEXT:
        return Value(f"length({values[0].code})", INT)
    return None


def _least(function: Function, values: list[Value]) -> Value | None:
    return _extreme("least", function, values)


def _most(function: Function, values: list[Value]) -> Value | None:
    return _extreme("most", function, values)


def _extreme(name: str, function: Function, values: list[Value]) -> Value | None:
    if len(values) == 1 and values[0].kind.item in (INT, FLOAT):
        item = values[0].kind.item
        assert item is not None
        return Value(function.keep(f"{name}_of({values[0].code}, {values[0].count})"), item)
    if len(values) < 2 or not all(each.kind.numeric for each in values):
        return None
    if len({each.kind for each in values}) > 1:
        raise CannotCompile(
            "min and max take numbers of one type: write float(…) around the others"
        )
    code = values[0].code
    for each in values[1:]:
        code = f"{name}({code}, {each.code})"
    return Value(code, values[0].kind)


def _sum(function: Function, values: list[Value]) -> Value | None:
    if len(values) == 1 and values[0].kind.item == INT:
        return Value(function.keep(f"sum_of({values[0].code}, {values[0].count})"), INT)
    if len(values) == 1 and values[0].kind.item == FLOAT:
        raise CannotCompile("sum of floats differs between versions of Python: write a loop")
    return None


def _copy(function: Function, values: list[Value]) -> Value | None:
    """What is stored is copied anyway, so it is enough to say that it was meant."""
    if not values or values[0].kind.name != "list" or len(values) != 1:
        return None
    found = values[0]
    function.copied.add(found.field)
    return Value(found.code, found.kind, None, found.count, "")


def _power(_: Function, values: list[Value]) -> Value | None:
    return operators.binary(ast.Pow, *values) if len(values) == 2 else None


_BUILTINS: dict[object, Callable[[Function, list[Value]], Value | None]] = {
    abs: _absolute,
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_text,
    round: _round,
    len: _length,
    min: _least,
    max: _most,
    sum: _sum,
    list: _copy,
    pow: _power,
}
