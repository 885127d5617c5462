"""What changes and outlives the event: globals, class attributes, defaults of parameters.

No commit holds them: after a restart, on another worker or in a replay they are what they were at
import, and the agents fold differently.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from types import FunctionType

from holdfast.testing.checking.naming import MISSING, Names
from holdfast.testing.checking.sources import body_of

FIX = "keep it in a field of the agent"
_MUTATORS = {
    "add",
    "append",
    "appendleft",
    "clear",
    "difference_update",
    "discard",
    "extend",
    "extendleft",
    "insert",
    "intersection_update",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "reverse",
    "rotate",
    "setdefault",
    "sort",
    "subtract",
    "symmetric_difference_update",
    "update",
}


def mutations(function: FunctionType, names: Names) -> Iterator[tuple[ast.AST, str]]:
    """Every place that changes something shared, and what it is."""
    defaults = _mutable_defaults(function)
    for node in body_of(names.node):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            if node.id in names.globals:
                yield node, f"changes the global {node.id}"
        elif isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node.ctx, ast.Store | ast.Del):
                yield from _stored_into(node, names, defaults)
        elif isinstance(node, ast.Call):
            yield from _called(node, names, defaults)


def _stored_into(
    node: ast.Attribute | ast.Subscript, names: Names, defaults: set[str]
) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node.value, ast.Name) and node.value.id in defaults:
        yield node, f"changes the default of its parameter {node.value.id}"
        return
    # `self.x = …` changes the state; only what holds the attribute or item matters here.
    shared = names.is_shared(node if names.is_class(node.value) else node.value)
    if shared is not None:
        yield node, f"changes {shared}, which all agents share"


def _called(node: ast.Call, names: Names, defaults: set[str]) -> Iterator[tuple[ast.AST, str]]:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in _MUTATORS:
        holder = function.value
        if isinstance(holder, ast.Name) and holder.id in defaults:
            yield node, f"changes the default of its parameter {holder.id}"
            return
        shared = names.is_shared(holder)
        if shared is not None and _holds_container(holder, names):
            yield node, f"changes {shared}, which all agents share"
    elif isinstance(function, ast.Name) and node.args:
        found = names.meaning(function)
        builtin = "" if found is None else found.names[0] if found.names else ""
        target = node.args[0]
        if builtin in ("builtins.setattr", "builtins.delattr"):
            shared = names.is_shared(target)
            if names.is_class(target) or shared is not None:
                yield node, f"changes {shared or ast.unparse(target)}, which all agents share"
        elif builtin == "builtins.next":
            held = names.meaning(target)
            if held is not None and hasattr(type(held.value), "__next__"):
                yield node, f"moves {ast.unparse(target)} on, which all agents share"


def _holds_container(node: ast.expr, names: Names) -> bool:
    """Lists, dicts and sets, and whatever is taken out of one; methods of other objects may be
    called alike and change nothing."""
    if isinstance(node, ast.Subscript):
        return True
    found = names.meaning(node)
    if found is None or found.value is MISSING:
        return isinstance(node, ast.Attribute)
    containers = (MutableSequence, MutableMapping, MutableSet, bytearray)
    return isinstance(found.value, containers)


def _mutable_defaults(function: FunctionType) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if isinstance(each.default, list | dict | set)}
