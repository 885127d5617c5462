"""What names and expressions in a function stand for, as far as it can be told without running it.

Globals, closures and builtins are looked up in the loaded module, so aliases need no guessing; a
name that the function binds itself hides them. `meaning` is for what an expression *is* (a module,
a function, an object of the module), `kind` for which type its value has.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from holdfast.model.context import Context
from holdfast.testing.checking.sources import FunctionNode, Part

MISSING = object()
# Modules behind the ones that people import.
_FACADES = {
    "_io": "io",
    "_random": "random",
    "_socket": "socket",
    "_thread": "threading",
    "ntpath": "os.path",
    "posix": "os",
    "posixpath": "os.path",
}
_SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}


class Meaning(NamedTuple):
    """`names` are the dotted names it goes by; `value` may be MISSING."""

    names: tuple[str, ...]
    value: object
    local: bool = False  # imported inside the function, so not an object that outlives it


class Names:
    def __init__(self, part: Part, node: FunctionNode) -> None:
        self._function = part.function
        self._owner = part.owner
        self.node = node
        self._imports: dict[str, Meaning] = {}
        self.locals: set[str] = set()
        self.globals: set[str] = set()
        self._kinds: dict[str, object] = {}
        self._bind()
        self._kinds.update(self._annotated())
        self._kinds.update((name, kind) for name, kind in part.types if kind is not None)
        self._infer_locals()

    # Names that the function binds.

    def _bind(self) -> None:
        for node in ast.walk(self.node):
            if isinstance(node, ast.Global):
                self.globals.update(node.names)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._imports.update(_imported(node))
            else:
                self.locals.update(_bound(node))
        self.locals -= self.globals

    def _annotated(self) -> dict[str, object]:
        try:
            hints = typing.get_type_hints(self._function, include_extras=False)
        except Exception:
            return {}  # annotations under TYPE_CHECKING, say
        first = [each.arg for each in self.node.args.args[:1]]
        if self._owner is not None and first and first[0] not in hints:
            hints[first[0]] = type[self._owner] if first[0] == "cls" else self._owner
        return hints

    def _infer_locals(self) -> None:
        """Kinds of local names that are bound by plain assignments only, all of one kind."""
        found: dict[str, list[object]] = {}
        for node in ast.walk(self.node):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(self.kind(node.value))
                    else:
                        for name in _stored(target):
                            found.setdefault(name, []).append(None)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                value = None if node.value is None else self.kind(node.value)
                found.setdefault(node.target.id, []).append(value)
            elif isinstance(node, ast.For | ast.comprehension):
                for name in _stored(node.target):
                    found.setdefault(name, []).append(None)
        for name, kinds in found.items():
            if name not in self._kinds:
                self._kinds[name] = kinds[0] if all(each == kinds[0] for each in kinds) else None

    # What an expression is.

    def meaning(self, node: ast.expr) -> Meaning | None:
        """None for locals and for what is only known at run time."""
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        return None

    def _name(self, name: str) -> Meaning | None:
        if name in self._imports:
            return self._imports[name]
        if name in self.locals:
            return None
        code, closure = self._function.__code__, self._function.__closure__ or ()
        if name in code.co_freevars:
            try:
                value = closure[code.co_freevars.index(name)].cell_contents
            except ValueError:
                return None  # not filled yet
            return Meaning(_names_of(value), value)
        if name in self._function.__globals__:
            value = self._function.__globals__[name]
            return Meaning(_names_of(value), value)
        if hasattr(builtins, name):
            return Meaning((f"builtins.{name}",), getattr(builtins, name))
        return None

    def _attribute(self, node: ast.Attribute) -> Meaning | None:
        base = self.meaning(node.value)
        if base is None:
            kind = self.kind(node.value)
            if isinstance(kind, type) and issubclass(kind, PurePath):
                return Meaning((f"pathlib.Path.{node.attr}",), MISSING, local=True)
            return None
        value = _safe_attribute(base.value, node.attr)
        names = [f"{name}.{node.attr}" for name in base.names]
        if isinstance(base.value, types.ModuleType):
            names += _names_of(value)
        elif not isinstance(base.value, type) and base.value is not MISSING:
            names += [f"{name}.{node.attr}" for name in _names_of(type(base.value))]
        return Meaning(tuple(dict.fromkeys(names)), value, base.local)

    def is_shared(self, node: ast.expr) -> str | None:
        """The name of what outlives the event, if the expression is (a part of) such a thing."""
        if isinstance(node, ast.Subscript):
            return self.is_shared(node.value)
        if isinstance(node, ast.Attribute):
            kind = self.kind(node.value)
            if isinstance(kind, type) and node.attr not in fields_of(kind):
                held = vars_of(kind).get(node.attr, MISSING)
                if isinstance(held, list | dict | set):
                    return f"{kind.__name__}.{node.attr}"
            if self.is_class(node.value):
                return f"{ast.unparse(node.value)}.{node.attr}"
            return self.is_shared(node.value) and ast.unparse(node)
        if isinstance(node, ast.Name) and node.id not in self._imports:
            return node.id if self._name(node.id) is not None else None
        return None

    def is_class(self, node: ast.expr) -> bool:
        """`cls`, `type(self)` or `self.__class__`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id == "type" and len(node.args) == 1
        if isinstance(node, ast.Attribute):
            return node.attr == "__class__"
        return isinstance(node, ast.Name) and typing.get_origin(self._kinds.get(node.id)) is type

    # Which type a value has.

    def kind(self, node: ast.expr) -> object:
        """A type, or None where nothing says it."""
        if isinstance(node, ast.Set | ast.SetComp):
            return set
        if isinstance(node, ast.Call):
            return self._kind_of_call(node)
        if isinstance(node, ast.BinOp):
            return self._kind_of_operation(node)
        if isinstance(node, ast.IfExp):
            return self.kind(node.body) or self.kind(node.orelse)
        if isinstance(node, ast.Name):
            if node.id in self._kinds:
                return self._kinds[node.id]
            found = self._name(node.id)
            return None if found is None or found.value is MISSING else type(found.value)
        if isinstance(node, ast.Attribute):
            of = self.kind(node.value)
            if isinstance(of, type):
                return fields_of(of).get(node.attr)
        return None

    def _kind_of_call(self, node: ast.Call) -> object:
        found = self.meaning(node.func)
        if found is not None and isinstance(found.value, type):
            return found.value
        if isinstance(node.func, ast.Name) and node.func.id == "super" and self._owner:
            return self._owner.__mro__[1] if len(self._owner.__mro__) > 1 else None
        if isinstance(node.func, ast.Attribute):
            of = self.kind(node.func.value)
            if is_set(of) and node.func.attr in _SET_METHODS:
                return set
        return None

    def _kind_of_operation(self, node: ast.BinOp) -> object:
        sides = (node.left, node.right)
        if isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            views = any(
                isinstance(each, ast.Call)
                and isinstance(each.func, ast.Attribute)
                and each.func.attr in ("keys", "items")
                for each in sides
            )
            if views or any(is_set(self.kind(each)) for each in sides):
                return set
        left = self.kind(node.left)
        is_path = isinstance(left, type) and issubclass(left, PurePath)
        return left if is_path and isinstance(node.op, ast.Div) else None

    def is_context(self, node: ast.expr) -> bool:
        kind = self.kind(node)
        return isinstance(kind, type) and issubclass(kind, Context)


