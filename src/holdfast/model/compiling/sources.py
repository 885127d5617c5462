"""The source of a handler, guard or helper as a syntax tree, with the lines of its file."""

from __future__ import annotations

import ast
import inspect
from types import CodeType, FunctionType
from typing import TypeAlias

from holdfast.model.compiling.kinds import CannotCompile

Body: TypeAlias = ast.FunctionDef | ast.Lambda
# Read once, while the class is defined: a file that is edited later is not what runs.
_trees: dict[CodeType, Body] = {}


def tree_of(function: FunctionType) -> Body:
    code = function.__code__
    if code not in _trees:
        _trees[code] = _read(function, code)
    return _trees[code]


def _read(function: FunctionType, code: CodeType) -> Body:
    if hasattr(function, "__wrapped__"):
        raise CannotCompile(
            f"{function.__name__} has a decorator around it: take it off", code.co_firstlineno
        )
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        raise CannotCompile(
            f"the source of {function.__name__} is not at hand: put it into a file",
            code.co_firstlineno,
        ) from None
    text = "".join(lines)
    if function.__name__ == "<lambda>":
        return _lambda(code, text, first)
    try:
        found = _statement(text)
    except SyntaxError:
        found = ast.Pass()
    if not isinstance(found, ast.FunctionDef) or _yields(found):
        raise CannotCompile(f"{function.__name__} is not a plain function: write it as one", first)
    ast.increment_lineno(found, first - 2)
    return found


def _statement(text: str) -> ast.stmt:
    """Below a line of its own, so that nothing has to be moved to the left: not what stands inside
    a text of several lines."""
    block = ast.parse(_below(text)).body[0]
    return block.body[0] if isinstance(block, ast.If) else block


def _below(text: str) -> str:
    return f"if True:\n{text}" if text[:1].isspace() else f"\n{text}"


def _yields(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(tree))


def _lambda(code: CodeType, text: str, first: int) -> ast.Lambda:
    """The one in these lines that compiles to the same code: there may be several."""
    bare = text.strip()
    decorated = f"{text.rstrip()}\n{text[: len(text) - len(text.lstrip())]}def _(): ..."
    parts = f"\n({bare.rstrip(',')})", f"\n({bare})"
    for candidate in (_below(text), _below(decorated), *parts):
        try:
            tree = ast.parse(candidate)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda) and _same(node, code):
                ast.increment_lineno(node, first - 2)
                return node
    raise CannotCompile("the source of this lambda is not at hand: write it as a function", first)


def _same(node: ast.Lambda, code: CodeType) -> bool:
    """Compiled inside a function that has its free variables, it is the same to the last step."""
    free = [ast.arg(name) for name in code.co_freevars]
    none = ast.arguments([], free, None, [], [], None, [])
    around = ast.Expression(ast.Lambda(none, node))
    outer = _code_in(compile(ast.fix_missing_locations(around), "", "eval"))
    inner = _code_in(outer)
    return all(
        getattr(inner, name) == getattr(code, name)
        for name in ("co_code", "co_names", "co_varnames", "co_freevars")
    ) and _constants(inner) == _constants(code)


def _code_in(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _constants(code: CodeType) -> list[str]:
    return [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
