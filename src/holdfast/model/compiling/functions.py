"""One function of the user, lowered for one set of argument kinds: its statements, names, fields."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING

from holdfast.model.compiling.calls import Calls
from holdfast.model.compiling.effects import Effects
from holdfast.model.compiling.expressions import Expressions, as_float, as_int, loaded, stored
from holdfast.model.compiling.kinds import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    CannotCompile,
    Kind,
    columns_of,
)
from holdfast.model.compiling.sources import tree_of
from holdfast.model.compiling.values import Bound, Given, Meaning, Self, Thing, Value, shown

if TYPE_CHECKING:
    from holdfast.model.compiling.program import Program


class Function:
    def __init__(
        self, program: Program, function: FunctionType, name: str, arguments: Sequence[Meaning]
    ) -> None:
        self.program = program
        self.name = name
        self.source = function
        self.expressions = Expressions(self)
        self.calls = Calls(self)
        self.effects = Effects(self)
        self.lines: list[str] = []
        self.returns: Kind | None = None
        self._depth = 1
        self._temporaries = 0
        self._kinds: dict[str, Kind] = {}
        self._assigned: set[str] = set()
        self._known = _names_of(function)
        self._tree = tree_of(function)
        self._arguments = dict(zip(self._parameters(), arguments, strict=True))

    def _parameters(self) -> list[str]:
        given = self._tree.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
            raise CannotCompile(
                "only plain parameters without defaults can be compiled", self._tree.lineno
            )
        return [each.arg for each in (*given.posonlyargs, *given.args)]

    def lower(self) -> list[str]:
        """The lines of the function that the compiler gets."""
        if isinstance(self._tree, ast.Lambda):
            found = self.expressions.value(self._tree.body)
            self.returns = found.kind
            self.lines = [f"    return {found.code}"]
        else:
            ended = self._block(self._tree.body)
            if self.returns is None:
                self.returns = NOTHING
            elif not ended and self.returns != NOTHING:
                raise CannotCompile(
                    f"{self.source.__name__} may end without a value: end it with a return",
                    self._tree.lineno,
                )
        parameters = []
        for name, meaning in self._arguments.items():
            if isinstance(meaning, Value):
                parameters.append(f"v_{name}")
        head = f"def {self.name}({', '.join(('S', 'i', 'E', 'j', 'C', *parameters))}):"
        return [head, *(self.lines or ["    pass"])]

    def say(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    # Names.

    def look_up(self, name: str, node: ast.AST) -> Meaning:
        line = getattr(node, "lineno", 0)
        if name in self._kinds:
            if name not in self._assigned:
                raise CannotCompile(f"{name} may have no value here: give it one above", line)
            return Value(f"v_{name}", self._kinds[name])
        if name in self._arguments:
            found = self._arguments[name]
            return Value(f"v_{name}", found.kind) if isinstance(found, Value) else found
        if name in self._known:
            return Thing(self._known[name])
        if hasattr(builtins, name):
            return Thing(getattr(builtins, name))
        raise CannotCompile(f"{name} is not known", line) if self.program.final else NotKnownYet()

    def field_of_self(self, owner: Self, name: str, node: ast.AST) -> Meaning:
        part = self.program.parts_of_state.get(name)
        if part is not None:
            return _field(f"S[i].f_{name}", f"S[i].f_{name}__n", part.kind, "self")
        found = getattr(owner.cls, name, None)
        if isinstance(found, FunctionType):
            return Bound(owner, name, found)
        if found is not None:
            return Thing(found)
        raise CannotCompile(f"{owner.cls.__name__} has no field {name}", getattr(node, "lineno", 0))

    def field_of_event(self, owner: Given, name: str, node: ast.AST) -> Meaning:
        for part in self.program.parts(owner.cls):
            if part.name == name:
                at = columns_of(self.program.slots(owner.cls))[name]
                content = f"E[{at + 1 if part.kind.wide else at}][j]"
                return _field(content, f"E[{at}][j]", part.kind, "event")
        line = getattr(node, "lineno", 0)
        raise CannotCompile(f"{owner.cls.__name__} has no field {name}", line)

    # Statements.

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        """True if nothing behind it is reached."""
        ended = False
        for statement in statements:
            if ended:
                break  # never reached, in Python neither
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                raise CannotCompile(f"`{_word(statement)}` cannot be compiled", statement.lineno)
            try:
                ended = bool(method(statement))
            except CannotCompile as error:
                error.line = error.line or statement.lineno
                raise
        return ended

    def _inner(self, statements: Sequence[ast.stmt]) -> bool:
        self._depth += 1
        before = len(self.lines)
        ended = self._block(statements)
        if len(self.lines) == before:
            self.say("pass")
        self._depth -= 1
        return ended

    def _Pass(self, _: ast.Pass) -> None:
        pass

    def _Raise(self, _: ast.Raise) -> bool:
        self.say("raise Unusual")
        return True

    def _Assert(self, node: ast.Assert) -> None:
        self.say(f"if not {self.expressions.truth(node.test)}:")
        self.say("    raise Unusual")

    def _Break(self, _: ast.Break) -> bool:
        self.say("break")
        return True

    def _Continue(self, _: ast.Continue) -> bool:
        self.say("continue")
        return True

    def _Return(self, node: ast.Return) -> bool:
        if node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            kind, code = NOTHING, ""
        else:
            found = self.expressions.value(node.value)
            if found.kind.name == "list":
                raise CannotCompile("a list cannot be returned", node.lineno)
            kind, code = found.kind, f" {found.code}"
        if self.returns not in (None, kind):
            raise CannotCompile(
                f"returns {kind} here and {self.returns} elsewhere: make them the same", node.lineno
            )
        self.returns = kind
        self.say(f"return{code}")
        return True

    def _Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        found = self.expressions.meaning(node.value)
        if isinstance(found, Value) and found.code:
            self.say(found.code)

    def _If(self, node: ast.If) -> bool:
        self.say(f"if {self.expressions.truth(node.test)}:")
        before = set(self._assigned)
        ended = self._inner(node.body)
        after = self._assigned
        self._assigned = set(before)
        other = False
        if node.orelse:
            self.say("else:")
            other = self._inner(node.orelse)
        if ended:
            pass  # whoever is behind the if came through the other way
        elif other:
            self._assigned = after
        else:
            self._assigned &= after
        return ended and other

    def _While(self, node: ast.While) -> None:
        if node.orelse:
            raise CannotCompile("`else` of a loop cannot be compiled", node.lineno)
        self.say(f"while {self.expressions.truth(node.test)}:")
        before = set(self._assigned)
        self._inner(node.body)
        self._assigned = before

    def _For(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise CannotCompile("only `for name in …` without `else` can be compiled", node.lineno)
        before = set(self._assigned)
        call = node.iter
        is_range = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and self.look_up(call.func.id, call.func) == Thing(range)
        )
        if is_range:
            assert isinstance(call, ast.Call)
            bounds = [self._whole(each) for each in call.args]
            if call.keywords or not 1 <= len(bounds) <= 3:
                raise CannotCompile("range takes one to three whole numbers", node.lineno)
            if len(bounds) == 3:
                bounds[2] = f"step({bounds[2]})"
            self._bind(node.target.id, INT, node.lineno)
            self.say(f"for v_{node.target.id} in range({', '.join(bounds)}):")
            self._inner(node.body)
        else:
            self._over_list(node.target.id, node)
        self._assigned = before

    def _over_list(self, name: str, node: ast.For) -> None:
        found = self.expressions.value(node.iter)
        if found.kind.item is None:
            raise CannotCompile(
                f"a loop over {found.kind} cannot be compiled: use range or a list", node.lineno
            )
        self._temporaries += 1
        at = f"t{self._temporaries}"
        self._bind(name, found.kind.item, node.lineno)
        self.say(f"{at} = 0")
        self.say(f"while {at} < {found.count}:")
        self.say(f"    v_{name} = {loaded(f'{found.code}[{at}]', found.kind.item).code}")
        self.say(f"    {at} += 1")
        self._inner(node.body)

    def _whole(self, node: ast.expr) -> str:
        found = self.expressions.value(node)
        if found.kind not in (INT, BOOL):
            raise CannotCompile(f"range of {found.kind} cannot be compiled", node.lineno)
        return as_int(found)

    # Assignments.

    def _Assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            raise CannotCompile("`a = b = …` cannot be compiled: use two lines", node.lineno)
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            self._several(target, node)
        else:
            self._store(target, node.value)

    def _several(self, target: ast.Tuple, node: ast.Assign) -> None:
        """All values are computed before the first is stored."""
        if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != len(target.elts):
            raise CannotCompile(
                "only `a, b = c, d` with as many on both sides can be compiled", node.lineno
            )
        kept = []
        for each in node.value.elts:
            found = self.expressions.value(each)
            if found.kind.wide:
                raise CannotCompile(
                    f"a {found.kind} among several cannot be assigned: use a line each", node.lineno
                )
            self._temporaries += 1
            self.say(f"t{self._temporaries} = {found.code}")
            kept.append(Value(f"t{self._temporaries}", found.kind, found.constant))
        for one, value in zip(target.elts, kept, strict=True):
            self._put(one, value, node.lineno)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, node.value)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            owner = self.expressions.value(target.value)
            if owner.kind.item is None:
                raise CannotCompile(f"an item of {owner.kind} cannot be set", node.lineno)
            self._temporaries += 1
            at = f"t{self._temporaries}"
            self.say(f"{at} = {self.expressions.index(owner, target.slice)}")
            before = loaded(f"{owner.code}[{at}]", owner.kind.item)
            value = self.expressions.value(node.value)
            found = self.expressions.binary(node.op, before, value, node)
            self.say(f"{owner.code}[{at}] = {self._fitting(found, owner.kind.item, node.lineno)}")
            return
        read = ast.copy_location(_as_load(target), target)
        before = self.expressions.value(read)
        value = self.expressions.value(node.value)
        self._put(target, self.expressions.binary(node.op, before, value, node), node.lineno)

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(value, ast.List) and isinstance(target, ast.Attribute):
            owner = self.expressions.value(_as_load(target))
            self._fill(owner, value)
            return
        self._put(target, self.expressions.value(value), target.lineno)

    def _fill(self, owner: Value, node: ast.List) -> None:
        item = owner.kind.item
        if item is None or owner.place != "self":
            raise CannotCompile(f"a list cannot be stored in {owner.kind}", node.lineno)
        if len(node.elts) > owner.kind.most:
            raise CannotCompile(f"this list is longer than {owner.kind.most}", node.lineno)
        first = self._temporaries + 1
        for each in node.elts:
            found = self.expressions.value(each)
            self._temporaries += 1
            self.say(f"t{self._temporaries} = {self._fitting(found, item, node.lineno)}")
        for i in range(len(node.elts)):
            self.say(f"{owner.code}[{i}] = t{first + i}")
        self.say(f"{owner.count} = {len(node.elts)}")

    def _put(self, target: ast.expr, value: Value, line: int) -> None:
        if isinstance(target, ast.Name):
            if value.kind.name == "list":
                raise CannotCompile(
                    "a list in a variable cannot be compiled: use the field itself", line
                )
            kind = Kind("text") if value.kind.name == "text" else value.kind
            self._bind(target.id, kind, line)
            self.say(f"v_{target.id} = {value.code}")
        elif isinstance(target, ast.Attribute):
            owner = self.expressions.meaning(target.value)
            if not isinstance(owner, Self):
                raise CannotCompile(f"{shown(owner)} cannot be changed", line)
            field = self.field_of_self(owner, target.attr, target)
            if not isinstance(field, Value):
                raise CannotCompile(f"{target.attr} is no field", line)
            self._put_field(field, value, line)
        elif isinstance(target, ast.Subscript):
            found = self.expressions.value(target.value)
            if found.kind.item is None or found.place != "self":
                raise CannotCompile(f"an item of {found.kind} cannot be set here", line)
            self._temporaries += 1
            self.say(f"t{self._temporaries} = {self._fitting(value, found.kind.item, line)}")
            at = self.expressions.index(found, target.slice)
            self.say(f"{found.code}[{at}] = t{self._temporaries}")
        else:
            raise CannotCompile("this cannot be assigned to in compiled code", line)

    def _put_field(self, field: Value, value: Value, line: int) -> None:
        if field.kind.name == "text" and value.kind.name == "text":
            self.say(f"{field.count} = put_text({field.raw}, {field.kind.most}, C, {value.code})")
        elif field.kind.name == "list" and value.kind.name == "list":
            if value.place == "self":
                raise CannotCompile("one list in two fields: write list(…) for a copy", line)
            if value.kind.item != field.kind.item:
                raise CannotCompile(f"{value.kind} does not fit into {field.kind}", line)
            room = f"{field.code}, {field.kind.most}, {value.code}, {value.count}"
            self.say(f"{field.count} = put_list({room})")
        else:
            self.say(f"{field.raw} = {self._fitting(value, field.kind, line)}")

    def _fitting(self, value: Value, kind: Kind, line: int) -> str:
        """The value as it is stored in a field of this kind. Whole numbers fit into floats."""
        if kind == FLOAT and value.kind == INT:
            return as_float(value)
        if value.kind != kind:
            raise CannotCompile(f"{value.kind} does not fit into a field that is {kind}", line)
        return stored(value)

    def _bind(self, name: str, kind: Kind, line: int) -> None:
        if name in self._arguments and not isinstance(self._arguments[name], Value):
            raise CannotCompile(f"{name} cannot be given another value", line)
        if isinstance(known := self._arguments.get(name), Value):
            self._kinds.setdefault(name, known.kind)
        if self._kinds.setdefault(name, kind) != kind:
            raise CannotCompile(
                f"{name} is {self._kinds[name]} above and {kind} here: use two names, or float(…)",
                line,
            )
        self._assigned.add(name)


class NotKnownYet(Exception):
    """A name that a later line of the module defines: the class is lowered with its fleet."""


def _names_of(function: FunctionType) -> dict[str, object]:
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            pass  # defined further down
    return names


def _field(raw: str, count: str, kind: Kind, place: str) -> Value:
    if kind.name == "text":
        return Value(f"take_text(C, {raw}, {count})", kind, None, count, place, raw)
    if kind.name == "list":
        return Value(raw, kind, None, count, place, raw)
    found = loaded(raw, kind)
    return Value(found.code, kind, None, "", place, raw)


def _as_load(target: ast.expr) -> ast.expr:
    """The target of an assignment, read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    raise CannotCompile("this cannot be assigned to in compiled code", target.lineno)


def _word(statement: ast.stmt) -> str:
    words = {"FunctionDef": "def", "ClassDef": "class", "AsyncFor": "async for", "TryStar": "try"}
    name = type(statement).__name__
    return words.get(name, name.lower())
