"""Expressions of a handler as code for the compiler, each with its kind.

What Python would compute exactly is computed exactly; what could differ is checked by the functions
of the kernels, which give up on the event instead of being wrong.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Never

from holdfast.model.compiling import operators
from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, TEXT, CannotCompile
from holdfast.model.compiling.values import (
    Bound,
    Ctx,
    Dice,
    Given,
    Log,
    Meaning,
    Self,
    Thing,
    Value,
    as_int,
    constant,
    loaded,
    shown,
)

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_SPOKEN = {
    "ListComp": "a comprehension: write a loop",
    "SetComp": "a comprehension: write a loop",
    "DictComp": "a comprehension: write a loop",
    "GeneratorExp": "a generator: write a loop",
    "Lambda": "a lambda: write it as a function of the module",
    "Dict": "a dict: use an if, or an Enum with values",
    "Set": "a set made here: compare one by one",
    "List": "a list made here: only [a, b] or list(…) alone can be given to a field",
    "Tuple": "a tuple: use a name for each",
    "NamedExpr": "`:=`: use a line of its own",
    "Starred": "`*`: write the arguments out",
    "Await": "`await`: handlers are plain functions",
    "Slice": "a slice here: use a loop",
}


class Expressions:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.program = function.program

    def value(self, node: ast.expr) -> Value:
        """The expression as a value; CannotCompile, with its line, if it is something else."""
        return self.as_value(self.meaning(node), node)

    def as_value(self, found: Meaning, node: ast.expr) -> Value:
        if isinstance(found, Thing):
            made = constant(found.object, self.program)
            if made is not None:
                return made
        if not isinstance(found, Value) or found.kind.name == "nothing":
            what = "None" if isinstance(found, Value) else shown(found)
            self.refuse(node, f"{what} cannot be used as a value here: use numbers, str or an Enum")
        return found

    def meaning(self, node: ast.expr) -> Meaning:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            name = type(node).__name__
            self.refuse(node, f"cannot compile {_SPOKEN.get(name, name)}")
        try:
            return method(node)  # type: ignore[no-any-return]
        except CannotCompile as error:
            error.line = error.line or node.lineno
            raise

    def refuse(self, node: ast.AST, why: str) -> Never:
        raise CannotCompile(why, getattr(node, "lineno", 0))

    # Names and constants.

    def _Constant(self, node: ast.Constant) -> Value:
        found = constant(node.value, self.program)
        if found is None:
            self.refuse(node, f"{node.value!r} cannot be compiled: use numbers, str or an Enum")
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
        if isinstance(owner, Dice | Log):
            return Bound(owner, name)
        if isinstance(owner, Thing):
            if not hasattr(owner.object, name):
                self.refuse(node, f"{shown(owner)} has no {name}: add it or rename this")
            return Thing(getattr(owner.object, name))
        if isinstance(owner, Value) and owner.kind.enum is not None and name in ("value", "name"):
            return self.program.of_member(owner.code, owner.kind.enum, name)
        if isinstance(owner, Value) and owner.kind.wide:
            return Bound(owner, name)
        self.refuse(node, f"{shown(owner)} has no {name} in compiled code: leave it out")

    # Operators.

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(operator, ast.Add) and left.kind == right.kind == TEXT:
            return Value(f"joined(C, {left.code}, {right.code})", TEXT)
        return operators.binary(type(operator), left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return truth_value(_negated(self.truth(node.operand)))
        return operators.unary(type(node.op), self.value(node.operand))

    # Conditions. Parts that need lines of their own are only reached where Python reaches them.

    def truth(self, node: ast.expr) -> str:
        """A condition, "True" or "False" if that is known already. `and` and `or` inside it need
        no bools."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _negated(self.truth(node.operand))
        if not isinstance(node, ast.BoolOp):
            return self.truth_of(self.value(node), node)
        stop = "False" if isinstance(node.op, ast.And) else "True"
        found = self.truth(node.values[0])
        for each in node.values[1:]:
            if found == stop:
                return stop
            with self.function.aside() as lines:
                code = self.truth(each)
            found = self._either(found, stop, code, lines)
        return found

    def _either(self, found: str, stop: str, code: str, lines: list[str]) -> str:
        """What was found so far, or else what these lines find."""
        if found == stop:
            return stop
        if found in ("True", "False"):
            self.function.lines += [line[4:] for line in lines]
            return code
        if not lines:
            return f"({found} {'and' if stop == 'False' else 'or'} {code})"
        kept = self.function.keep(found)
        self.function.say(f"if {kept if stop == 'False' else f'not {kept}'}:")
        self.function.lines += lines
        self.function.say(f"    {kept} = {code}")
        return kept

    def truth_of(self, found: Value, node: ast.AST) -> str:
        if found.kind == BOOL:
            return found.code
        if found.constant is not None and found.kind.enum is None:
            return repr(bool(found.constant))
        if found.kind.numeric:
            return f"({found.code} != 0)"
        if found.kind == TEXT:
            return f"(length({found.code}) != 0)"
        if found.kind.name == "list":
            return self.function.keep(f"({found.count} != 0)")
        self.refuse(node, f"the truth of {found.kind} cannot be compiled: compare it")

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        """`a or b` is a or b itself, not whether one of them is true."""
        first = self.value(node.values[0])
        if first.kind.name == "list":
            self.refuse(node, "`and` and `or` of lists cannot be compiled: use if and else")
        both = isinstance(node.op, ast.And)
        found = first.code if first.kind == BOOL else self.function.keep(first.code)
        for each in node.values[1:]:
            if first.kind == BOOL and found == ("False" if both else "True"):
                break  # the rest may not even make sense: isinstance(event, A) and event.of_a
            with self.function.aside() as lines:
                other = self.value(each)
            if other.kind != first.kind:
                self._unlike(node, first, other)
            if first.kind == BOOL:
                found = self._either(found, "False" if both else "True", other.code, lines)
                continue
            test = self.truth_of(Value(found, first.kind), node)
            self.function.say(f"if {test if both else _negated(test)}:")
            self.function.lines += lines
            self.function.say(f"    {found} = {other.code}")
        return truth_value(found) if first.kind == BOOL else Value(found, first.kind)

    def _IfExp(self, node: ast.IfExp) -> Value:
        test = self.truth(node.test)
        if test in ("True", "False"):
            return self.value(node.body if test == "True" else node.orelse)
        with self.function.aside() as first:
            body = self.value(node.body)
        with self.function.aside() as second:
            other = self.value(node.orelse)
        if body.kind != other.kind or body.kind.name == "list":
            self._unlike(node, body, other)
        if not first and not second:
            return Value(f"({body.code} if {test} else {other.code})", body.kind)
        self.function.say(f"if {test}:")
        kept = self.function.fresh()
        self.function.lines += first
        self.function.say(f"    {kept} = {body.code}")
        self.function.say("else:")
        self.function.lines += second
        self.function.say(f"    {kept} = {other.code}")
        return Value(kept, body.kind)

    def _unlike(self, node: ast.AST, one: Value, other: Value) -> Never:
        self.refuse(
            node, f"one side is {one.kind}, the other {other.kind}: make them the same type"
        )

    # Comparisons.

    def _Compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        found = "True"
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            with self.function.aside() as lines:
                if isinstance(operator, ast.In | ast.NotIn):
                    if comparator is not node.comparators[-1]:
                        self.refuse(node, "a comparison behind `in` cannot be compiled: use `and`")
                    test, right = self._membership(operator, left, comparator)
                else:
                    right = self.value(comparator)
                    test = operators.compare(operator, left, right)
                if len(node.ops) > 1 and not right.kind.wide:
                    right = Value(self.function.keep(right.code), right.kind, right.constant)
            found = self._either(found, "False", test, lines)
            left = right
        return Value(found, BOOL)

    def _membership(self, operator: ast.cmpop, left: Value, node: ast.expr) -> tuple[str, Value]:
        negated = isinstance(operator, ast.NotIn)
        choices = self._choices(node)
        if choices is not None:
            tests = [operators.compare(ast.Eq(), left, each) for each in choices]
            if not tests:
                self.refuse(node, "`in` of nothing cannot be compiled: leave it out")
            test = f"({' or '.join(tests)})"
            if left.kind == FLOAT:  # Python takes a NaN that is the very object for equal
                test = f"(known({left.code}) and {test})"
            return _negated(test) if negated else test, left
        found = self.value(node)
        if found.kind == left.kind == TEXT:
            test = f"contains(C, {found.code}, {left.code})"
        elif found.kind.item is not None and left.kind == found.kind.item:
            test = self.function.keep(f"holds({found.code}, {found.count}, {as_int(left)})")
        else:
            self.refuse(node, f"{left.kind} in {found.kind} cannot be compiled: compare it")
        return _negated(test) if negated else test, found

    def _choices(self, node: ast.expr) -> list[Value] | None:
        """What stands to choose from in `in (a, b)`, or in a constant of that form."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [self._computed(self.value(each)) for each in node.elts]
        if isinstance(node, ast.Name | ast.Attribute) and not self._is_field(node):
            found = self.meaning(node)
            if isinstance(found, Thing) and isinstance(found.object, tuple | frozenset):
                return [self.as_value(Thing(each), node) for each in found.object]
        return None

    def _computed(self, found: Value) -> Value:
        """Now, whether it will be looked at or not: it may raise."""
        if found.constant is not None or found.kind.name == "list":
            return found
        return Value(self.function.keep(found.code), found.kind)

    def _is_field(self, node: ast.expr) -> bool:
        with self.function.aside():
            return isinstance(self.meaning(node), Value)

    # Items, calls and texts.

    def _Subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        if owner.kind == TEXT:
            return self._piece(owner, node.slice)
        if owner.kind.item is None:
            self.refuse(node, f"an item of {owner.kind} cannot be compiled: use a list or str")
        if isinstance(node.slice, ast.Slice):
            self.refuse(node, "a slice of a list cannot be compiled: use a loop, or pop(0)")
        at = self.whole_index(node.slice)
        item = loaded(f"{owner.code}[item({at}, {owner.count})]", owner.kind.item)
        return Value(self.function.keep(item.code), item.kind)

    def whole_index(self, node: ast.expr) -> str:
        found = self.value(node)
        if found.kind not in (INT, BOOL):
            self.refuse(node, f"an index that is {found.kind} cannot be compiled: use int(…)")
        return as_int(found)

    def _piece(self, owner: Value, node: ast.expr) -> Value:
        if not isinstance(node, ast.Slice):
            at = self.function.keep(f"item({self.whole_index(node)}, length({owner.code}))")
            return Value(f"cut({owner.code}, {at}, {at} + 1)", TEXT)
        if node.step is not None:
            self.refuse(node, "a slice with a step cannot be compiled: use a loop")
        first = self.whole_index(node.lower) if node.lower is not None else "0"
        last = self.whole_index(node.upper) if node.upper is not None else f"length({owner.code})"
        return Value(f"cut({owner.code}, {first}, {last})", TEXT)

    def _Call(self, node: ast.Call) -> Meaning:
        return self.function.calls.call(node)

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        codes = []
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                plain = each.conversion == -1 and each.format_spec is None
                found = self.value(each.value)
                if not plain or found.kind not in (TEXT, INT):
                    self.refuse(
                        node,
                        f"only plain str and int inside an f-string can be compiled, not "
                        f"{found.kind if plain else 'a format'}: send the number itself",
                    )
                codes.append(found.code if found.kind == TEXT else f"digits(C, {found.code})")
            else:
                codes.append(self.value(each).code)
        code = codes[0] if codes else self.program.text("")
        for part in codes[1:]:
            code = f"joined(C, {code}, {part})"
        return Value(code, TEXT)


def _negated(code: str) -> str:
    return {"True": "False", "False": "True"}.get(code, f"(not {code})")


def truth_value(code: str) -> Value:
    return Value(code, BOOL, {"True": True, "False": False}.get(code))
