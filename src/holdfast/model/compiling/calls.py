"""Calls inside a handler: built-in functions, `math`, and functions and methods of the user."""

from __future__ import annotations

import ast
import math
from types import FunctionType
from typing import TYPE_CHECKING

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
    shown,
)

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

# Functions of `math` whose compiled form gives the same bits; `finite` gives up where Python raises.
_FINITE = {
    math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.sinh, math.cosh, math.tanh,
    math.asinh, math.acosh, math.atanh, math.exp, math.expm1, math.log, math.log1p, math.log2,
    math.log10, math.degrees, math.radians, math.erf, math.erfc, math.atan2, math.copysign,
    math.fabs,
}  # fmt: skip
_OWN = {math.sqrt: "sqrt", math.hypot: "hypot", math.fmod: "fmod"}
_TO_INT = {math.floor: "floor", math.ceil: "ceil", math.trunc: "truncate"}
_TESTS = {math.isnan, math.isinf, math.isfinite}
_TWO = {math.atan2, math.copysign, math.hypot, math.fmod}
_LOG_BASE = "math.log with a base cannot be compiled: write math.log(x) / math.log(base)"


class Calls:
    def __init__(self, function: Function) -> None:
        self.function = function

    def call(self, node: ast.Call) -> Meaning:
        target = self.function.expressions.meaning(node.func)
        if isinstance(target, Bound):
            return self._method(target, node)
        if not isinstance(target, Thing):
            raise CannotCompile(f"{shown(target)} cannot be called", node.lineno)
        found = target.object
        if isinstance(found, FunctionType):
            return self._user(found, self._meanings(node), node)
        if getattr(found, "__module__", None) == "math":
            return self._math(found, node)
        maker = getattr(self, f"_{getattr(found, '__name__', '')}", None)
        if getattr(found, "__module__", None) == "builtins" and maker is not None:
            return maker(self._values(node), node)  # type: ignore[no-any-return]
        raise CannotCompile(f"{shown(target)}(…) cannot be compiled here", node.lineno)

    def _method(self, target: Bound, node: ast.Call) -> Meaning:
        if isinstance(target.owner, Ctx):
            return self.function.effects.call(target.name, node)
        if isinstance(target.owner, Dice):
            return self.function.effects.draw(target.name, self._values(node), node)
        if isinstance(target.owner, Self):
            assert target.function is not None
            return self._user(target.function, [target.owner, *self._meanings(node)], node)
        return self._list_method(target.owner, target.name, node)

    # Functions of the user.

    def _user(self, function: FunctionType, arguments: list[Meaning], node: ast.Call) -> Value:
        passed: list[Meaning] = []
        codes = []
        for each in arguments:
            if isinstance(each, Value):
                if each.kind.name == "list":
                    raise CannotCompile("a list cannot be handed to a function", node.lineno)
                kind = Kind("text") if each.kind.name == "text" else each.kind
                passed.append(Value("", kind))
                codes.append(each.code)
            elif isinstance(each, Self | Given | Ctx):
                passed.append(each)
            else:
                raise CannotCompile(f"{shown(each)} cannot be handed to a function", node.lineno)
        name, kind = self.function.program.helper(function, passed, node.lineno)
        return Value(f"{name}({', '.join(('S', 'i', 'E', 'j', 'C', *codes))})", kind)

    def _meanings(self, node: ast.Call) -> list[Meaning]:
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise CannotCompile("arguments by name cannot be compiled here", node.lineno)
        expressions = self.function.expressions
        found: list[Meaning] = []
        for each in node.args:
            meaning = expressions.meaning(each)
            found.append(expressions.value(each) if isinstance(meaning, Thing) else meaning)
        return found

    def _values(self, node: ast.Call) -> list[Value]:
        if node.keywords:
            raise CannotCompile("arguments by name cannot be compiled here", node.lineno)
        return [self.function.expressions.value(each) for each in node.args]

    # `math`.

    def _math(self, found: object, node: ast.Call) -> Value:
        from holdfast.model.compiling.expressions import as_float, as_int

        values = self._values(node)
        name = getattr(found, "__name__", "")
        if any(not each.kind.numeric for each in values):
            raise CannotCompile(f"math.{name} takes numbers", node.lineno)
        if found is math.log and len(values) == 2:
            raise CannotCompile(_LOG_BASE, node.lineno)
        if found in _TO_INT and len(values) == 1:
            whole = values[0].kind != FLOAT
            code = as_int(values[0]) if whole else f"{_TO_INT[found]}({values[0].code})"
            return Value(code, INT)
        arguments = ", ".join(map(as_float, values))
        if len(values) != (2 if found in _TWO else 1):
            raise CannotCompile(f"math.{name} with {len(values)} arguments", node.lineno)
        if found in _OWN:
            return Value(f"{_OWN[found]}({arguments})", FLOAT)  # type: ignore[index]
        if found in _TESTS:
            return Value(f"math.{name}({arguments})", BOOL)
        if found in _FINITE:
            return Value(f"finite(math.{name}({arguments}))", FLOAT)
        raise CannotCompile(f"math.{name} cannot be compiled", node.lineno)

    # Built-in functions.

    def _abs(self, values: list[Value], node: ast.Call) -> Value:
        (found,) = self._numbers(values, node, 1)
        if found.kind == FLOAT:
            return Value(f"abs({found.code})", FLOAT)
        return Value(f"magnitude({_int(found)})", INT)

    def _int(self, values: list[Value], node: ast.Call) -> Value:
        (found,) = self._numbers(values, node, 1)
        if found.kind == FLOAT:
            return Value(f"truncate({found.code})", INT)
        return Value(_int(found), INT)

    def _float(self, values: list[Value], node: ast.Call) -> Value:
        from holdfast.model.compiling.expressions import as_float

        (found,) = self._numbers(values, node, 1)
        return Value(as_float(found), FLOAT)

    def _bool(self, values: list[Value], node: ast.Call) -> Value:
        if len(values) != 1:
            raise CannotCompile("bool takes one value", node.lineno)
        return Value(self.function.expressions.truth_of(values[0], node), BOOL)

    def _round(self, values: list[Value], node: ast.Call) -> Value:
        if len(values) != 1:
            raise CannotCompile(
                "round to digits cannot be compiled: write round(x * 10) / 10", node.lineno
            )
        (found,) = self._numbers(values, node, 1)
        return Value(f"nearest({found.code})" if found.kind == FLOAT else _int(found), INT)

    def _len(self, values: list[Value], node: ast.Call) -> Value:
        if len(values) == 1 and values[0].kind.name == "list":
            return Value(values[0].count, INT)
        if len(values) == 1 and values[0].kind.name == "text":
            return Value(f"length({values[0].code})", INT)
        raise CannotCompile("len takes a list or a str", node.lineno)

    def _min(self, values: list[Value], node: ast.Call) -> Value:
        return self._extreme("least", "<", values, node)

    def _max(self, values: list[Value], node: ast.Call) -> Value:
        return self._extreme("most", ">", values, node)

    def _extreme(self, name: str, sign: str, values: list[Value], node: ast.Call) -> Value:
        if len(values) == 1 and values[0].kind.item in (INT, FLOAT):
            item = values[0].kind.item
            assert item is not None
            return Value(f"{name}_of({values[0].code}, {values[0].count})", item)
        if len(values) < 2 or len({each.kind for each in values}) > 1:
            raise CannotCompile(
                "min and max take numbers of one kind: write float(…) around the others",
                node.lineno,
            )
        values = self._numbers(values, node, len(values))
        code = values[0].code
        for each in values[1:]:
            code = f"{name}({code}, {each.code})"
        return Value(code, values[0].kind)

    def _sum(self, values: list[Value], node: ast.Call) -> Value:
        if len(values) == 1 and values[0].kind.item == INT:
            return Value(f"sum_of({values[0].code}, {values[0].count})", INT)
        raise CannotCompile("sum compiles for a list of int: write a loop", node.lineno)

    def _list(self, values: list[Value], node: ast.Call) -> Value:
        """A copy: what is stored is copied anyway, so it is enough to say that it was meant."""
        if len(values) == 1 and values[0].kind.name == "list":
            found = values[0]
            return Value(found.code, found.kind, None, found.count, "copy")
        raise CannotCompile("list(…) compiles for a list only", node.lineno)

    def _numbers(self, values: list[Value], node: ast.Call, count: int) -> list[Value]:
        if len(values) != count or any(not each.kind.numeric for each in values):
            raise CannotCompile(f"this takes {count} number(s)", node.lineno)
        return values

    # Methods of lists.

    def _list_method(self, owner: Value, name: str, node: ast.Call) -> Value:
        values = self._values(node)
        item = owner.kind.item
        assert item is not None
        if owner.place != "self":
            raise CannotCompile(f"a list of {owner.place} cannot be changed", node.lineno)
        if name == "append" and len(values) == 1:
            fitting = self.function._fitting(values[0], item, node.lineno)
            self.function.say(f"{owner.count} = append({owner.code}, {owner.count}, {fitting})")
            return Value("", Kind("nothing"))
        if name == "clear" and not values:
            self.function.say(f"{owner.count} = 0")
            return Value("", Kind("nothing"))
        raise CannotCompile(f"list.{name} cannot be compiled: use append or clear", node.lineno)


def _int(value: Value) -> str:
    return f"int({value.code})" if value.kind == BOOL else value.code
