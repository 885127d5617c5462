"""Which events, actions and calls some code mentions, found without running it.

A fleet has to know its event and action classes before the first one is sent, so that their schemas
are stored with the data. Code objects name every global they use; following those names, and the
helper functions and methods among them, finds all but what is computed at run time. It may find
more than is used, which does no harm. What is met later, `FleetModel.adopt` adds.
"""

import dis
import inspect
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import TypeAlias

from holdfast.model.calls import is_declared, why_not_callable
from holdfast.model.event import Action, Event

# Our own layers hold no user code; `holdfast.demo` does, and is followed like any other.
_OWN_LAYERS = ("holdfast.model", "holdfast.stepping", "holdfast.engine", "holdfast.runtime")


Output: TypeAlias = type[Event] | type[Action]


def references(functions: Iterable[object], owner: type | None = None) -> list[Output]:
    """The event and action classes these functions mention, directly or through helpers, each once
    and in the order met. Attributes like `self.land` are looked up in `owner`."""
    return _walk(functions, owner)[0]


def calls_in(functions: Iterable[object], owner: type | None = None) -> list[FunctionType]:
    """The functions they call through `ctx.call`, found in the same way: those that are marked with
    `call`, and others where they stand in the call itself."""
    return _walk(functions, owner)[1]


def _walk(
    functions: Iterable[object], owner: type | None
) -> tuple[list[Output], list[FunctionType]]:
    found: dict[Output, None] = {}
    calls: dict[FunctionType, None] = {}
    seen: set[CodeType] = set()
    waiting = [each for each in functions if each is not None]
    while waiting:
        function = inspect.unwrap(waiting.pop(0))  # type: ignore[arg-type]
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        called = _called(function)
        for value in _mentioned(function, owner):
            if isinstance(value, type) and issubclass(value, (Event, Action)):
                if value not in (Event, Action):
                    found.setdefault(value)
            elif isinstance(value, FunctionType) and _is_call(value, called):
                calls.setdefault(value)
            elif is_user_code(value, owner):
                waiting.extend(_functions_of(value))
    return list(found), list(calls)


def _is_call(function: FunctionType, called: set[str]) -> bool:
    found = is_declared(function) or function.__name__ in called
    return found and why_not_callable(function) is None


def _called(function: FunctionType) -> set[str]:
    """The first argument of everything named `call`: `f` of ctx.call(f, …) and ctx.call(m.f, …)."""
    found: set[str] = set()
    for code in _nested(function.__code__):
        if "call" not in code.co_names:
            continue
        steps = [each for each in dis.get_instructions(code) if each.opname != "PUSH_NULL"]
        for i, (one, other) in enumerate(pairwise(steps)):
            if one.argval != "call" or not one.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                continue
            while other.opname.startswith("LOAD_"):
                i, found_here = i + 1, other.argval
                other = steps[i + 1]
                if other.opname != "LOAD_ATTR":
                    found.add(str(found_here))
                    break
    return found


def _mentioned(function: FunctionType, owner: type | None) -> Iterator[object]:
    """What the names in the function's code stand for."""
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for cell in closure.values():
        try:
            yield cell.cell_contents
        except ValueError:
            pass  # a variable of the enclosing function that has no value yet
    modules: list[ModuleType] = []
    names = [name for code in _nested(function.__code__) for name in code.co_names]
    for name in names:
        for value in (function.__globals__.get(name), getattr(owner, name, None)):
            if isinstance(value, ModuleType):
                modules.append(value)
            elif value is not None:
                yield value
    # `events.Land()` names a module and an attribute; which belongs to which, the code knows only
    # at run time, so every pair that exists is taken.
    for module in modules:
        if not module.__name__.startswith("holdfast.") and not _is_library(module):
            yield from (vars(module)[name] for name in names if name in vars(module))


def _nested(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the lambdas, comprehensions and functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _functions_of(value: object) -> list[object]:
    if isinstance(value, type):
        return [each for each in vars(value).values() if isinstance(each, FunctionType)]
    return [value]


def is_user_code(value: object, owner: type | None) -> bool:
    if not isinstance(value, (FunctionType, type)):
        return False
    module = getattr(value, "__module__", None) or ""
    if module.startswith(_OWN_LAYERS) or module == "builtins":
        return False
    if owner is not None and _top_package(value) == _top_package(owner):
        return True
    return not _is_library(sys.modules.get(module))


def _is_library(module: ModuleType | None) -> bool:
    """The standard library and installed packages mention no events of this fleet."""
    if module is None:
        return True
    file = getattr(module, "__file__", None) or ""
    top = module.__name__.partition(".")[0]
    return top in sys.stdlib_module_names or "site-packages" in file


def _top_package(value: object) -> str:
    return str(getattr(value, "__module__", "") or "").partition(".")[0]
