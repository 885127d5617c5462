"""Calls inside a handler: of functions and methods of the user, of lists and of texts.

Built-in functions and `math` are in `library`, the context is in `effects`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, cast

from holdfast.model.compiling.kinds import BOOL, INT, NOTHING, TEXT, CannotCompile
from holdfast.model.compiling.library import call_library
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
    loaded,
    shown,
)

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_NOTHING = Value("", NOTHING)


class Calls:
    def __init__(self, function: Function) -> None:
        self.function = function

    def call(self, node: ast.Call) -> Meaning:
        target = self.function.expressions.meaning(node.func)
        if isinstance(target, Bound):
            return self._method(target, node)
        if not isinstance(target, Thing):
            raise CannotCompile(f"{shown(target)} cannot be called: call a function")
        found = target.object
        if found is isinstance:
            return self._isinstance(node)
        if isinstance(found, FunctionType):
            return self._user(found, (), node)
        return call_library(self.function, found, self.values(node))

    def _method(self, target: Bound, node: ast.Call) -> Meaning:
        owner = target.owner
        if isinstance(owner, Ctx):
            return self.function.effects.call(target.name, node)
        if isinstance(owner, Dice):
            return self.function.effects.draw(target.name, self.values(node))
        if isinstance(owner, Log):
            self.function.say("raise Unusual")
            return _NOTHING
        if isinstance(owner, Self | Given):
            return self._user(cast("FunctionType", target.function), [owner], node)
        if owner.kind == TEXT:
            return self._of_text(owner, target.name, self.values(node))
        return self._of_list(owner, target.name, self.values(node))

    def values(self, node: ast.Call) -> list[Value]:
        if node.keywords:
            raise CannotCompile("arguments by name cannot be compiled here: give them in order")
        return [self.function.expressions.value(each) for each in node.args]

    # Functions of the user.

    def _user(self, called: FunctionType, owner: Sequence[Meaning], node: ast.Call) -> Value:
        function = self.function
        given = self._bound(called, owner, node)
        passed = [Value("", each.kind) if isinstance(each, Value) else each for each in given]
        lowered = function.program.helper(called, passed, node.lineno)
        clash = lowered.replaces & {*function.used, *function.looping}
        clash |= lowered.changes & function.copied
        if clash:
            raise CannotCompile(
                f"{called.__name__} changes {min(clash)} while this line uses it: call it on a "
                f"line of its own, outside loops over that list"
            )
        function.replaces |= lowered.replaces
        function.changes |= lowered.changes
        function.borrows |= dict.fromkeys(lowered.borrows, node.lineno)
        function.acts |= lowered.acts
        event = ["E", "j"] if any(isinstance(each, Given) for each in given) else []
        codes = [each.code for each in given if isinstance(each, Value)]
        code = f"{lowered.name}({', '.join(['S', 'i', 'C', *event, *codes])})"
        assert lowered.returns is not None
        if lowered.returns == NOTHING:
            function.say(code)
            return _NOTHING
        return Value(function.keep(code), lowered.returns)

    def _bound(
        self, called: FunctionType, owner: Sequence[Meaning], node: ast.Call
    ) -> list[Meaning]:
        """The arguments as the function has its parameters, computed as the call has them."""
        expressions = self.function.expressions
        code = called.__code__
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise CannotCompile(
                f"{called.__name__}: only plain parameters can be compiled, write them one by one"
            )
        names = list(code.co_varnames[: code.co_argcount])
        found: dict[str, Meaning] = dict(zip(names, owner, strict=False))
        free = names[len(owner) :]
        for name, each in zip(free, node.args, strict=False):
            found[name] = self._argument(each)
        for keyword in node.keywords:
            if keyword.arg in found or keyword.arg not in names:
                raise CannotCompile(f"{called.__name__} takes {', '.join(free) or 'nothing'}")
            found[keyword.arg] = self._argument(keyword.value)
        defaults = called.__defaults__ or ()
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in found:
                found[name] = expressions.as_value(Thing(default), node)
        if len(node.args) > len(free) or len(found) != len(names):
            raise CannotCompile(f"{called.__name__} takes {', '.join(free) or 'nothing'}")
        return [found[name] for name in names]

    def _argument(self, node: ast.expr) -> Meaning:
        expressions = self.function.expressions
        found = expressions.meaning(node)
        if isinstance(found, Value) and found.kind.name == "list":
            raise CannotCompile(
                "a list cannot be handed to a function: write a method of the agent"
            )
        if isinstance(found, Self | Given | Ctx):
            return found
        return expressions.as_value(found, node)

    def _isinstance(self, node: ast.Call) -> Value:
        """`isinstance(event, Position)` is known now: a handler is lowered for each class."""
        found = [self.function.expressions.meaning(each) for each in node.args]
        if len(found) != 2 or not isinstance(found[0], Given | Self):
            raise CannotCompile("isinstance compiles for the event only: compare values")
        classes = found[1].object if isinstance(found[1], Thing) else None
        if not isinstance(classes, type):
            raise CannotCompile("isinstance compiles with the name of one class")
        answer = issubclass(found[0].cls, classes)
        return self.function.expressions.as_value(Thing(answer), node)

    # Lists and texts.

    def _of_list(self, owner: Value, name: str, values: list[Value]) -> Value:
        function, assignments = self.function, self.function.statements.assignments
        item = owner.kind.item
        assert item is not None
        if name == "append" and len(values) == 1:
            assignments.changed(owner)
            fitting = assignments.fitting(values[0], item)
            function.say(f"{owner.count} = append({owner.code}, {owner.count}, {fitting})")
            return _NOTHING
        if name == "clear" and not values:
            assignments.changed(owner)
            function.say(f"{owner.count} = 0")
            return _NOTHING
        if name == "pop" and (not values or (len(values) == 1 and values[0].kind == INT)):
            assignments.changed(owner)
            at = function.keep(f"item({values[0].code if values else '-1'}, {owner.count})")
            taken = function.keep(loaded(f"{owner.code}[{at}]", item).code)
            function.say(f"{owner.count} = take_out({owner.code}, {owner.count}, {at})")
            return Value(taken, item)
        raise CannotCompile(f"list.{name} cannot be compiled: use append, pop or clear")

    def _of_text(self, owner: Value, name: str, values: list[Value]) -> Value:
        if name in ("startswith", "endswith") and [each.kind for each in values] == [TEXT]:
            test = {"startswith": "begins", "endswith": "ends"}[name]
            code = f"{test}(C, {owner.code}, {values[0].code})"
            return Value(code, BOOL)
        raise CannotCompile(
            f"str.{name} cannot be compiled: use ==, +, slices, startswith, endswith, or do it "
            f"before the event is sent"
        )
