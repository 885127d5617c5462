"""Expressions of a handler as code for the compiler, each with its kind.

What Python would compute exactly is computed exactly; what could differ is checked by the functions
of `arithmetic`, which give up on the event instead of being wrong.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Never

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, CannotCompile, Kind
from holdfast.model.compiling.values import (
    Bound,
    Ctx,
    Dice,
    Given,
    Meaning,
    Self,
    Thing,
    Value,
    constant,
    shown,
)

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_WHOLE = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.FloorDiv: "whole_divide",
    ast.Mod: "whole_modulo",
    ast.Pow: "whole_power",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
_PLAIN = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_CHECKED = {ast.Div: "divide", ast.FloorDiv: "floor_divide", ast.Mod: "modulo"}
_BITS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "==",
    ast.IsNot: "!=",
}


class Expressions:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.program = function.program

    def value(self, node: ast.expr) -> Value:
        """The expression as a value; CannotCompile, with its line, if it is something else."""
        found = self.meaning(node)
        if isinstance(found, Thing):
            made = constant(found.object, self.program)
            if made is not None:
                return made
        if not isinstance(found, Value):
            self.refuse(node, f"{shown(found)} cannot be used as a value here")
        return found

    def meaning(self, node: ast.expr) -> Meaning:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            self.refuse(node, f"{_spoken(node)} cannot be compiled")
        try:
            return method(node)  # type: ignore[no-any-return]
        except CannotCompile as error:
            if not error.line:
                error.line = node.lineno
            raise

    def refuse(self, node: ast.AST, why: str) -> Never:
        raise CannotCompile(why, getattr(node, "lineno", 0))

    # Names and constants.

    def _Constant(self, node: ast.Constant) -> Value:
        found = constant(node.value, self.program)
        if found is None:
            self.refuse(node, f"{node.value!r} cannot be compiled")
        return found

    def _Name(self, node: ast.Name) -> Meaning:
        return self.function.look_up(node.id, node)

    def _Attribute(self, node: ast.Attribute) -> Meaning:
        owner = self.meaning(node.value)
        name = node.attr
        if isinstance(owner, Self):
            return self.function.field_of_self(owner, name, node)
        if isinstance(owner, Given):
            return self.function.field_of_event(owner, name, node)
        if isinstance(owner, Ctx):
            return self.function.effects.attribute(name, node)
        if isinstance(owner, Dice):
            return Bound(owner, name)
        if isinstance(owner, Thing):
            if not hasattr(owner.object, name):
                self.refuse(node, f"{shown(owner)} has no {name}")
            return Thing(getattr(owner.object, name))
        if isinstance(owner, Value) and owner.kind.enum is not None and name == "value":
            return self.program.enum_value(owner, owner.kind.enum)
        if isinstance(owner, Value) and owner.kind.name == "list":
            return Bound(owner, name)
        self.refuse(node, f"{shown(owner)} has no {name} in compiled code")

    # Operators.

    def _BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.binary(node.op, left, right, node)

    def binary(self, operator: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        kind = type(operator)
        if not (left.kind.numeric and right.kind.numeric):
            self.refuse(node, f"{left.kind} {_sign(kind)} {right.kind} cannot be compiled")
        if kind in _BITS and left.kind == right.kind == BOOL:
            return Value(f"({left.code} {_BITS[kind]} {right.code})", BOOL)
        whole = FLOAT not in (left.kind, right.kind)
        if kind in _BITS and whole:
            return Value(f"({as_int(left)} {_BITS[kind]} {as_int(right)})", INT)
        if whole and kind in _WHOLE:
            if kind is ast.Pow and not _is_natural(right):
                self.refuse(
                    node, "int ** int may be a float: write a constant exponent, or float(x) ** y"
                )
            return Value(f"{_WHOLE[kind]}({as_int(left)}, {as_int(right)})", INT)
        a, b = as_float(left), as_float(right)
        if kind in _PLAIN:
            return Value(f"({a} {_PLAIN[kind]} {b})", FLOAT)
        if kind in _CHECKED:
            return Value(f"{_CHECKED[kind]}({a}, {b})", FLOAT)
        if kind is ast.Pow:
            return Value(f"power({a}, {b}, C[1][2])", FLOAT)
        self.refuse(node, f"{_sign(kind)} of a float cannot be compiled")

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(f"(not {self.truth(node.operand)})", BOOL)
        found = self.value(node.operand)
        if not found.kind.numeric:
            self.refuse(node, f"{_sign(type(node.op))}{found.kind} cannot be compiled")
        if isinstance(node.op, ast.USub):
            if found.kind == FLOAT:
                return Value(f"(-{found.code})", FLOAT, _negative(found))
            if isinstance(found.constant, int):
                return Value(f"({-found.constant})", INT, -found.constant)
            return Value(f"negate({as_int(found)})", INT)
        if isinstance(node.op, ast.UAdd):
            return found if found.kind == FLOAT else Value(as_int(found), INT)
        if found.kind == FLOAT:
            self.refuse(node, "~float cannot be compiled")
        return Value(f"(~{as_int(found)})", INT)

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        word = " and " if isinstance(node.op, ast.And) else " or "
        found = [self.value(each) for each in node.values]
        if any(each.kind != BOOL for each in found):
            self.refuse(
                node,
                f"`{word.strip()}` of {found[0].kind} gives no bool: compare, or use if … else",
            )
        return Value(f"({word.join(each.code for each in found)})", BOOL)

    def truth(self, node: ast.expr) -> str:
        """A condition. `and` and `or` inside it need no bools."""
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(self.truth(each) for each in node.values)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(not {self.truth(node.operand)})"
        found = self.value(node)
        return self.truth_of(found, node)

    def truth_of(self, found: Value, node: ast.AST) -> str:
        if found.kind == BOOL:
            return found.code
        if found.kind.numeric:
            return f"({found.code} != 0)"
        if found.kind.name == "text":
            return f"(length({found.code}) != 0)"
        if found.kind.name == "list":
            return f"({found.count} != 0)"
        self.refuse(node, f"the truth of {found.kind} cannot be compiled: compare it")

    def _IfExp(self, node: ast.IfExp) -> Value:
        test = self.truth(node.test)
        body, other = self.value(node.body), self.value(node.orelse)
        if body.kind.name == other.kind.name == "text":
            return Value(f"({body.code} if {test} else {other.code})", body.kind)
        if body.kind != other.kind or body.kind.wide:
            self.refuse(
                node, f"one side is {body.kind}, the other {other.kind}: make them the same"
            )
        return Value(f"({body.code} if {test} else {other.code})", body.kind)

    # Comparisons.

    def _Compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        if isinstance(node.ops[0], ast.In | ast.NotIn) and len(node.ops) == 1:
            return Value(self._membership(node.ops[0], left, node.comparators[0], node), BOOL)
        parts = []
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self.refuse(node, "`in` inside a chain of comparisons cannot be compiled")
            right = self.value(comparator)
            if comparator is not node.comparators[-1] and not _is_simple(comparator):
                self.refuse(node, "give the middle of this comparison a name first")
            parts.append(self.compare(operator, left, right, node))
            left = right
        return Value(parts[0] if len(parts) == 1 else f"({' and '.join(parts)})", BOOL)

    def compare(self, operator: ast.cmpop, left: Value, right: Value, node: ast.AST) -> str:
        sign = _COMPARE[type(operator)]
        equality = sign in ("==", "!=")
        if isinstance(operator, ast.Is | ast.IsNot) and left.kind.enum is None:
            self.refuse(node, "`is` compiles for members of an Enum only: use ==")
        if left.kind.numeric and right.kind.numeric:
            if left.kind == right.kind:
                return f"({left.code} {sign} {right.code})"
            if FLOAT in (left.kind, right.kind):
                return f"({as_float(left)} {sign} {as_float(right)})"
            return f"({as_int(left)} {sign} {as_int(right)})"
        if equality and left.kind.name == right.kind.name == "text":
            return f"({'' if sign == '==' else 'not '}same_text(C, {left.code}, {right.code}))"
        if equality and left.kind.enum is not None and left.kind.enum is right.kind.enum:
            return f"({left.code} {sign} {right.code})"
        self.refuse(node, f"{left.kind} {sign} {right.kind} cannot be compiled")

    def _membership(
        self, operator: ast.cmpop, left: Value, right: ast.expr, node: ast.Compare
    ) -> str:
        negated = "not " if isinstance(operator, ast.NotIn) else ""
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            if not right.elts:
                self.refuse(node, "`in` of nothing cannot be compiled")
            if not _is_simple(node.left):
                self.refuse(node, "give what is looked for with `in` a name first")
            tests = [self.compare(ast.Eq(), left, self.value(each), node) for each in right.elts]
            return f"({negated}({' or '.join(tests)}))"
        found = self.value(right)
        if found.kind.item is None:
            self.refuse(node, f"`in` of {found.kind} cannot be compiled")
        if left.kind != found.kind.item:
            self.refuse(node, f"{left.kind} in {found.kind} cannot be compiled")
        return f"({negated}holds({found.code}, {found.count}, {left.code}))"

    # Items and calls.

    def _Subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        if owner.kind.item is None or isinstance(node.slice, ast.Slice):
            self.refuse(node, f"this index of {owner.kind} cannot be compiled")
        return loaded(f"{owner.code}[{self.index(owner, node.slice)}]", owner.kind.item)

    def index(self, owner: Value, node: ast.expr) -> str:
        found = self.value(node)
        if found.kind not in (INT, BOOL):
            self.refuse(node, f"an index that is {found.kind} cannot be compiled")
        return f"item({as_int(found)}, {owner.count})"

    def _Call(self, node: ast.Call) -> Meaning:
        return self.function.calls.call(node)

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        parts = []
        for each in node.values:
            if isinstance(each, ast.Constant):
                parts.append(self.value(each).code)
                continue
            assert isinstance(each, ast.FormattedValue)
            found = self.value(each.value)
            plain = each.conversion == -1 and each.format_spec is None
            if plain and found.kind.name == "text":
                parts.append(found.code)
            elif plain and found.kind == INT:
                parts.append(f"digits(C, {found.code})")
            else:
                self.refuse(
                    node, f"{found.kind} inside an f-string cannot be compiled: use str and int"
                )
        code = parts[0] if parts else self.program.text("")
        for part in parts[1:]:
            code = f"joined(C, {code}, {part})"
        return Value(code, Kind("text"))


def as_float(value: Value) -> str:
    if value.kind == FLOAT:
        return value.code
    if isinstance(value.constant, int) and abs(value.constant) <= 2**53:
        made = repr(float(value.constant))
        return f"({made})" if made.startswith("-") else made
    return f"exact({as_int(value)})"


def as_int(value: Value) -> str:
    return f"int({value.code})" if value.kind == BOOL else value.code


def loaded(code: str, kind: Kind) -> Value:
    """A word of a record as a value: truth is stored as 0 or 1."""
    return Value(f"({code} != 0)" if kind == BOOL else code, kind)


def stored(value: Value) -> str:
    return f"int({value.code})" if value.kind == BOOL else value.code


def _is_simple(node: ast.expr) -> bool:
    """May be computed twice: a name, a field or a constant."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name | ast.Constant)


def _is_natural(value: Value) -> bool:
    return isinstance(value.constant, int) and value.constant >= 0


def _negative(value: Value) -> object:
    return -value.constant if isinstance(value.constant, float) else None


def _sign(kind: type[ast.AST]) -> str:
    signs = {
        "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
        "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "MatMult": "@",
        "USub": "-", "UAdd": "+", "Invert": "~",
    }  # fmt: skip
    return signs.get(kind.__name__, kind.__name__)


_SPOKEN = {
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a generator",
    "Lambda": "a lambda",
    "Dict": "a dict",
    "Set": "a set",
    "List": "a list made here",
    "Tuple": "a tuple",
    "NamedExpr": "`:=`",
    "Starred": "`*`",
}


def _spoken(node: ast.expr) -> str:
    name = type(node).__name__
    return _SPOKEN.get(name, name)
