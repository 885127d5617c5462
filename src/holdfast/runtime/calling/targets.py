"""How another process finds a function: by its module, or by its file where that is a program."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from holdfast.errors import UsageError

MAIN = "__main__"
_MAIN_HERE = "__holdfast_main__"  # so that `if __name__ == "__main__":` does not start it again
_under_way: list[str] = []  # the modules that are imported here at this moment


class Target(NamedTuple):
    module: str
    file: str  # empty where there is none
    name: str


def target_of(function: Callable[..., object]) -> Target:
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None) or ""
    name = function.__module__
    if name == MAIN:
        spec = getattr(module, "__spec__", None)
        name = spec.name if spec is not None else MAIN  # `python -m package.program` has one
        if spec is None and not Path(file).is_file():
            raise UsageError(
                f"{function.__name__} cannot be called: it was typed in and is in no file: "
                "put it into a module, and import it"
            )
    return Target(name, os.path.abspath(file) if file else "", function.__name__)


def find(target: Target) -> Callable[..., object]:
    _under_way.append(target.module)
    try:
        module = _module_of(target)
    finally:
        _under_way.pop()
    function = getattr(module, target.name, None)
    if not callable(function):
        raise UsageError(f"{target.file or target.module} has no function {target.name}")
    found: Callable[..., object] = function
    return found


def _module_of(target: Target) -> ModuleType:
    if target.module == MAIN:
        return sys.modules.get(_MAIN_HERE) or _from_file(target.file, _MAIN_HERE)
    try:
        module = importlib.import_module(target.module)
    except ModuleNotFoundError as error:
        if not target.file or error.name is None or not target.module.startswith(error.name):
            raise
        return _from_file(target.file, target.module)
    found = getattr(module, "__file__", None)
    if found and target.file and not os.path.samefile(found, target.file):
        # A program file may have the name of a module that is found first.
        name = f"{target.module}@{target.file}"
        return sys.modules.get(name) or _from_file(target.file, name)
    return module


def _from_file(file: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: Python cannot load this file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def check_not_importing() -> None:
    """A program that opens its fleet while a child imports it would start children without end."""
    if _under_way:
        raise UsageError(
            "this program opens its fleet when it is imported, and its functions run in processes "
            'that import it: open the fleet under `if __name__ == "__main__":`'
        )