def is_set(kind: object) -> bool:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(is_set(each) for each in typing.get_args(kind))
    plain = typing.get_origin(kind) or kind
    return isinstance(plain, type) and issubclass(plain, set | frozenset)


def fields_of(cls: type) -> dict[str, object]:
    """Fields with their types, of a Struct, dataclass or Agent."""
    if not hasattr(cls, "__annotations__"):
        return {}
    try:
        return typing.get_type_hints(cls)
    except Exception:
        return dict.fromkeys(getattr(cls, "__struct_fields__", ()))


def vars_of(cls: type) -> dict[str, object]:
    """What the class itself and its bases hold, nearest first."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base))
    return found


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name


def _stored(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Meaning]]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            dotted = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or dotted, Meaning((dotted,), sys.modules.get(dotted, MISSING), True)
        else:
            dotted = f"{node.module}.{alias.name}"
            value = _safe_attribute(sys.modules.get(node.module or "", MISSING), alias.name)
            names = tuple(dict.fromkeys((dotted, *_names_of(value))))
            yield alias.asname or alias.name, Meaning(names, value, True)


def _names_of(value: object) -> tuple[str, ...]:
    """The dotted name of a module, class or function; of a bound method, that of its class too."""
    if isinstance(value, types.ModuleType):
        return (_facade(value.__name__),)
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str) or value is MISSING:
        return ()
    bound = getattr(value, "__self__", None)
    if isinstance(bound, type):
        return (f"{_facade(bound.__module__)}.{bound.__qualname__}.{value.__name__}",)  # type: ignore[attr-defined]
    if bound is not None and not isinstance(bound, types.ModuleType):
        return (f"{_facade(type(bound).__module__)}.{name}",)
    module = getattr(value, "__module__", None) or ""
    return (f"{_facade(module)}.{name}",)


def _facade(module: str) -> str:
    return _FACADES.get(module, "pathlib" if module.startswith("pathlib.") else module)


def _safe_attribute(value: object, name: str) -> object:
    """An attribute without running a property of somebody's object."""
    if isinstance(value, types.ModuleType | type):
        return getattr(value, name, MISSING)
    found: object = getattr(type(value), name, MISSING)
    return found
