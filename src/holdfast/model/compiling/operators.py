"""Operators on values whose code is known: arithmetic and comparisons."""

from __future__ import annotations

import ast

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, TEXT, CannotCompile
from holdfast.model.compiling.values import Value, as_float, as_int

_WHOLE: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.FloorDiv: "whole_divide",
    ast.Mod: "whole_modulo",
    ast.Pow: "whole_power",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
_PLAIN: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_CHECKED: dict[type[ast.AST], str] = {
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
}
_BITS: dict[type[ast.AST], str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARE: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "==",
    ast.IsNot: "!=",
}
_SIGNS: dict[type[ast.AST], str] = {
    **_PLAIN,
    **_BITS,
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
}


def binary(operator: type[ast.operator], left: Value, right: Value) -> Value:
    if not (left.kind.numeric and right.kind.numeric):
        raise CannotCompile(
            f"{left.kind} {_SIGNS[operator]} {right.kind} cannot be compiled: convert one of them"
        )
    whole = FLOAT not in (left.kind, right.kind)
    if operator in _BITS and whole:
        bits = f"({as_int(left)} {_BITS[operator]} {as_int(right)})"
        return (
            Value(f"({bits} != 0)", BOOL) if left.kind == right.kind == BOOL else Value(bits, INT)
        )
    # A negative exponent makes a float; one that turns out negative is given up.
    negative = isinstance(right.constant, int) and right.constant < 0
    if whole and operator in _WHOLE and not (operator is ast.Pow and negative):
        return Value(f"{_WHOLE[operator]}({as_int(left)}, {as_int(right)})", INT)
    a, b = as_float(left), as_float(right)
    if operator in _PLAIN:
        return Value(f"({a} {_PLAIN[operator]} {b})", FLOAT)
    if operator in _CHECKED:
        return Value(f"{_CHECKED[operator]}({a}, {b})", FLOAT)
    if operator is ast.Pow:
        return Value(f"power({a}, {b}, C[1][2])", FLOAT)
    raise CannotCompile(f"{_SIGNS[operator]} of a float cannot be compiled: use int(…)")


def unary(operator: type[ast.unaryop], found: Value) -> Value:
    if not found.kind.numeric:
        raise CannotCompile(f"{_SIGNS[operator]}{found.kind} cannot be compiled: use a number")
    if operator is ast.USub:
        known = found.constant
        if isinstance(known, int) and known != -(2**63):
            return Value(f"({-known})", INT, -known)
        if isinstance(known, float):
            return Value(f"(-{found.code})", FLOAT, -known)
        if found.kind == FLOAT:
            return Value(f"(-{found.code})", FLOAT)
        return Value(f"negate({as_int(found)})", INT)
    if operator is ast.UAdd:
        return found if found.kind == FLOAT else Value(as_int(found), INT)
    if found.kind == FLOAT:
        raise CannotCompile("~ of a float cannot be compiled: use int(…)")
    return Value(f"(~{as_int(found)})", INT)


def compare(operator: ast.cmpop, left: Value, right: Value) -> str:
    sign = _COMPARE[type(operator)]
    equality = sign in ("==", "!=")
    if isinstance(operator, ast.Is | ast.IsNot) and left.kind.enum is None:
        raise CannotCompile("`is` compiles for members of an Enum only: use ==")
    if left.kind.numeric and right.kind.numeric:
        if FLOAT in (left.kind, right.kind):
            return f"({as_float(left)} {sign} {as_float(right)})"
        return f"({as_int(left)} {sign} {as_int(right)})"
    if left.kind == right.kind == TEXT:
        if equality:
            return f"({'' if sign == '==' else 'not '}same_text(C, {left.code}, {right.code}))"
        return f"(order_of(C, {left.code}, {right.code}) {sign} 0)"
    if equality and left.kind.enum is not None and left.kind.enum is right.kind.enum:
        return f"({left.code} {sign} {right.code})"
    raise CannotCompile(
        f"{left.kind} {sign} {right.kind} cannot be compiled: compare what is of one type"
    )
