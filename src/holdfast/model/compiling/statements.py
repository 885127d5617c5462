"""Statements of a handler: conditions, loops and returns. Assignments are in `assignments`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.model.compiling.assignments import Assignments
from holdfast.model.compiling.kinds import BOOL, INT, NOTHING, CannotCompile
from holdfast.model.compiling.values import Thing, Value, as_int, loaded

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_WORDS = {
    "FunctionDef": "`def` inside a function: move it to the module",
    "ClassDef": "`class` inside a function: move it to the module",
    "Try": "`try`: check before, an event that fails is undone and becomes a dead letter",
    "TryStar": "`try`: check before, an event that fails is undone and becomes a dead letter",
    "With": "`with`: handlers do no I/O",
    "Match": "`match`: write if and elif",
    "Global": "`global`: keep it in a field of the agent",
    "Nonlocal": "`nonlocal`: keep it in a field of the agent",
    "Delete": "`del`: use pop or clear",
    "Import": "`import` inside a function: move it to the top",
    "ImportFrom": "`import` inside a function: move it to the top",
}


class Statements:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.assignments = Assignments(function)

    def block(self, statements: Sequence[ast.stmt]) -> bool:
        """True if nothing behind it is reached."""
        for statement in statements:
            self.function.used.clear()
            self.function.copied.clear()
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                method = getattr(self.assignments, f"_{type(statement).__name__}", None)
            if method is None:
                name = type(statement).__name__
                what = _WORDS.get(name, f"`{name.lower()}`: leave it out")
                raise CannotCompile(f"cannot compile {what}", statement.lineno)
            try:
                if method(statement):
                    return True  # whatever follows is never reached, in Python neither
            except CannotCompile as error:
                error.line = error.line or statement.lineno
                raise
        return False

    def _inner(self, statements: Sequence[ast.stmt]) -> bool:
        with self.function.inside():
            return self.block(statements)

    def _Pass(self, _: ast.Pass) -> None:
        pass

    def _Raise(self, _: ast.Raise) -> bool:
        self.function.say("raise Unusual")
        return True

    def _Assert(self, node: ast.Assert) -> None:
        if __debug__:
            self.function.say(f"if not {self.function.expressions.truth(node.test)}:")
            self.function.say("    raise Unusual")

    def _Break(self, _: ast.Break) -> bool:
        self.function.say("break")
        return True

    def _Continue(self, _: ast.Continue) -> bool:
        self.function.say("continue")
        return True

    def _Return(self, node: ast.Return) -> bool:
        function = self.function
        kind, code = NOTHING, ""
        if node.value is not None and getattr(node.value, "value", self) is not None:
            found = function.expressions.meaning(node.value)
            if not isinstance(found, Value) or found.kind != NOTHING:
                found = function.expressions.as_value(found, node.value)
                kind, code = found.kind, f" {found.code}"
            if kind.name == "list":
                raise CannotCompile("a list cannot be returned: use the field where it is needed")
        if function.returns not in (None, kind):
            raise CannotCompile(
                f"returns {kind} here and {function.returns} elsewhere: make them the same"
            )
        function.returns = kind
        function.say(f"return{code}")
        return True

    def _Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        found = self.function.expressions.meaning(node.value)
        if isinstance(found, Value) and found.kind.name not in ("nothing", "list"):
            self.function.keep(found.code)  # for nothing but the error that it may raise

    def _If(self, node: ast.If) -> bool:
        function = self.function
        test = function.expressions.truth(node.test)
        if test in ("True", "False"):
            return self.block(node.body if test == "True" else node.orelse)
        function.say(f"if {test}:")
        before = set(function.assigned)
        ended = self._inner(node.body)
        after, function.assigned = function.assigned, before
        other = False
        if node.orelse:
            function.say("else:")
            function.assigned = set(before)
            other = self._inner(node.orelse)
        if not ended:  # otherwise whoever is behind the `if` came through the other way
            function.assigned = after if other else function.assigned & after
        return ended and other

    # Loops. All become `while True`: conditions may take several lines.

    def _While(self, node: ast.While) -> bool:
        function = self.function
        before = set(function.assigned)
        function.say("while True:")
        with function.inside():
            test = function.expressions.truth(node.test)
            if test != "True":
                function.say(f"if not {test}:")
                self._leave(node.orelse)
            self.block(node.body)
        function.assigned = before
        return test == "True" and not _jumps(node.body, ast.Break)

    def _leave(self, orelse: Sequence[ast.stmt]) -> None:
        """The end of a loop that ran its course: its `else` belongs to that way out."""
        if _jumps(orelse):
            raise CannotCompile("`break` and `continue` in the `else` of a loop: use a variable")
        before = set(self.function.assigned)
        with self.function.inside():
            if not self.block(orelse):
                self.function.say("break")
        self.function.assigned = before

    def _For(self, node: ast.For) -> None:
        function = self.function
        if not isinstance(node.target, ast.Name):
            raise CannotCompile("cannot compile a loop over several names: use range(len(…))")
        before = set(function.assigned)
        call = node.iter
        called = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if called and function.look_up(call.func.id, call.func) == Thing(range):  # type: ignore[attr-defined]
            assert isinstance(call, ast.Call)
            self._over_range(node.target.id, call, node)
        else:
            self._over_list(node.target.id, node)
        function.assigned = before

    def _over_range(self, name: str, call: ast.Call, node: ast.For) -> None:
        function = self.function
        if call.keywords or not 1 <= len(call.args) <= 3:
            raise CannotCompile("range takes one to three whole numbers")
        bounds = [function.keep(self._whole(each)) for each in call.args]
        first = "0" if len(bounds) == 1 else bounds[0]
        last = bounds[0] if len(bounds) == 1 else bounds[1]
        by = bounds[2] if len(bounds) == 3 else "1"
        left, at = function.keep(f"steps({first}, {last}, {by})"), function.keep(first)
        function.say("while True:")
        with function.inside():
            function.say(f"if {left} <= 0:")
            self._leave(node.orelse)
            function.bind(name, INT, node.lineno)
            function.say(f"v_{name} = {at}")
            function.say(f"{left} -= 1")
            function.say(f"{at} += {by}")
            self.block(node.body)

    def _whole(self, node: ast.expr) -> str:
        found = self.function.expressions.value(node)
        if found.kind not in (INT, BOOL):
            raise CannotCompile(f"range of {found.kind} cannot be compiled: use int(…)")
        return as_int(found)

    def _over_list(self, name: str, node: ast.For) -> None:
        """As Python's: by index, and as long as the list is at that moment."""
        function = self.function
        found = function.expressions.value(node.iter)
        if found.kind.item is None:
            raise CannotCompile(
                f"a loop over {found.kind} cannot be compiled: use range or a list of the agent"
            )
        if not found.field:
            raise CannotCompile("a loop over a copy cannot be compiled: loop over the list itself")
        at = function.keep("0")
        function.looping.append(found.field)
        function.say("while True:")
        with function.inside():
            function.say(f"if {at} >= {found.count}:")
            self._leave(node.orelse)
            function.bind(name, found.kind.item, node.lineno)
            function.say(f"v_{name} = {loaded(f'{found.code}[{at}]', found.kind.item).code}")
            function.say(f"{at} += 1")
            self.block(node.body)
        function.looping.pop()


def _jumps(statements: Sequence[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """Whether a `break` or `continue` here concerns the loop around; an inner loop has its own."""
    for each in statements:
        if isinstance(each, kinds or (ast.Break, ast.Continue)):
            return True
        inner: list[ast.stmt] = [*getattr(each, "orelse", ())]
        if not isinstance(each, ast.For | ast.While):
            inner += getattr(each, "body", ())
        if _jumps(inner, *kinds):
            return True
    return False
