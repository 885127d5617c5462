"""The code of a fleet that has to be deterministic: handlers, guards, upcasts and what they call.

`entries` are the beginnings; whoever reads one finds more. Functions come with the syntax tree of
their definition, found by file and line. Code without a file cannot be read and is named instead.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

import msgspec

from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import Handler

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Part:
    """One function that runs while events are folded."""

    subject: str  # the handler it runs for
    function: FunctionType
    owner: type | None  # the class of `self`
    types: tuple[tuple[str, object], ...] = ()  # of parameters, where no annotation says them
    helper: str = ""  # its name, if it is not the handler itself


def entries(fleet: FleetModel) -> Iterator[Part]:
    for agent in fleet.agents.values():
        for handler in agent.__holdfast__.handlers:
            name = f"{agent.__name__}.{handler.name}"
            yield from _part(name, handler.function, agent, handler)
            yield from _part(f"{name} (when=)", handler.when, agent, handler)
    classes: list[type] = [*fleet.agents.values(), *fleet.events.values(), *fleet.actions.values()]
    for cls in classes:
        upcast = inspect.getattr_static(cls, "upcast", None)
        if isinstance(upcast, classmethod):
            yield from _part(f"{cls.__name__}.upcast", upcast.__func__, cls)
        for field in msgspec.structs.fields(cls):
            factory = field.default_factory
            yield from _part(f"{cls.__name__}.{field.name} (default)", factory, None)


def _part(
    subject: str, function: object, owner: type | None, handler: Handler | None = None
) -> Iterator[Part]:
    plain = unwrapped(function)
    if plain is None:
        return
    types: list[tuple[str, object]] = []
    if handler is not None:
        names = [*inspect.signature(plain).parameters]
        event = handler.events[0] if len(handler.events) == 1 else None
        types = list(zip(names, (owner, event), strict=False))
    yield Part(subject, plain, owner, tuple(types))


def unwrapped(function: object) -> FunctionType | None:
    """The plain function behind decorators that say what they wrap."""
    plain = inspect.unwrap(function) if callable(function) else None
    return plain if isinstance(plain, FunctionType) else None


def body_of(node: FunctionNode) -> Iterator[ast.AST]:
    """What runs when the function is called: not its annotations and decorators."""
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for each in body:
        yield from ast.walk(each)


class Files:
    """Syntax trees of files, each parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, dict[tuple[str, int], list[FunctionNode]]] = {}

    def nodes(self, function: FunctionType) -> list[FunctionNode]:
        """The definition; several if lambdas share a line, none if there is no source."""
        code = function.__code__
        if code.co_filename not in self._trees:
            self._trees[code.co_filename] = self._parse(code, function)
        return self._trees[code.co_filename].get((code.co_name, code.co_firstlineno), [])

    def line(self, file: str, number: int) -> str:
        return linecache.getline(file, number)

    def _parse(
        self, code: CodeType, function: FunctionType
    ) -> dict[tuple[str, int], list[FunctionNode]]:
        linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, function.__globals__)
        found: dict[tuple[str, int], list[FunctionNode]] = {}
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            return found  # the file has changed since it was loaded
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda):
                found.setdefault(("<lambda>", node.lineno), []).append(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found.setdefault((node.name, first), []).append(node)
        return found
