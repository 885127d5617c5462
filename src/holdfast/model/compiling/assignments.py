"""Assignments: to variables, to fields of the agent and to items of its lists."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from holdfast.model.compiling.kinds import FLOAT, INT, TEXT, CannotCompile, Kind
from holdfast.model.compiling.values import Meaning, Self, Value, as_int, loaded, shown

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function


class Assignments:
    def __init__(self, function: Function) -> None:
        self.function = function

    def _Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) > 1:
            value = self.function.expressions.value(node.value)
            if value.kind.name == "list":
                raise CannotCompile("one list in two fields: write a line each, with list(…)")
            value = Value(self.function.keep(value.code), value.kind, value.constant)
            for each in node.targets:
                self._put(each, value, node.lineno)
        elif isinstance(target, ast.Tuple | ast.List):
            self._several(target.elts, node)
        elif isinstance(node.value, ast.List):
            self._fill(target, node.value)
        else:
            self._put(target, self.function.expressions.value(node.value), node.lineno)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.value, ast.List):
            self._fill(node.target, node.value)
        elif node.value is not None:
            self._put(node.target, self.function.expressions.value(node.value), node.lineno)

    def _several(self, targets: list[ast.expr], node: ast.Assign) -> None:
        """All values are computed before the first is stored."""
        function = self.function
        given = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
        if len(given) != len(targets):
            raise CannotCompile(
                "only `a, b = c, d` with as many on both sides can be compiled: use a line each"
            )
        kept = []
        for each in given:
            found = function.expressions.value(each)
            if found.kind.name == "list":
                raise CannotCompile("a list among several cannot be assigned: use a line each")
            kept.append(Value(function.keep(found.code), found.kind))
        for one, value in zip(targets, kept, strict=True):
            self._put(one, value, node.lineno)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        function, target = self.function, node.target
        expressions = function.expressions
        if isinstance(target, ast.Subscript):
            owner, at = self._item(target)
            item = owner.kind.item
            assert item is not None
            before = loaded(f"{owner.code}[item({at}, {owner.count})]", item)
            before = Value(function.keep(before.code), item)
            after = expressions.binary(node.op, before, expressions.value(node.value))
            self._put_item(owner, at, after)
            return
        before = expressions.value(_as_load(target))
        value = expressions.value(node.value)
        self._put(target, expressions.binary(node.op, before, value), node.lineno)

    def _fill(self, target: ast.expr, node: ast.List) -> None:
        """`self.track = [a, b]`"""
        function = self.function
        found: Meaning | None = None
        if isinstance(target, ast.Attribute):
            found = function.expressions.meaning(_as_load(target))
        if not isinstance(found, Value) or found.kind.item is None or not _own(found):
            raise CannotCompile("a list can only be given to a field that is a list")
        if len(node.elts) > found.kind.most:
            raise CannotCompile(f"this list is longer than the {found.kind.most} that fit")
        items = [
            function.keep(self.fitting(function.expressions.value(each), found.kind.item))
            for each in node.elts
        ]
        self._replaced(found)
        for i, item in enumerate(items):
            function.say(f"{found.code}[{i}] = {item}")
        function.say(f"{found.count} = {len(items)}")

    def _put(self, target: ast.expr, value: Value, line: int) -> None:
        function = self.function
        if isinstance(target, ast.Name):
            if value.kind.name == "list":
                raise CannotCompile("a list in a variable cannot be compiled: use the field itself")
            function.bind(target.id, value.kind, line)
            function.say(f"v_{target.id} = {value.code}")
        elif isinstance(target, ast.Attribute):
            owner = function.expressions.meaning(target.value)
            if not isinstance(owner, Self):
                raise CannotCompile(f"{shown(owner)} cannot be changed: change a field of self")
            if target.attr not in function.program.fields:
                raise CannotCompile(f"{target.attr} is no field of {owner.cls.__name__}: add it")
            self._put_field(target.attr, value, line)
        elif isinstance(target, ast.Subscript):
            owned, at = self._item(target)
            self._put_item(owned, at, value)
        else:
            raise CannotCompile("this cannot be assigned to: use names and fields, a line each")

    def _item(self, target: ast.Subscript) -> tuple[Value, str]:
        """The list and the index that an assignment goes to; where that is, is looked up last."""
        expressions = self.function.expressions
        owner = expressions.value(target.value)
        if owner.kind.item is None or not _own(owner) or isinstance(target.slice, ast.Slice):
            raise CannotCompile("only an item of a list of the agent can be set: use the field")
        return owner, self.function.keep(expressions.whole_index(target.slice))

    def _put_item(self, owner: Value, at: str, value: Value) -> None:
        item = owner.kind.item
        assert item is not None
        self.changed(owner)
        fitting = self.fitting(value, item)
        self.function.say(f"{owner.code}[item({at}, {owner.count})] = {fitting}")

    def _put_field(self, name: str, value: Value, line: int) -> None:
        function = self.function
        kind = function.program.fields[name].kind
        room = f"S[i].f_{name}"
        function.acts = True
        if kind.name == "text" and value.kind == TEXT:
            function.say(f"{room}__n = put_text({room}, {kind.most}, C, {value.code})")
        elif kind.item is not None and value.kind.name == "list":
            if value.field.startswith("self."):
                raise CannotCompile("one list in two fields: write list(…) for a copy")
            if value.kind.item != kind.item:
                raise CannotCompile(f"{value.kind} does not fit into {name}, which is {kind}")
            if value.field:
                function.borrows.setdefault((name, value.field), line)
            self._replaced(Value(room, kind, None, "", f"self.{name}"))
            function.say(f"{room}__n = put_list({room}, {kind.most}, {value.code}, {value.count})")
        else:
            function.say(f"{room} = {self.fitting(value, kind, name)}")

    def _replaced(self, owner: Value) -> None:
        function = self.function
        function.acts = True
        if owner.field in function.looping:
            raise CannotCompile(
                f"{owner.field} becomes another list inside a loop over it: do that after the loop"
            )
        function.replaces.add(owner.field)

    def changed(self, owner: Value) -> None:
        """A list of the agent is changed in place."""
        if not _own(owner):
            raise CannotCompile("only lists of the agent can be changed: copy it with list(…)")
        if owner.field in self.function.copied:
            raise CannotCompile(f"{owner.field} is copied and changed in one line: use two lines")
        self.function.acts = True
        self.function.changes.add(owner.field)

    def fitting(self, value: Value, kind: Kind, name: str = "it") -> str:
        """The value as it is stored in a field of this kind.

        A whole number in a float field would stay whole in the interpreter until the commit, and
        differ there: -0 is no -0.0, and sums of whole numbers are exact.
        """
        if kind == FLOAT and value.kind == INT:
            known = value.constant
            better = f"{float(known)}" if isinstance(known, int) else "float(…)"
            raise CannotCompile(f"an int is given where {name} is a float: write {better}")
        if value.kind != kind:
            raise CannotCompile(f"{value.kind} is given where {name} is {kind}: convert it")
        return as_int(value)


def _own(value: Value) -> bool:
    return value.field.startswith("self.")


def _as_load(target: ast.expr) -> ast.expr:
    """The target of an assignment, read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    raise CannotCompile("this cannot be assigned to: use names and fields, a line each")
