"""Where the order of a set shows: it depends on hashes, which differ between processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from holdfast.testing.checking.naming import Names, is_set
from holdfast.testing.checking.sources import body_of

# They give the same for every order.
_ORDER_FREE = {
    "builtins.all",
    "builtins.any",
    "builtins.frozenset",
    "builtins.len",
    "builtins.max",
    "builtins.min",
    "builtins.set",
    "builtins.sorted",
    "builtins.sum",
}
_ORDERED = {
    "builtins.dict",
    "builtins.enumerate",
    "builtins.filter",
    "builtins.format",
    "builtins.iter",
    "builtins.list",
    "builtins.map",
    "builtins.repr",
    "builtins.str",
    "builtins.tuple",
    "builtins.zip",
}
_ORDERED_METHODS = {"extend", "join", "fromkeys", "extendleft"}


def orders(names: Names, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Every expression whose value depends on the order of a set."""

    def is_unordered(node: ast.expr) -> bool:
        return is_set(names.kind(node))

    for node in body_of(names.node):
        if isinstance(node, ast.For) and is_unordered(node.iter):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            if is_unordered(node.generators[0].iter) and not _is_order_free(node, names, parents):
                yield node.generators[0].iter
        elif isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load):
            parent = parents.get(node)
            if is_unordered(node.value) and not isinstance(parent, ast.Set):
                yield node.value
        elif isinstance(node, ast.FormattedValue) and is_unordered(node.value):
            yield node.value
        elif isinstance(node, ast.Call):
            yield from _called(node, names, parents)


def _called(node: ast.Call, names: Names, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    sets = [each for each in node.args if is_set(names.kind(each))]
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "pop" and not node.args and is_set(names.kind(node.func.value)):
            yield node
        elif node.func.attr in _ORDERED_METHODS:
            yield from sets
        return
    found = names.meaning(node.func)
    if (
        found is not None
        and _ORDERED & set(found.names)
        and not _is_order_free(node, names, parents)
    ):
        yield from sets


def _is_order_free(node: ast.AST, names: Names, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether what takes this value looks at no order: sorted(…), set(…), len(…)."""
    parent = parents.get(node)
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    found = names.meaning(parent.func)
    return found is not None and bool(_ORDER_FREE & set(found.names))
