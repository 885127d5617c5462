"""One function of the user, lowered for one set of arguments: its lines, its names, its fields.

Statements and expressions are lowered by `Statements` and `Expressions`; they write their lines
here, one operation after the other, in the order in which Python would do them.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING

from holdfast.model.compiling.calls import Calls
from holdfast.model.compiling.effects import Effects
from holdfast.model.compiling.expressions import Expressions
from holdfast.model.compiling.kinds import NOTHING, TEXT, CannotCompile, Kind, Part, columns_of
from holdfast.model.compiling.sources import tree_of
from holdfast.model.compiling.statements import Statements
from holdfast.model.compiling.values import Bound, Given, Meaning, Self, Thing, Value, loaded

if TYPE_CHECKING:
    from holdfast.model.compiling.program import Program


_BLOCKS_MAX = 60  # inside each other. Python's own bound is 100, and expressions take some too


class NotKnownYet(Exception):
    """A name that a later line of the module defines: the class is lowered with its fleet."""


class Function:
    def __init__(
        self, program: Program, function: FunctionType, name: str, arguments: Sequence[Meaning]
    ) -> None:
        self.program = program
        self.name = name
        self.source = function
        self.expressions = Expressions(self)
        self.statements = Statements(self)
        self.calls = Calls(self)
        self.effects = Effects(self)
        self.lines: list[str] = []
        self.returns: Kind | None = None
        # What it does, with all it calls, to the lists of the agent and to the agent at all.
        self.replaces: set[str] = set()  # lists that become another list
        self.changes: set[str] = set()  # lists that are changed in place
        # Lists that become the event's very list, which one, and where.
        self.borrows: dict[tuple[str, str], int] = {}
        self.acts = False
        self.used: set[str] = set()  # lists that the statement at hand has looked at
        self.copied: set[str] = set()  # lists that it has asked for a copy of
        self.looping: list[str] = []  # lists that loops around it go through
        self._depth = 1
        self._temporaries = 0
        self._known = _names_of(function)
        self._locals = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        self._tree = tree_of(function)
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        if len(names) != len(arguments):
            raise CannotCompile(
                f"{function.__name__} has {len(names)} parameters and gets {len(arguments)}: "
                f"write a function of {len(arguments)}"
            )
        self.arguments = dict(zip(names, arguments, strict=True))
        given = {name: each for name, each in self.arguments.items() if isinstance(each, Value)}
        self.kinds: dict[str, Kind] = {name: each.kind for name, each in given.items()}
        self.assigned = set(given)

    def lower(self) -> list[str]:
        """The lines of the function that the compiler gets."""
        tree = self._tree
        if isinstance(tree, ast.Lambda):
            found = self.expressions.value(tree.body)
            self.returns = found.kind
            self.say(f"return {found.code}")
        else:
            ended = self.statements.block(tree.body)
            if self.returns is None:
                self.returns = NOTHING
            elif not ended and self.returns != NOTHING:
                raise CannotCompile(
                    f"{self.source.__name__} may end without a value: end it with a return",
                    tree.lineno,
                )
        passed = [f"v_{name}" for name, each in self.arguments.items() if isinstance(each, Value)]
        event = ("E", "j") if any(isinstance(e, Given) for e in self.arguments.values()) else ()
        head = f"def {self.name}({', '.join(('S', 'i', 'C', *event, *passed))}):"
        return [head, *(self.lines or ["    pass"])]

    # Lines.

    def say(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    def keep(self, code: str) -> str:
        """Compute this now, and give the variable that holds it."""
        name = self.fresh()
        self.say(f"{name} = {code}")
        return name

    def fresh(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The lines of an inner block."""
        if self._depth == _BLOCKS_MAX:
            raise CannotCompile(
                f"more than {_BLOCKS_MAX} blocks inside each other, and each elif is inside the "
                "one before: move some into a function of their own"
            )
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.say("pass")
        self._depth -= 1

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """The lines of an inner block, not yet written: it may need none."""
        outer, self.lines = self.lines, []
        self._depth += 1
        try:
            yield self.lines
        finally:
            self.lines = outer
            self._depth -= 1

    # Names.

    def look_up(self, name: str, node: ast.AST) -> Meaning:
        line = getattr(node, "lineno", 0)
        if name in self._locals:
            return self._local(name, line)
        if name in self._known:
            return Thing(self._known[name])
        if hasattr(builtins, name):
            return Thing(getattr(builtins, name))
        if name == self.program.agent.__name__:
            return Thing(self.program.agent)  # its own name, while the class is being made
        if not self.program.final:
            raise NotKnownYet
        raise CannotCompile(f"{name} is not known: define or import it", line)

    def _local(self, name: str, line: int) -> Meaning:
        if name in self.arguments and name not in self.kinds:
            return self.arguments[name]
        if name not in self.assigned:
            raise CannotCompile(
                f"{name} may have no value here: give it one above, on every way", line
            )
        return Value(f"v_{name}", self.kinds[name])

    def bind(self, name: str, kind: Kind, line: int) -> None:
        """A variable gets a value, of the kind it always has."""
        if kind == NOTHING:
            raise CannotCompile(f"{name} would be None: give it a value of one type", line)
        if name in self.arguments and name not in self.kinds:
            raise CannotCompile(f"{name} cannot be given another value: use another name", line)
        if self.kinds.setdefault(name, kind) != kind:
            raise CannotCompile(
                f"{name} is {self.kinds[name]} elsewhere and {kind} here: use two names"
                + (", or float(…)" if kind.numeric else ""),
                line,
            )
        self.assigned.add(name)

    # Fields.

    def field_of_self(self, owner: Self, name: str, node: ast.AST) -> Meaning:
        part = self.program.fields.get(name)
        if part is not None:
            return self._field(part, f"S[i].f_{name}", f"S[i].f_{name}__n", "self")
        return self._member(owner, name, getattr(node, "lineno", 0))

    def field_of_event(self, owner: Given, name: str, node: ast.AST) -> Meaning:
        for part in self.program.parts(owner.cls):
            if part.name == name:
                at = columns_of(self.program.slots(owner.cls))[name]
                if part.kind.wide:
                    return self._field(part, f"E[{at + 1}][j]", f"E[{at}][j]", "event")
                return loaded(f"E[{at}][j]", part.kind)  # nothing can change it
        return self._member(owner, name, getattr(node, "lineno", 0))

    def _field(self, part: Part, room: str, count: str, owner: str) -> Value:
        if part.kind.name == "text":
            return Value(self.keep(f"take_text(C, {room}, {count})"), TEXT)
        if part.kind.name == "list":
            field = f"{owner}.{part.name}"
            self.used.add(field)
            return Value(room, part.kind, None, count, field)
        found = loaded(room, part.kind)
        return Value(self.keep(found.code), part.kind)

    def _member(self, owner: Self | Given, name: str, line: int) -> Meaning:
        """A method or a constant of a class."""
        if name.startswith("__") and not name.endswith("__"):
            inside = self.source.__qualname__.split(".")[-2:][0]
            name = f"_{inside.lstrip('_')}{name}"
        found = inspect.getattr_static(owner.cls, name, None)
        if isinstance(found, FunctionType):
            return Bound(owner, name, found)
        if isinstance(found, staticmethod):
            return Thing(found.__func__)
        if isinstance(found, classmethod | property):
            raise CannotCompile(
                f"{name} is a {type(found).__name__}: write it as a plain method", line
            )
        if found is None:
            raise CannotCompile(f"{owner.cls.__name__} has no {name}: add it or rename this", line)
        return Thing(found)


def _names_of(function: FunctionType) -> dict[str, object]:
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            names.pop(name, None)  # defined further down
    return names
