"""The source of a handler, guard or helper as a syntax tree, with lines as its file numbers them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType, FunctionType

from holdfast.model.compiling.kinds import CannotCompile

Body = ast.FunctionDef | ast.Lambda


def tree_of(function: FunctionType) -> Body:
    first = function.__code__.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise CannotCompile(
            f"the source of {function.__qualname__} is not at hand: put it into a file", first
        ) from None
    text = textwrap.dedent("".join(lines))
    if function.__name__ != "<lambda>":
        tree = ast.parse(text)
        found = tree.body[0]
        if not isinstance(found, ast.FunctionDef):
            raise CannotCompile(f"{function.__qualname__} is not a plain function", first)
        ast.increment_lineno(found, first - 1)
        return found
    return _lambda(function.__code__, text, first)


def _lambda(code: CodeType, text: str, first: int) -> ast.Lambda:
    """The one in these lines that compiles to the same code: there may be several."""
    for candidate in (text, f"{text}\n    def _(): ...", f"({text.strip().rstrip(',')})"):
        try:
            tree = ast.parse(candidate)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda) and _same(node, code):
                ast.increment_lineno(node, first - 1)
                return node
    raise CannotCompile("this lambda's source is not at hand: write it as a function", first)


def _same(node: ast.Lambda, code: CodeType) -> bool:
    compiled = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")
    return any(
        isinstance(each, CodeType)
        and (each.co_names, each.co_varnames) == (code.co_names, code.co_varnames)
        and _constants(each) == _constants(code)
        and each.co_code == code.co_code
        for each in compiled.co_consts
    )


def _constants(code: CodeType) -> list[str]:
    return [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
