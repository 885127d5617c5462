"""Finding the fleet a user means: `fleet.py`, `fleet.py:name` or `package.module:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.view import AnyView, View, ViewMeta, check_view
from holdfast.runtime.fleet import Fleet


def load_view(reference: str) -> type[AnyView]:
    """`fleet.py:ZoneLoad` or `package.module:ZoneLoad`."""
    place, _, name = reference.partition(":")
    module = _module(place, "your View")
    found = getattr(module, name, None)
    if not isinstance(found, ViewMeta) or found is View:
        views = [n for n, v in vars(module).items() if isinstance(v, ViewMeta) and v is not View]
        there = f"there is {', '.join(views)}" if views else "there is none at top level"
        raise UsageError(f"{reference} names no View: {there}; write {place}:NAME")
    return check_view(found)


def load_fleet(reference: str) -> Fleet:
    place, _, name = reference.partition(":")
    module = _module(place, "your Fleet")
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, Fleet):
            names = [each for each, value in vars(module).items() if isinstance(value, Fleet)]
            there = f"there is {', '.join(names)}" if names else "there is none at top level"
            raise UsageError(f"{reference}: {name!r} is no Fleet in {place}: {there}")
        return found
    fleets = {id(v): v for v in vars(module).values() if isinstance(v, Fleet)}
    if len(fleets) != 1:
        if not fleets:
            raise UsageError(
                f'{place}: no Fleet at top level: add one, as in fleet = Fleet("name", agents=[…])'
            )
        raise UsageError(
            f"{place}: {len(fleets)} fleets at top level: name one as in {place}:fleet"
        )
    return next(iter(fleets.values()))


def _module(place: str, defines: str) -> ModuleType:
    return module_from_file(Path(place), defines) if place.endswith(".py") else _from_module(place)


def module_from_file(path: Path, defines: str) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: no such file: give the file that defines {defines}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: Python cannot load this file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _execute(str(path), lambda: spec.loader.exec_module(module) if spec.loader else None)
    return module


def _from_module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    modules: list[ModuleType] = []
    _execute(name, lambda: modules.append(importlib.import_module(name)))
    return modules[0]


def _execute(what: str, run: object) -> None:
    """User code may fail in any way; say where, in one line, and let our own errors through."""
    try:
        run()  # type: ignore[operator]
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:
        line = line_of(error, what)
        raise UsageError(f"{what}{line}: {type(error).__name__}: {error}") from error


def line_of(error: BaseException, what: str) -> str:
    """ ":12" for the last line of the file `what` that the error passed through, or nothing."""
    trace = error.__traceback__
    line = ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(Path(what).name):
            line = f":{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        line = f":{error.lineno}"
    return line
