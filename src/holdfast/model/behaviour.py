"""What a handler can do, read from its source: the modes it may set and the classes it makes.

For diagrams, so a guess that shows too much is better than one that hides something: an `if` counts
both ways, and a mode that is computed may be any. Helper methods and functions are followed. Code
whose source is not at hand (typed into a prompt) still shows the classes it mentions.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import TypeAlias

from holdfast.model.agent import Agent
from holdfast.model.event import Action, Event
from holdfast.model.handlers import Handler
from holdfast.model.references import is_user_code, references

Output: TypeAlias = type[Event] | type[Action]
_UNKNOWN = object()


@dataclass(frozen=True)
class Behaviour:
    modes: tuple[Enum, ...]
    outputs: tuple[Output, ...]


def behaviour_of(agent: type[Agent], handler: Handler) -> Behaviour:
    reading = _Reading(agent)
    function = inspect.unwrap(handler.function)
    if not isinstance(function, FunctionType) or not reading.follow(function, agent_at=0):
        mentioned = references([function], agent)
        return Behaviour((), tuple(each for each in mentioned if each not in handler.events))
    return Behaviour(tuple(reading.modes), tuple(reading.outputs))


class _Reading:
    """One walk through a handler and all it calls."""

    def __init__(self, agent: type[Agent]) -> None:
        self.agent = agent
        self.modes: dict[Enum, None] = {}
        self.outputs: dict[Output, None] = {}
        self._seen: set[FunctionType] = set()

    def follow(self, function: FunctionType, agent_at: int | None) -> bool:
        """Read one function; `agent_at` is the parameter in which it gets the agent. False if its
        source cannot be read."""
        if function in self._seen:
            return True
        self._seen.add(function)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, SyntaxError):
            return False
        names = dict(function.__globals__) | _closure(function)
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        agent_name = None
        if agent_at is not None and agent_at < len(parameters):
            agent_name = parameters[agent_at]
            names[agent_name] = self.agent
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target, value in _assignments(node):
                    self._assigned(target, value, agent_name, names)
            elif isinstance(node, ast.Call):
                self._called(node, agent_name, names)
        return True

    def _assigned(
        self, target: ast.expr, value: ast.expr, agent_name: str | None, names: Mapping[str, object]
    ) -> None:
        definition = self.agent.__holdfast__
        if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
            return
        if target.attr != definition.mode_field or target.value.id != agent_name:
            return
        for choice in _choices(value):
            found = _meaning(choice, names)
            known = isinstance(found, Enum) and found in definition.modes
            self.modes.update(dict.fromkeys([found] if known else definition.modes))  # type: ignore[list-item]

    def _called(self, call: ast.Call, agent_name: str | None, names: Mapping[str, object]) -> None:
        found = _meaning(call.func, names)
        if isinstance(found, type) and issubclass(found, (Event, Action)):
            self.outputs.setdefault(found)
        elif isinstance(found, FunctionType) and is_user_code(found, self.agent):
            method = isinstance(call.func, ast.Attribute) and (
                isinstance(call.func.value, ast.Name) and call.func.value.id == agent_name
            )
            self.follow(found, 0 if method else _position(call, agent_name))


def _closure(function: FunctionType) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            pass  # not assigned yet
    return found


def _assignments(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of target and value, also of `a, b = c, d`."""
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield node.target, node.value
        return
    for target in node.targets:
        several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
        if several and len(target.elts) == len(node.value.elts):  # type: ignore[attr-defined]
            yield from zip(target.elts, node.value.elts, strict=True)  # type: ignore[attr-defined]
        elif isinstance(target, ast.Tuple):
            yield from ((each, node.value) for each in target.elts)
        else:
            yield target, node.value


def _choices(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from _choices(value.body)
        yield from _choices(value.orelse)
    else:
        yield value


def _meaning(expression: ast.expr, names: Mapping[str, object]) -> object:
    """What a dotted name stands for. Only modules and classes are looked into: nothing is run."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id, _UNKNOWN)
    if isinstance(expression, ast.Attribute):
        inside = _meaning(expression.value, names)
        if isinstance(inside, (ModuleType, type)):
            return getattr(inside, expression.attr, _UNKNOWN)
    return _UNKNOWN


def _position(call: ast.Call, agent_name: str | None) -> int | None:
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Name) and argument.id == agent_name:
            return position
    return None
