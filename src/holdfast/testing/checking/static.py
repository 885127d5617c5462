"""Reading the code of a fleet for what would make two runs differ, without running it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType

from holdfast.model.agent import Agent
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.references import is_user_code
from holdfast.testing.checking.findings import Finding, shown, silenced
from holdfast.testing.checking.mutating import FIX, mutations
from holdfast.testing.checking.naming import MISSING, Names, vars_of
from holdfast.testing.checking.ordering import orders
from holdfast.testing.checking.rules import THREADS, rule_for
from holdfast.testing.checking.sources import Files, Part, body_of, entries, unwrapped

_SORT = "sort it, as in sorted(…)"
_TEXTS = ("builtins.str", "builtins.repr", "builtins.format", "builtins.ascii")


def read_fleet(fleet: FleetModel) -> tuple[list[Finding], list[str]]:
    """All findings in order, and the functions whose source is not to be had."""
    reading = Reading(frozenset(fleet.calls.values()))
    for part in entries(fleet):
        reading.read(part)
    unique = {(each.file, each.line, each.column, each.what): each for each in reading.found[::-1]}
    return sorted(unique.values()), sorted(set(reading.unreadable))


class Reading:
    """`calls` run elsewhere, so they may do what they like; a handler that runs one itself not."""

    def __init__(self, calls: frozenset[object] = frozenset()) -> None:
        self._calls = calls
        self.found: list[Finding] = []
        self.unreadable: list[str] = []
        self._files = Files()
        self._seen: set[tuple[CodeType, type | None]] = set()

    def read(self, part: Part) -> None:
        """A function, and then all functions of the user that it calls."""
        waiting = [part]
        while waiting:
            each = waiting.pop(0)
            at = (each.function.__code__, each.owner)
            if at in self._seen:
                continue
            self._seen.add(at)
            nodes = self._files.nodes(each.function)
            if not nodes:
                self.unreadable.append(each.subject)
            for node in nodes:
                names = Names(each, node)
                for place, what, fix in _problems(each, names):
                    self._report(each, place, what, fix)
                waiting += _called(each, names, self._calls)

    def _report(self, part: Part, node: ast.AST, what: str, fix: str) -> None:
        file = part.function.__code__.co_filename
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        if silenced(self._files.line(file, line)):
            return
        if part.helper:
            what = f"{what} in {part.helper}, which it calls"
        self.found.append(Finding(shown(file), line, column, part.subject, what, fix))


def _problems(part: Part, names: Names) -> Iterator[tuple[ast.AST, str, str]]:
    parents = {child: node for node in body_of(names.node) for child in ast.iter_child_nodes(node)}
    for node in body_of(names.node):
        yield from _uses(node, names, parents)
    for place, what in mutations(part.function, names):
        yield place, what, FIX
    for place in orders(names, parents):
        text = ast.unparse(place) if isinstance(place, ast.expr) else "a set"
        yield place, f"the order of the set {text} differs between processes", _SORT


def _uses(
    node: ast.AST, names: Names, parents: dict[ast.AST, ast.AST]
) -> Iterator[tuple[ast.AST, str, str]]:
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef):
        yield node, THREADS.what.format("async code"), THREADS.fix
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        parent = parents.get(node)
        if isinstance(parent, ast.Attribute) and names.meaning(parent) is not None:
            return  # the longer name says more
        found = names.meaning(node)
        if found is not None and is_user_code(found.value, None):
            return  # a module of the user that is called like a known one: it is read instead
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        for name in found.names if found is not None else ():
            rule = rule_for(name, call)
            if rule is not None:
                yield node, rule.what.format(name.removeprefix("builtins.")), rule.fix
                return
    elif isinstance(node, ast.FormattedValue):
        yield from _address(node.value, names)
    elif isinstance(node, ast.Call):
        called = names.meaning(node.func)
        if called is not None and set(_TEXTS) & set(called.names) and node.args:
            yield from _address(node.args[0], names)


def _address(node: ast.expr, names: Names) -> Iterator[tuple[ast.AST, str, str]]:
    """Text of an object that has none of its own shows where it is in memory."""
    found = names.meaning(node)
    value = found.value if found is not None else MISSING
    kind: object = type(value) if value is not MISSING else names.kind(node)
    if isinstance(node, ast.Attribute) and found is None:
        owner = names.kind(node.value)
        if isinstance(owner, type) and isinstance(vars_of(owner).get(node.attr), FunctionType):
            kind = FunctionType
    if not isinstance(kind, type) or issubclass(kind, type):
        return
    bare = kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__
    if bare or issubclass(kind, FunctionType):
        what = f"the text of {ast.unparse(node)} holds its address in memory"
        yield node, what, "name what you mean, as in ctx.key"


# ---------------------------------------------------------------- what it calls


def _called(part: Part, names: Names, calls: frozenset[object]) -> list[Part]:
    """Functions of the user that this one mentions, apart from those it gives to `ctx.call`."""
    found = []
    run = {each.func for each in body_of(names.node) if isinstance(each, ast.Call)}
    for node in body_of(names.node):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        for function, owner, name in _functions(node, names):
            if function in calls and node not in run:
                continue
            if is_user_code(function, part.owner):
                found.append(Part(part.subject, function, owner, (), name))
    return found


def _functions(
    node: ast.Name | ast.Attribute, names: Names
) -> Iterator[tuple[FunctionType, type | None, str]]:
    meaning = names.meaning(node)
    if meaning is not None:
        value = meaning.value
        if isinstance(value, type):
            yield from _constructors(value)
        else:
            plain = unwrapped(value)
            if plain is not None:
                owner = getattr(value, "__self__", None)
                yield plain, owner if isinstance(owner, type) else None, plain.__name__
        return
    if isinstance(node, ast.Attribute):
        kind = names.kind(node.value)
        if isinstance(kind, type):
            yield from _methods(kind, node.attr)


def _methods(cls: type, name: str) -> Iterator[tuple[FunctionType, type | None, str]]:
    held = inspect.getattr_static(cls, name, None)
    if isinstance(held, property):
        held = held.fget
    elif isinstance(held, staticmethod | classmethod):
        held = held.__func__
    plain = unwrapped(held)
    if plain is not None:
        yield plain, cls, f"{cls.__name__}.{name}"


def _constructors(cls: type) -> Iterator[tuple[FunctionType, type | None, str]]:
    for name in ("__init__", "__new__", "__post_init__"):
        held = vars_of(cls).get(name)
        generated = issubclass(cls, Agent | Event | Action) and name != "__post_init__"
        if isinstance(held, FunctionType) and not generated:
            yield held, cls, cls.__name__
